"""The raw cache buckets of `--kv-breakdown`, and the specification's planning extras. Reporting only.

Buckets are architecture: no engine's rounding. The verdict never depends on them.
"""

from __future__ import annotations

from fractions import Fraction

from calc.kv_formats import kv_format
from calc.plan import Plan
from calc.prediction import Prediction
from calc.units import GB
from onboard.layers import Heads
from onboard.profile import Profile
from onboard.states import StateCache
from onboard.values import Struct

DEFAULT_INDEXER_BITS = 4
_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "model": 2}


class Bucket(Struct, frozen=True, kw_only=True):
    """`bytes` on one card for every sequence asked for; `estimate` for figures the user's own options made up."""

    name: str
    bytes: int
    rule: str
    estimate: bool = False


def layout(profile: Profile) -> str:
    """The kinds of layers this model mixes, most frequent first: `window x 50 + full x 10`."""
    counts: dict[str, int] = {}
    for layer in profile.layers:
        for kind in layer.kinds():
            counts[kind] = counts.get(kind, 0) + 1
    return " + ".join(f"{kind} x {n}" for kind, n in sorted(counts.items(), key=lambda item: -item[1]))


def buckets(profile: Profile, prediction: Prediction, plan: Plan) -> tuple[Bucket, ...]:
    """Attention that grows, windows, recurrent state, and the extras the plan's options ask for."""
    used = prediction.resolved.plan
    tp, tokens, seqs = used.tensor_parallel_size, used.max_model_len or 0, plan.max_num_seqs or 1
    width = Fraction(_bits(used.kv_cache_dtype), 8)
    growing = _sharded(profile, tp, "growing") * width * tokens * seqs
    window = _sharded(profile, tp, "window", tokens) * width * seqs
    state = _state_bytes(profile, tp) * seqs
    found = [
        Bucket(name="Attention KV, growing", bytes=int(growing), rule=f"{tokens:,} tokens x {seqs} sequence(s)"),
        Bucket(
            name="Attention KV, windows and chunks", bytes=int(window), rule=f"at most the window, x {seqs} sequence(s)"
        ),
        Bucket(name="Recurrent state", bytes=int(state), rule=f"one state a sequence, x {seqs}"),
    ]
    return tuple(b for b in found if b.bytes) + _extras(plan, tokens, seqs, width)


def _extras(plan: Plan, tokens: int, seqs: int, width: Fraction) -> tuple[Bucket, ...]:
    found = []
    if plan.compressed_layers and plan.compression_ratio and plan.compressed_head_dim:
        size = (
            plan.compressed_layers * plan.compressed_head_dim * width * tokens * seqs / Fraction(plan.compression_ratio)
        )
        rule = (
            f"{plan.compressed_layers} layers x {plan.compressed_head_dim} elements / {plan.compression_ratio:g} tokens"
        )
        found.append(Bucket(name="Compressed KV (given by hand)", bytes=int(size), rule=rule, estimate=True))
    if plan.indexer_ratio_layers and plan.indexer_head_dim:
        bits = DEFAULT_INDEXER_BITS if plan.indexer_format in (None, "fp4") else _bits(str(plan.indexer_format))
        ratio = Fraction(plan.indexer_compress_ratio or 1)
        size = plan.indexer_ratio_layers * plan.indexer_head_dim * Fraction(bits, 8) * tokens * seqs / ratio
        elements = f"{plan.indexer_ratio_layers} layers x {plan.indexer_head_dim} elements"
        rule = f"{elements} at {bits} bits / {float(ratio):g} tokens"
        found.append(Bucket(name="Indexer (given by hand)", bytes=int(size), rule=rule, estimate=True))
    if plan.include_draft_kv and plan.draft_kv_gb:
        found.append(
            Bucket(
                name="Draft KV (given by hand)",
                bytes=round(plan.draft_kv_gb * GB),
                rule="--draft-kv-gb, per card",
                estimate=True,
            )
        )
    return tuple(found)


def _bits(name: str) -> int:
    return 16 if name == "auto" else kv_format(name).element_bits


def _sharded(profile: Profile, tp: int, what: str, tokens: int = 0) -> Fraction:
    """Elements on one card: KV heads divide or replicate, latents and indexers are whole on every card."""
    total = Fraction(0)
    for spec, indices in profile.cache_groups:
        share = Fraction(max(1, spec.num_kv_heads // tp), spec.num_kv_heads) if isinstance(spec, Heads) else Fraction(1)
        if what == "growing":
            total += Fraction(spec.growing_elements()) * share * len(indices)
        else:
            limit = getattr(spec, "window", None) or getattr(spec, "chunk", None)
            held = Fraction(min(limit, tokens), limit) if limit and tokens else Fraction(1)
            total += spec.window_elements() * share * held * len(indices)
    return total


def _state_bytes(profile: Profile, tp: int) -> int:
    return sum(
        tensor.elements * _STATE_BYTES.get(tensor.dtype, 4) * len(indices)
        for spec, indices in profile.cache_groups
        if isinstance(spec, StateCache)
        for tensor in spec.tensors(tp)
    )
