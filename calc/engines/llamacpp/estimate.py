"""Compute buffers of graphs that are not rebuilt here (experts, recurrent layers, latent attention): an estimate.

Source: fitted to measured buffers of llama.cpp 0c1e57098 (llama_get_memory_breakdown). Masks, inputs and logits
are exact; the widest layer is not. Counts are f32 elements a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calc.engines.llamacpp.cache import window_cells
from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.placement import HOST, Placement
from calc.engines.llamacpp.settings import Settings
from onboard.layers import FullAttention, Indexer, LatentAttention
from onboard.profile import Profile

LOW, HIGH = 0.6, 1.6  # of the widest layer, over the architectures measured
PIPELINE_COPIES = 4


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes of one device's compute buffer, with an interval where it is an estimate."""

    bytes: int
    low: int
    high: int
    rule: str = ""


def estimated_buffers(
    profile: Profile, model: LlamaModel, settings: Settings, placement: Placement
) -> dict[int, Buffer]:
    """A buffer for every device that computes, and the host's inputs."""
    tokens, hidden = settings.n_ubatch, _count(profile, "hidden_size")
    copies = PIPELINE_COPIES if settings.gpus > 1 and placement.all_offloaded() and settings.offload_kqv else 1
    masks = _masks(model, settings)
    logits = 4 * settings.n_outputs * (_count(profile, "vocab_size") + hidden) + 4 * tokens * hidden
    scores = 0 if settings.flash_attn else 4 * tokens * settings.n_ctx_seq * _count(profile, "num_attention_heads")
    scores += _indexer_scores(profile, settings)
    width = 4 * tokens * _widest_layer(profile)
    found: dict[int, Buffer] = {}
    for device in placement.devices:
        computes = device in placement.layers
        if device == HOST and not computes:
            inputs = copies * (masks + 4 * tokens * hidden) + 4 * tokens * hidden
            found[device] = Buffer(inputs, inputs, inputs, "masks and inputs")
            continue
        sizes = [
            max(logits, copies * masks + scores + round(width * factor)) if computes else logits
            for factor in (1.0, LOW, HIGH)
        ]
        found[device] = Buffer(sizes[0], sizes[1], sizes[2], "estimate: masks, scores and the widest layer, or logits")
    return found


def _masks(model: LlamaModel, settings: Settings) -> int:
    """One mask a cache, f16 with flash attention, else f32."""
    cells = settings.n_ctx_seq if any(c.name == "full" and c.rows for c in model.caches) else 0
    cells += window_cells(model, settings) if any(c.window and c.rows for c in model.caches) else 0
    return (2 if settings.flash_attn else 4) * settings.n_ubatch * cells


def _indexer_scores(profile: Profile, settings: Settings) -> int:
    """Scores and their mask for every cell that the indexer weighs."""
    spec = next((c for layer in profile.layers for c in layer.caches if isinstance(c, Indexer)), None)
    return 0 if spec is None else 6 * settings.n_ubatch * (settings.n_ctx_seq // spec.tokens_per_entry)


def _widest_layer(profile: Profile) -> int:
    """The larger of the MLP (gate, up, product of the experts used) and the attention, with the residual stream."""
    hidden, used = _count(profile, "hidden_size"), _count(profile, "num_experts_per_token")
    heads = _count(profile, "num_attention_heads")
    caches = [c for layer in profile.layers for c in layer.caches]
    query = max((heads * c.k_dim for c in caches if isinstance(c, FullAttention)), default=0)
    latent = max((heads * c.elements_per_token() for c in caches if isinstance(c, LatentAttention)), default=0)
    dense = 3 * _count(profile, "intermediate_size") + 2 * hidden + query
    experts = used * (3 * _count(profile, "moe_intermediate_size") + hidden) + 2 * hidden + query
    return max(dense, experts, 6 * query, 2 * latent + 4 * hidden)


def _count(profile: Profile, name: str) -> int:
    value: Any = profile.fact(name) or 0
    return int(max(value)) if isinstance(value, (tuple, list)) else int(value)
