"""Weights on one card: what an engine divides, replicates or pads over TP / EP / PP, as rules on tensor groups.

Sources: vLLM 0.33 model_executor/layers/{linear,vocab_parallel_embedding}.py and fused_moe/layer.py (what is divided),
distributed/utils.py get_pp_indices (which layers a stage holds), models/gemma4.py (a tied K is loaded into the V slot
too). SGLang 0.5.23 builds the same parallel layers. The fullest card counts.
"""

from __future__ import annotations

from collections.abc import Callable

from calc.prediction import Resolved, Term
from onboard.errors import WeightsUnknown
from onboard.profile import Profile, TensorGroup, WeightVariant
from onboard.values import Struct, replace

EXPERT_PADDING = 64
VOCAB_PADDING = 64  # DEFAULT_VOCAB_PADDING_SIZE
HALVED = {"f32": 2, "float32": 2, "f64": 4, "float64": 4}  # loaded at 16 bits (dtype `auto` of both engines)


class Split(Struct, frozen=True):
    """How a plan divides a model. `ep` is the number of cards that share the experts whole (1: TP divides each)."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    keeps_tied_k: bool = False  # the engine stores a tied K once (llama.cpp)
    expert_width: int = (
        0  # MXFP4: each card's share of an expert's width is padded to 64 (layers/quantization/mxfp4.py)
    )

    @property
    def text(self) -> str:
        parts = (
            [f"TP {self.tp}"] + ([f"EP {self.ep}"] if self.ep > 1 else []) + ([f"PP {self.pp}"] if self.pp > 1 else [])
        )
        return ", ".join(parts)


def split_of(resolved: Resolved) -> Split:
    """The split a resolved plan means. Experts go whole to cards under expert parallelism: EP = TP x DP (vLLM)."""
    plan = resolved.plan
    ep = plan.tensor_parallel_size * plan.data_parallel_size if plan.enable_expert_parallel else 1
    return Split(tp=plan.tensor_parallel_size, pp=plan.pipeline_parallel_size, ep=ep)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _divided(group: TensorGroup, size: int, split: Split) -> int:
    return _ceil(size, split.tp)


def _whole(group: TensorGroup, size: int, split: Split) -> int:
    return size


def _by_heads(group: TensorGroup, size: int, split: Split) -> int:
    """Each card holds whole heads, at least one: replicated beyond TP = heads."""
    units = group.num_units
    return _ceil(size * _ceil(units, split.tp), units) if units else _ceil(size, split.tp)


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


def _by_experts(group: TensorGroup, size: int, split: Split) -> int:
    """Whole experts on the fullest card under EP; under TP every expert is divided."""
    if split.ep > 1 and group.num_units:
        return _ceil(size * _ceil(group.num_units, split.ep), group.num_units)
    if split.expert_width:
        padded = _ceil(_ceil(split.expert_width, split.tp), EXPERT_PADDING) * EXPERT_PADDING
        return _ceil(size * padded, split.expert_width)
    return _ceil(size, split.tp)


def _nothing(group: TensorGroup, size: int, split: Split) -> int:
    return 0


RULES: dict[str, Callable[[TensorGroup, int, Split], int]] = {
    "embedding": _by_rows,
    "lm_head": _by_rows,
    "attention": _divided,
    "latent_up": _divided,
    "kv_proj": _by_heads,
    "kv_unused": _by_heads,
    "kv_tied": _tied_k,
    "mlp": _divided,
    "experts": _by_experts,
    "shared_expert": _divided,
    "state": _divided,
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


def chosen_variant(profile: Profile, name: str | None) -> WeightVariant:
    """The variant the plan names, else the profile's default, else its only one. Raises WeightsUnknown."""
    wanted = name or profile.default_weights
    for variant in profile.weights:
        if wanted is None or variant.name == wanted:
            return variant
    missing = (
        f"{profile.id} has no weights called {wanted!r}" if wanted else f"the weights of {profile.id} are not known"
    )
    hint = "give --weights-gb X (10^9 bytes, the checkpoint's size)"
    hint += "".join(f", or --weights {w.name}" for w in profile.weights)
    raise WeightsUnknown(missing, path="--weights", value=wanted, hint=hint)


def weights_term(profile: Profile, resolved: Resolved) -> Term:
    """Bytes of weights on the fullest card. Raises WeightsUnknown where nothing gives them."""
    plan, split = resolved.plan, split_of(resolved)
    if plan.weights_gb is not None:
        total = round(plan.weights_gb * 10**9)
        return _even("option", total, split, f"--weights-gb {plan.weights_gb:g}")
    variant = chosen_variant(profile, plan.weights)
    return variant_term(profile, variant, split, language_model_only=plan.language_model_only)


def variant_term(profile: Profile, variant: WeightVariant, split: Split, *, language_model_only: bool = False) -> Term:
    """The weights term of one variant under one split."""
    if not variant.groups:
        from calc.totals import total_term

        return total_term(
            profile, variant.num_bytes, split, origin=variant.origin, where=f"{variant.name}: {variant.where}",
            error_ppm=variant.error_ppm, text_only=language_model_only,
        )  # fmt: skip
    groups = tuple(g for g in variant.groups if served(g, language_model_only=language_model_only))
    if variant.quantization == "mxfp4":
        width = profile.fact("moe_intermediate_size") or profile.fact("intermediate_size")
        split = replace(split, expert_width=width if isinstance(width, int) else 0)
    size = fullest_stage(groups, split, len(profile.layers))
    margin = size * variant.error_ppm // 10**6
    return Term(
        name="weights", bytes=size, low_bytes=size - margin, high_bytes=size + margin, origin=variant.origin,
        rule=explain(groups, split, profile) + f" ({variant.name}, from {variant.where})",
    )  # fmt: skip


def _even(origin: str, total: int, split: Split, where: str) -> Term:
    """A total whose parts are not known, divided by the cards: what is replicated is not counted twice."""
    shares = split.tp * split.pp
    size = _ceil(total, shares)
    return Term(
        name="weights", bytes=size, low_bytes=size, high_bytes=size if shares == 1 else size + size // 20,
        rule=f"{total} B / {shares} card(s) = {size} ({where})", origin=origin,
    )  # fmt: skip


def explain(groups: tuple[TensorGroup, ...], split: Split, profile: Profile) -> str:
    """The sum by rule, so that it can be redone by hand: for each rule the stored bytes and what one card holds."""
    stored: dict[str, int] = {}
    held: dict[str, int] = {}
    for group in groups:
        word = WORDS[RULES[group.kind]]
        if word == "experts":
            whole = f"whole experts over EP {split.ep}, the fullest card"
            word = whole if split.ep > 1 else "experts, each divided by TP"
        stored[word] = stored.get(word, 0) + group.num_bytes * group.copies
        held[word] = held.get(word, 0) + card_bytes(group, split) * group.copies
    parts = [f"{word}: {stored[word]} -> {held[word]}" for word in stored if held[word]]
    return f"{split.text}; " + "; ".join(parts) + ("; of that the fullest stage" if split.pp > 1 else "")
