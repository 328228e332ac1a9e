"""Profile + plan -> prediction. The only place where terms are added and a verdict is given.

Nothing here knows an engine: each answers the contract in `calc.engines`.
"""

from __future__ import annotations

from typing import Any

from calc.cards import card_of
from calc.engines import engine_of
from calc.estimates.fit import calibration_status
from calc.estimates.measured_model import measured_name
from calc.estimates.unstated import unstated_notes
from calc.plan import Plan
from calc.prediction import CachePlan, Parts, Prediction, Reason, Term
from calc.speculation import uncounted_caches
from calc.stale import stale_notes
from onboard.profile import Profile


def predict(profile: Profile, plan: Plan) -> Prediction:
    """Bytes per card, term by term, and PASS, TIGHT or FAIL. Raises a Refusal where a total cannot be given."""
    engine, version = engine_of(plan.engine)
    resolved = engine.resolve(profile, plan, card_of(plan.card, plan.vram_gib), version)
    fixed = engine.fixed_terms(profile, resolved)
    budget = engine.budget_bytes(profile, resolved)
    inside = sum(t.bytes for t in fixed if t.inside_budget)
    pool_bytes = plan.kv_cache_memory_bytes if plan.kv_cache_memory_bytes is not None else budget - inside
    cache = engine.cache(profile, resolved, pool_bytes)
    fixed += cache.fixed
    terms = fixed + _cache_terms(cache, cache.asked)
    minimum = sum(t.bytes for t in fixed) + max(cache.one.total, cache.allocated_at_start)
    needed = sum(t.bytes for t in terms)
    reserved = sum(t.bytes for t in fixed if t.inside_budget and t not in cache.fixed) + cache.pool.bytes
    reasons = resolved.reasons + cache.reasons
    drafting = uncounted_caches(profile, plan)
    return Prediction(
        model=profile.id,
        resolved=resolved,
        terms=terms,
        cache=cache,
        minimum_bytes=minimum,
        needed_bytes=needed,
        reserved_bytes=reserved,
        budget_bytes=budget,
        headroom_bytes=budget - minimum,
        verdict=_verdict(cache, reasons),
        reasons=reasons or cache.tight or (),
        notes=tuple(
            dict.fromkeys((*stale_notes(profile), *resolved.notes, *unstated_notes(profile), *cache.notes, *drafting))
        ),
        calibration=_calibration(profile),
        devices=engine.devices(profile, resolved, terms, cache),
    )


def raw_verdict(profile: Profile, plan: Plan) -> tuple[str, tuple[Reason, ...]]:
    """The verdict and its reasons, without the rest."""
    prediction = predict(profile, plan)
    return prediction.verdict, prediction.reasons


def fits(prediction: Prediction, require: str) -> bool:
    """`start`: anything but FAIL. `pass`: PASS."""
    return prediction.verdict == "PASS" if require == "pass" else prediction.verdict != "FAIL"


def _verdict(cache: CachePlan, reasons: tuple[Reason, ...]) -> str:
    """FAIL: the engine would not start. TIGHT: it starts and cannot hold what was asked. PASS otherwise."""
    if reasons:
        return "FAIL"
    if cache.tight is not None:
        return "TIGHT" if cache.tight else "PASS"
    return "TIGHT" if cache.asked.total + sum(t.bytes for t in cache.fixed) > cache.pool.bytes else "PASS"


def _cache_terms(cache: CachePlan, parts: Parts) -> tuple[Term, ...]:
    lines: dict[str, str] = dict(cache.explain)
    values = {"kv_growing": parts.growing, "kv_window": parts.window, "state": parts.state, "kv_padding": parts.padding}
    return tuple(Term(name=n, bytes=b, rule=lines.get(n, ""), origin="rule") for n, b in values.items())


def _calibration(profile: Profile) -> dict[str, Any]:
    return calibration_status(measured_name(profile))
