"""Compute buffers of graphs that are not rebuilt here (experts, recurrent layers, latent attention): an estimate.

Source: fitted to measured buffers of llama.cpp 0c1e57098 (llama_get_memory_breakdown). Masks, inputs and logits
are exact; the widest layer is not. Counts are f32 elements a token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calc.engines.llamacpp.cache import window_cells
from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.placement import HOST, Placement
from calc.engines.llamacpp.settings import Settings
from onboard.layers import Heads, Indexer, LatentAttention, WindowAttention
from onboard.profile import Profile
from onboard.values import Struct

# Half widths in the graphs measured: of a formula found exact on cards with flash attention, and of any other.
NEAR, LOW, HIGH = 0.05, 0.55, 1.8
PIPELINE_COPIES = 4
_RULE = "masks, scores and the widest layer, above the logits"


class Buffer(Struct, frozen=True):
    """Bytes of one device's compute buffer, with an interval where it is an estimate."""

    bytes: int
    low: int
    high: int
    rule: str = ""


class Widths(Struct, frozen=True):
    """What the widest layer is made of, in elements a token; `query` of all heads, `window_query` of sliding layers."""

    hidden: int
    mlp: int
    experts: int  # gate or up of the experts that a token uses
    used: int
    query: int
    window_query: int

    @property
    def routed(self) -> int:
        return self.used * self.hidden


# architecture -> the widest point of its graph on a card, exact where measured with flash attention
_WIDEST: dict[str, Callable[[Widths], int]] = {
    "qwen35": lambda w: 3 * w.mlp + 2 * w.hidden,
    "falcon-h1": lambda w: 3 * w.mlp + 2 * w.hidden + w.query,
    "lfm2": lambda w: 3 * w.mlp + 2 * w.hidden + w.query,
    "granitehybrid": lambda w: 3 * w.mlp + 2 * w.hidden + w.query,
    "qwen35moe": lambda w: 3 * w.experts + w.routed + 3 * w.hidden,
    "qwen3next": lambda w: 3 * w.experts + w.routed + 3 * w.hidden,
    "qwen3moe": lambda w: 3 * w.experts + w.routed + 2 * w.hidden + w.query,
    "qwen3vlmoe": lambda w: 3 * w.experts + w.routed + 2 * w.hidden + w.query,
    "minimax-m2": lambda w: 3 * w.experts + w.routed + 2 * w.hidden + w.query,
    "gpt-oss": lambda w: 2 * w.experts + w.routed + 2 * w.hidden + w.query,
    "gemma4": lambda w: 3 * w.experts + w.routed + 2 * w.hidden + w.window_query,
}


# models without a causal cache whose MLP is gated, and those that write text all the same
# -> residual streams beside its three matrices
_GATED_ENCODERS = {
    **dict.fromkeys(("dream", "llada", "eurobert", "neo-bert", "llama-embed", "gemma-embedding"), 4),
    "modern-bert": 3,
}
_WITH_LOGITS = frozenset({"dream", "llada", "llada-moe", "rnd1"})

# residual streams that the host holds beside its logits, above the one every graph does
_HOST_LOGITS = {"qwen35": 1}


def estimated_buffers(
    profile: Profile, model: LlamaModel, settings: Settings, placement: Placement
) -> dict[int, Buffer]:
    """A buffer for every device that computes, and the host's inputs."""
    tokens, hidden = settings.n_ubatch, _count(profile, "hidden_size")
    if model.arch.no_cache or model.name in _GATED_ENCODERS:
        return _encoder_buffers(profile, model, settings, placement)
    pipeline = settings.gpus > 1 and placement.all_offloaded() and settings.offload_kqv
    copies = PIPELINE_COPIES if pipeline else 1
    masks = _masks(model, settings)
    logits = 4 * settings.n_outputs * (_count(profile, "vocab_size") + hidden) + 4 * tokens * hidden
    scores = 0 if settings.flash_attn else 4 * tokens * settings.n_ctx_seq * _count(profile, "num_attention_heads")
    scores += _indexer_scores(profile, settings)
    rule, near = _widest(profile, model, settings)
    inside = copies * masks + scores + 4 * tokens * rule
    outputs = f"{settings.n_outputs:,} outputs x ({_count(profile, 'vocab_size'):,} vocabulary + {hidden:,} hidden)"
    logits_line = f"4 B x {outputs} + 4 B x {tokens:,} tokens x {hidden:,}; the logits"
    width = 2 if settings.flash_attn else 4
    cells = f"{copies} copies x {width} B x {tokens:,} tokens x {masks // (width * tokens):,} cells of masks"
    inside_line = f"{cells} + {scores:,} B scores + 4 B x {tokens:,} tokens x {rule:,} elements; {_RULE}"
    found: dict[int, Buffer] = {}
    for device in placement.devices:
        if device == HOST and device not in placement.layers:
            size = copies * (masks + 4 * tokens * hidden) + 4 * tokens * hidden
            found[device] = _interval(size, near, "; masks and inputs")
        elif device == HOST:
            stream = 4 * tokens * hidden  # the host holds the graph's input beside its layers
            size = max(logits + stream * _HOST_LOGITS.get(model.name, 0), inside + stream)
            found[device] = _interval(size, False, f"; {_RULE}")
        else:
            computes = device in placement.layers
            size = max(logits, inside) if computes else logits
            near = near and placement.all_offloaded() and not pipeline and not settings.cpu_moe_layers
            found[device] = _interval(size, near, logits_line if size == logits else inside_line)
    return found


