"""The raw cache buckets of `--kv-breakdown`, and the specification's planning extras. Reporting only.

Buckets are what must be kept, in the engine's own formats: no blocks, no padding, no tokens in flight. The verdict
never depends on them; `against_verdict` says how far apart the two are.
"""

from __future__ import annotations

from fractions import Fraction

from calc.kv_formats import KvFormat, kv_format
from calc.plan import Plan
from calc.prediction import Prediction
from calc.units import GB, gb, gib
from onboard.layers import Heads
from onboard.profile import Profile
from onboard.values import Struct

DEFAULT_INDEXER_BITS = 4


class Bucket(Struct, frozen=True, kw_only=True):
    """`bytes` for every sequence asked for, within `scope`; `estimate` for figures the user's own options made up."""

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
    """Attention that grows, windows, recurrent state, and the extras the plan's options ask for.

    Bytes are of one card, or of all together for an engine that spreads whole layers over cards (`scope` says which).
    """
    used, cache = prediction.resolved.plan, prediction.cache
    tokens, seqs = used.max_model_len or 0, plan.max_num_seqs or 1
    growing = Fraction(cache.growing_bytes_per_token) * tokens * seqs
    window = _window_bytes(profile, used.tensor_parallel_size, tokens, stored_formats(prediction)) * seqs
    times = f" x {seqs} sequence(s)"
    per_token = f"{float(cache.growing_bytes_per_token):,.10g} B a token"
    found = [
        Bucket(name="Attention KV, growing", bytes=int(growing), rule=f"{per_token} x {tokens:,} tokens{times}"),
        Bucket(name="Attention KV, windows and chunks", bytes=int(window), rule=f"at most the window,{times}"),
        Bucket(
            name="Recurrent state", bytes=cache.state_bytes_per_sequence * seqs,
            rule=f"one state of {cache.state_bytes_per_sequence:,} B{times}",
        ),
    ]  # fmt: skip
    width = Fraction(sum(_bits(name) for name in stored_formats(prediction)), 16)
    return tuple(b for b in found if b.bytes) + _extras(plan, tokens, seqs, width)


def scope(prediction: Prediction, plan: Plan) -> str:
    """What the buckets cover, in words."""
    used = prediction.resolved.plan
    if prediction.devices:
        return f"the whole model, over {used.gpus or 1} card(s) together, sequences={plan.max_num_seqs or 1}"
    cards = plan.gpus or used.tensor_parallel_size * used.pipeline_parallel_size
    return f"one of {cards} GPU(s), TP={used.tensor_parallel_size}, sequences={plan.max_num_seqs or 1}"


def against_verdict(found: tuple[Bucket, ...], prediction: Prediction) -> str:
    """One sentence that reconciles the subtotal with what the verdict counts."""
    names = ("kv_growing", "kv_window", "state", "kv_padding", "slots")
    counted = sum(t.bytes for t in prediction.terms if t.name in names)
    raw = sum(b.bytes for b in found if not b.estimate)
    if prediction.devices:
        return f"The verdict counts {both(counted)} on the fullest card: its layers, whole cells and every slot."
    if counted == raw:
        return f"The verdict counts the same {both(counted)} on a card."
    more = "tokens in flight beside a window, states kept for prefix reuse, whole blocks and padded pages"
    return f"The verdict counts {both(counted)} on a card, {both(counted - raw)} more: {more}."


def both(size: int) -> str:
    """`8.59 GB (8.00 GiB)`."""
    return f"{gb(size)} ({gib(size)})"


def stored_formats(prediction: Prediction) -> tuple[str, str]:
    """The formats of K and of V, as the engine resolved them."""
    resolved = prediction.resolved
    k, _, v = str(resolved.derived.get("kv_cache_dtype", resolved.plan.kv_cache_dtype)).partition("/")
    return k, v or k


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
    return _format(name).element_bits


def _window_bytes(profile: Profile, tp: int, tokens: int, formats: tuple[str, str]) -> Fraction:
    """Bytes of every window at `tokens` tokens: KV heads divide or replicate, latents are whole on every card."""
    total = Fraction(0)
    for spec, indices in profile.cache_groups:
        limit = getattr(spec, "window", None) or getattr(spec, "chunk", None)
        if not limit or not spec.window_elements():
            continue
        held = Fraction(min(limit, tokens), limit) if tokens else Fraction(1)
        if isinstance(spec, Heads):
            size = Fraction(max(1, spec.num_kv_heads // tp) * limit * _head_bytes(spec, *formats))
        else:
            size = Fraction(spec.window_elements()) * Fraction(_bits(formats[0]), 8)
        total += size * held * len(indices)
    return total


def _head_bytes(spec: Heads, k: str, v: str) -> int:
    """Bytes of one head and token by the rule of its format, scales included."""
    if k == v:
        return _format(k).bytes_of(spec.k_dim, spec.v_dim)
    return _format(k).bytes_of(spec.k_dim, 0) + _format(v).bytes_of(0, spec.v_dim)


def _format(name: str) -> KvFormat:
    return kv_format("bf16" if name == "auto" else name)
