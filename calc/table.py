"""Contexts x KV formats x TP: what fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calc.engines import engine_of
from calc.kv_formats import formats_of
from calc.plan import Plan
from calc.predict import predict
from calc.solve import solve, spread
from onboard.errors import Refusal
from onboard.profile import Profile, WeightVariant
from onboard.values import Struct, asdict, replace

CONTEXTS = (8_192, 32_768, 65_536, 131_072, 262_144, 1_048_576)


class Row(Struct, frozen=True, kw_only=True):
    """One cell. `reason` is the first reason where it fails, `kind` the contract's word for it.

    `pooled`: the engine fills its budget with a pool, so that `max_concurrency` says what the memory holds; where it
    allocates what the plan asks for (llama.cpp), or keeps no cache, `headroom_bytes` says it instead. For llama.cpp
    `tensor_parallel_size` counts its cards.
    """

    max_model_len: int
    kv_cache_dtype: str
    tensor_parallel_size: int
    verdict: str
    max_concurrency: float
    needed_bytes: int
    headroom_bytes: int
    reason: str
    kind: str = ""
    pooled: bool = True

    def to_json(self) -> dict[str, Any]:
        return dict(asdict(self))


def table(
    profile: Profile,
    plan: Plan,
    *,
    contexts: Sequence[int] = (),
    kv_formats: Sequence[str] = (),
    tp_sizes: Sequence[int] = (),
) -> tuple[Row, ...]:
    """One row a combination, contexts inside formats inside TP. What the engine refuses is FAIL with its reason."""
    lengths = contexts or _contexts(profile, plan)
    formats = kv_formats or _formats(plan)
    knob = engine_of(plan.engine)[0].cards_knob
    sizes = tp_sizes or [getattr(plan, knob) or 1]
    rows = []
    for tp in sizes:
        for name in formats:
            rows += [
                _row(profile, replace(spread(plan, tp), kv_cache_dtype=name, max_model_len=n), tp) for n in lengths
            ]
    return tuple(rows)


class VariantRow(Struct, frozen=True, kw_only=True):
    """One set of weights: what it takes of a card, the verdict, and the longest context it leaves room for (or 0)."""

    weights: str
    quantization: str | None
    checkpoint_bytes: int
    weights_bytes: int
    verdict: str
    needed_bytes: int
    headroom_bytes: int
    max_model_len_that_fits: int
    reason: str

    def to_json(self) -> dict[str, Any]:
        return dict(asdict(self))


def variants(profile: Profile, plan: Plan) -> tuple[VariantRow, ...]:
    """Every set of weights of the profile side by side under one plan."""
    return tuple(_variant_row(profile, variant, replace(plan, weights=variant.name)) for variant in profile.weights)


def _variant_row(profile: Profile, variant: WeightVariant, plan: Plan) -> VariantRow:
    answer = predict(profile, plan)
    longest = solve(profile, plan, "max-model-len").value
    return VariantRow(
        weights=variant.name, quantization=variant.quantization, checkpoint_bytes=variant.num_bytes,
        weights_bytes=sum(t.bytes for t in answer.terms if t.name == "weights"), verdict=answer.verdict,
        needed_bytes=answer.needed_bytes, headroom_bytes=answer.headroom_bytes,
        max_model_len_that_fits=longest if isinstance(longest, int) else 0,
        reason=answer.reasons[0].message if answer.reasons else "",
    )  # fmt: skip


def _contexts(profile: Profile, plan: Plan) -> list[int]:
    top = plan.max_model_len or profile.fact("max_model_len") or CONTEXTS[-1]
    return sorted({n for n in CONTEXTS if n < top} | {top})


def _formats(plan: Plan) -> list[str]:
    """The plan's own format first, then the rest of the engine's."""
    names = [f.name for f in formats_of(engine_of(plan.engine)[0].name)]
    return (
        [plan.kv_cache_dtype, *(n for n in names if n != plan.kv_cache_dtype)]
        if plan.kv_cache_dtype != "auto"
        else names
    )


def _row(profile: Profile, plan: Plan, cards: int) -> Row:
    length = plan.max_model_len or 0
    try:
        answer = predict(profile, plan)
    except Refusal as refusal:
        if refusal.exit_code != 2 and refusal.path != "--kv-cache-dtype":
            raise
        return Row(
            max_model_len=length, kv_cache_dtype=plan.kv_cache_dtype, tensor_parallel_size=cards,
            verdict="FAIL", max_concurrency=0.0, needed_bytes=0, headroom_bytes=0, reason=refusal.message,
            kind="refused",
        )  # fmt: skip
    return Row(
        max_model_len=length, kv_cache_dtype=plan.kv_cache_dtype, tensor_parallel_size=cards,
        verdict=answer.verdict, max_concurrency=answer.cache.pool.max_concurrency, needed_bytes=answer.needed_bytes,
        headroom_bytes=answer.headroom_bytes, reason=answer.reasons[0].message if answer.reasons else "",
        kind=answer.reasons[0].kind if answer.reasons else "", pooled=answer.cache.pool.num_blocks > 0,
    )  # fmt: skip


def useless_formats(rows: Sequence[Row]) -> tuple[str, ...]:
    """Formats that hold no more than the first one of their TP does, at any length that both can hold: what a narrower
    element saves is lost again to pages padded to a recurrent state's.
    """
    best: dict[tuple[int, int], Row] = {}
    saves: dict[str, bool] = {}
    for row in rows:
        first = best.setdefault((row.tensor_parallel_size, row.max_model_len), row)
        if row.kv_cache_dtype == first.kv_cache_dtype or not row.pooled or not first.max_concurrency:
            continue
        if row.max_concurrency:
            more = row.max_concurrency > first.max_concurrency
            saves[row.kv_cache_dtype] = saves.get(row.kv_cache_dtype, False) or more
    return tuple(name for name, more in saves.items() if not more)