def _encoder_buffers(
    profile: Profile, model: LlamaModel, settings: Settings, placement: Placement
) -> dict[int, Buffer]:
    """BERT and its kin: no cache, a mask of tokens x tokens, and embeddings instead of logits."""
    tokens, hidden = settings.n_ubatch, _count(profile, "hidden_size")
    gated = model.name in _GATED_ENCODERS
    width = _count(profile, "intermediate_size")
    mlp = (3 * width + _GATED_ENCODERS[model.name] * hidden if gated else width + 3 * hidden) + 3
    wide = 8 if gated else 6
    if settings.flash_attn:
        size = 4 * tokens * mlp + 2 * tokens * tokens
        line = f"4 B x {tokens:,} tokens x {mlp:,} elements + 2 B x {tokens:,} x {tokens:,} of mask"
    else:
        heads = _count(profile, "num_attention_heads")
        size = 4 * tokens * max(mlp + tokens, wide * hidden + 3 + tokens * (heads + 1))
        line = f"4 B x {tokens:,} tokens x {size // (4 * tokens):,} elements"
    if model.name in _WITH_LOGITS:
        logits = 4 * tokens * (_count(profile, "vocab_size") + 2 * hidden)
        if logits > size:
            size = logits
            vocab = f"{_count(profile, 'vocab_size'):,} vocabulary"
            line = f"4 B x {tokens:,} tokens x ({vocab} + 2 x {hidden:,} hidden)"
    inputs = 8 * tokens * hidden + 2 * tokens * tokens
    used = {d: size if d in placement.layers else inputs if d == HOST else 0 for d in placement.devices}
    return {
        d: _interval(b, True, f"{line if d in placement.layers else ''}; an encoder's widest layer and its mask")
        for d, b in used.items()
    }


def _interval(size: int, near: bool, rule: str) -> Buffer:
    low, high = (1 - NEAR, 1 + NEAR) if near else (LOW, HIGH)
    return Buffer(size, round(size * low), round(size * high), rule)


def _widest(profile: Profile, model: LlamaModel, settings: Settings) -> tuple[int, bool]:
    """The widest point, and whether it was found exact under such settings."""
    hidden, used = _count(profile, "hidden_size"), _count(profile, "num_experts_per_token")
    heads = _count(profile, "num_attention_heads")
    caches = [c for layer in profile.layers for c in layer.caches]
    widths = Widths(
        hidden=hidden,
        mlp=_count(profile, "intermediate_size"),
        experts=used * (_count(profile, "moe_intermediate_size") or _count(profile, "intermediate_size")),
        used=used,
        query=max((heads * c.k_dim for c in caches if isinstance(c, Heads)), default=0),
        window_query=max((heads * c.k_dim for c in caches if isinstance(c, WindowAttention)), default=0),
    )
    formula = _WIDEST.get(model.name)
    if formula is not None:
        inputs = (4 if model.states else 1) + 4 * max(1, len(model.caches))
        return formula(widths) + inputs, settings.flash_attn and settings.offload_kqv
    latent = max((heads * c.elements_per_token() for c in caches if isinstance(c, LatentAttention)), default=0)
    experts = 3 * widths.experts + widths.routed + 2 * hidden + widths.query
    dense = 3 * widths.mlp + 2 * hidden + widths.query
    return max(dense, experts, 6 * widths.query, 2 * latent + 4 * hidden), False


def _masks(model: LlamaModel, settings: Settings) -> int:
    """One mask a cache, f16 with flash attention, else f32."""
    cells = settings.n_ctx_seq if any(c.name == "full" and c.rows for c in model.caches) else 0
    cells += window_cells(model, settings) if any(c.window and c.rows for c in model.caches) else 0
    return (2 if settings.flash_attn else 4) * settings.n_ubatch * cells


def _indexer_scores(profile: Profile, settings: Settings) -> int:
    """Scores and their mask for every cell that the indexer weighs."""
    spec = next((c for layer in profile.layers for c in layer.caches if isinstance(c, Indexer)), None)
    return 0 if spec is None else 6 * settings.n_ubatch * (settings.n_ctx_seq // spec.tokens_per_entry)


def _count(profile: Profile, name: str) -> int:
    value: Any = profile.fact(name) or 0
    return int(max(value)) if isinstance(value, (tuple, list)) else int(value)
