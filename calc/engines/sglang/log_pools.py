"""Which pool an unlabelled line means, and the budget that a log implies."""

from __future__ import annotations

from dataclasses import replace

from calc.bootlog_lines import LogFacts
from calc.plan import Plan
from calc.predict import predict
from onboard.profile import Profile

GIB = 2**30
_UNLABELLED = ("pool_tokens", "pool_k", "pool_v")


def label_pools(facts: LogFacts) -> None:
    """Rename the figures of unlabelled pool lines: the window by its tokens, the whole pool first, then a drafter.

    Builds before the labels print the window pool and the whole pool alike, and a drafter its own line with the
    target's token count. A figure that a line repeats is kept once, so a line without its tokens has the last ones.
    """
    final = facts.last("kv_tokens")
    seen: set[tuple[str, int | None]] = set()
    tokens: dict[int | None, float] = {}
    names: dict[int, str] = {}
    for printed in facts.printed:
        if printed.quantity == "pool_tokens":
            tokens[printed.rank] = printed.value
        if printed.quantity not in _UNLABELLED or printed.line in names:
            continue
        whole = final is None or tokens.get(printed.rank) in (None, final.value)
        name = "full" if whole else "window"
        if (name, printed.rank) in seen:
            name = "drafter"
        seen.add((name, printed.rank))
        names[printed.line] = name
    facts.printed[:] = [
        replace(p, quantity=f"{names[p.line]}_{p.quantity.removeprefix('pool_')}") if p.quantity in _UNLABELLED else p
        for p in facts.printed
    ]


def pool_range(profile: Profile, plan: Plan, facts: LogFacts) -> tuple[int, ...]:
    """Budgets at the printed figures and at both ends of their rounding; () where the log implies none."""
    before, after = facts.least("free_before_weights"), facts.least("free_after_weights")
    probe = predict(profile, replace(plan, kv_cache_memory_bytes=GIB))
    if before is not None and after is not None and probe.resolved.plan.mem_fraction_static is not None:
        slack = 1 - probe.resolved.plan.mem_fraction_static
        reserve = sum(t.bytes for t in probe.terms if t.name == "multimodal_reserve")
        budget = after.value - before.value * slack - reserve
        spread = after.half + before.half * slack
        return int(budget), int(budget - spread), int(budget + spread)
    printed = facts.last("kv_tokens") or facts.last("full_tokens")
    if printed is None:
        return ()
    extra = probe.cache.pool.extra
    cell = extra["cell_bytes"]
    if extra.get("window_cell_bytes"):
        cell += (probe.resolved.plan.swa_full_tokens_ratio or 0) * extra["window_cell_bytes"]
    low, high = printed.value * cell, (printed.value + probe.cache.pool.block_size) * cell
    slots = facts.last("state_slots")
    states = 0.0 if slots is None else (slots.value + 1) * extra.get("state_bytes_per_slot", 0)
    return int((low + high) / 2 + states), int(low + states) + 1, int(high + states) - 1
