"""Weights on one card: what an engine divides, replicates or pads over TP / EP / PP, as rules on tensor groups.

Sources: vLLM 0.33 model_executor/layers/{linear,vocab_parallel_embedding}.py and fused_moe/layer.py (what is divided),
distributed/utils.py get_pp_indices (which layers a stage holds), models/gemma4.py (a tied K is loaded into the V slot
too). SGLang 0.5.23 builds the same parallel layers. The fullest card counts.
"""

from __future__ import annotations

from collections.abc import Callable

from calc.prediction import Resolved
from onboard.profile import TensorGroup
from onboard.values import Struct

EXPERT_PADDING = 64
VOCAB_PADDING = 64  # DEFAULT_VOCAB_PADDING_SIZE
HALVED = {"f32": 2, "float32": 2, "f64": 4, "float64": 4}  # loaded at 16 bits (dtype `auto` of both engines)


class Split(Struct, frozen=True):
    """How a plan divides a model. `ep` is the number of cards that share the experts whole (1: TP divides each).

    Data parallelism moves two of the widths off TP; 0 means that they are TP's.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_tp: int = 0  # cards that divide the attention: TP / DP under SGLang's DP attention
    expert_tp: int = 0  # cards that divide each expert: TP x DP in vLLM without EP
    whole_embedding: bool = False  # SGLang: the embedding is on every card under DP attention
    keeps_tied_k: bool = False  # the engine stores a tied K once (llama.cpp)
    expert_width: int = (
        0  # MXFP4: each card's share of an expert's width is padded to 64 (layers/quantization/mxfp4.py)
    )

    @property
    def by_heads(self) -> int:
        return self.attention_tp or self.tp

    @property
    def text(self) -> str:
        parts = (
            [f"TP {self.tp}"] + ([f"EP {self.ep}"] if self.ep > 1 else []) + ([f"PP {self.pp}"] if self.pp > 1 else [])
        )
        return ", ".join(parts)


def split_of(resolved: Resolved) -> Split:
    """The split a resolved plan means. Experts go whole to cards under expert parallelism.

    vLLM 0.33: each DP rank is TP cards of its own, and experts spread over all of them (layers/fused_moe/config.py).
    SGLang 0.5.23: DP attention divides the TP cards into groups (layers/dp_attention.py); experts stay on all of them.
    """
    plan, tp, dp = resolved.plan, resolved.plan.tensor_parallel_size, resolved.plan.data_parallel_size
    pp = plan.pipeline_parallel_size
    if resolved.engine == "sglang":
        ep = tp if plan.enable_expert_parallel else 1
        return Split(tp=tp, pp=pp, ep=ep, attention_tp=max(1, tp // dp), whole_embedding=dp > 1)
    return Split(tp=tp, pp=pp, ep=tp * dp if plan.enable_expert_parallel else 1, expert_tp=tp * dp)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _divided(group: TensorGroup, size: int, split: Split) -> int:
    return _ceil(size, split.tp)


def _by_attention(group: TensorGroup, size: int, split: Split) -> int:
    return _ceil(size, split.by_heads)


def _whole(group: TensorGroup, size: int, split: Split) -> int:
    return size


def _by_heads(group: TensorGroup, size: int, split: Split) -> int:
    """Each card holds whole heads, at least one: replicated beyond TP = heads."""
    units, cards = group.num_units, split.by_heads
    return _ceil(size * _ceil(units, cards), units) if units else _ceil(size, cards)


def _tied_k(group: TensorGroup, size: int, split: Split) -> int:
    """One stored K=V matrix fills both the K and the V slot of the fused projection."""
    return _by_heads(group, size if split.keeps_tied_k else 2 * size, split)


def _by_rows(group: TensorGroup, size: int, split: Split) -> int:
    """Vocabulary rows, padded to 64, then divided."""
    rows = group.num_units
    if not rows:
        return _ceil(size, split.tp)
    padded = _ceil(rows, VOCAB_PADDING) * VOCAB_PADDING
    return _ceil(size * _ceil(padded, split.tp), rows)


def _embedding(group: TensorGroup, size: int, split: Split) -> int:
    return size if split.whole_embedding else _by_rows(group, size, split)


def _by_experts(group: TensorGroup, size: int, split: Split) -> int:
    """Whole experts on the fullest card under EP; under TP every expert is divided."""
    if split.ep > 1 and group.num_units:
        return _ceil(size * _ceil(group.num_units, split.ep), group.num_units)
    cards = split.expert_tp or split.tp
    if split.expert_width:
        padded = _ceil(_ceil(split.expert_width, cards), EXPERT_PADDING) * EXPERT_PADDING
        return _ceil(size * padded, split.expert_width)
    return _ceil(size, cards)


def _nothing(group: TensorGroup, size: int, split: Split) -> int:
    return 0


RULES: dict[str, Callable[[TensorGroup, int, Split], int]] = {
    "embedding": _embedding,
    "lm_head": _by_rows,
    "attention": _by_attention,
    "latent_up": _by_attention,
    "kv_proj": _by_heads,
    "kv_unused": _by_heads,
    "kv_tied": _tied_k,
    "mlp": _divided,
    "experts": _by_experts,
    "shared_expert": _divided,
    "state": _by_attention,
    "state_groups": _by_heads,
    "router": _whole,
    "norm": _whole,
    "replicated": _whole,
    "other": _whole,
    "tied_copy": _nothing,  # stored in the checkpoint though the head is the embedding: never loaded
}
WORDS: dict[Callable[[TensorGroup, int, Split], int], str] = {
    _divided: "divided by TP",
    _whole: "whole on every card",
    _by_heads: "whole KV heads",
    _tied_k: "K fills the V slot too",
    _by_attention: "divided by TP",
    _embedding: "vocabulary rows padded to 64, divided by TP",
    _by_rows: "vocabulary rows padded to 64, divided by TP",
    _by_experts: "experts",
    _nothing: "not loaded",
}


def card_bytes(group: TensorGroup, split: Split) -> int:
    """Bytes of one copy (one layer) of a group on the fullest card."""
    size = group.num_bytes
    size //= HALVED.get(group.dtype, 1)
    return RULES[group.kind](group, size, split)


def is_whole(group: TensorGroup) -> bool:
    """Whether every card holds all of the group."""
    return RULES[group.kind] is _whole


def served(group: TensorGroup, *, language_model_only: bool = False, drafts: bool = False) -> bool:
    """Whether an engine loads the group: towers unless dropped, the draft head only when speculating, talkers never."""
    part = group.part
    if part in ("vision", "audio"):
        return not language_model_only
    if part == "mtp":  # its embedding and head are the target's own
        return drafts and group.kind not in ("embedding", "lm_head", "tied_copy")
    return part == ""


def stage_layers(num_layers: int, pp: int) -> list[range]:
    """Layers of each pipeline stage; what is left over goes to the stages before the last (get_pp_indices)."""
    sizes = [num_layers // pp] * pp
    for i in range(2, num_layers % pp + 2):
        sizes[-i] += 1
    starts = [sum(sizes[:i]) for i in range(pp)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def fullest_stage(groups: tuple[TensorGroup, ...], split: Split, num_layers: int) -> int:
    """Bytes on a card of the fullest stage: the first holds the embeddings and towers, the last the head."""
    stages = stage_layers(num_layers, split.pp)
    has_head = any(g.kind == "lm_head" and not g.part for g in groups)
    totals = [0] * split.pp
    for group in groups:
        size = card_bytes(group, split)
        if not group.layers or group.part in ("vision", "audio"):
            last = group.kind == "lm_head" or group.part == "mtp"
            totals[-1 if last else 0] += size * group.copies
            if split.pp > 1 and group.kind == "embedding" and not group.part and not has_head:
                totals[-1] += size * group.copies  # a tied head needs its own copy of the embedding
            continue
        for layer in group.layers:
            totals[next((i for i, s in enumerate(stages) if layer in s), -1)] += size
    return max(totals)
