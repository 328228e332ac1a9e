"""Which pool an unlabelled line means, and the budget that a log implies."""

from __future__ import annotations

from calc.bootlog_lines import LogFacts
from calc.cards import card_of
from calc.engines import engine_of
from calc.engines.sglang.settings import Settings
from calc.plan import Plan
from calc.prediction import Pool
from calc.units import GIB
from onboard.profile import Profile
from onboard.values import replace

UNLOGGED_BYTES = 2**28
_UNLABELLED = ("pool_tokens", "pool_k_bytes", "pool_v_bytes")


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
    """Budgets at the printed figures and at both ends of their rounding; () where the log implies none.

    Two lines imply one: the free memory around the weights, and the token count. What is allocated between loading and
    sizing (libraries' workspaces) is in no line; where it is all that keeps the two apart, the token count's is taken.
    """
    engine, version = engine_of(plan.engine)
    resolved = engine.resolve(profile, plan, card_of(plan.card, plan.vram_gib), version)
    by_memory = _by_free_memory(facts, Settings.of(resolved.derived))
    by_tokens = _by_tokens(facts, Settings.of(resolved.derived), engine.cache(profile, resolved, GIB).pool)
    if by_memory and by_tokens:
        gap = by_memory[0] - by_tokens[0]
        return by_memory if not 0 <= gap <= UNLOGGED_BYTES else by_tokens
    return by_memory or by_tokens


def _by_free_memory(facts: LogFacts, settings: Settings) -> tuple[int, ...]:
    before, after = facts.least("free_before_weights_bytes"), facts.least("free_after_weights_bytes")
    if before is None or after is None:
        return ()
    slack = 1 - settings.mem_fraction_static
    budget = after.value - before.value * slack - settings.multimodal_reserve_bytes
    spread = after.half + before.half * slack
    return int(budget), int(budget - spread), int(budget + spread)


def _by_tokens(facts: LogFacts, settings: Settings, pool: Pool) -> tuple[int, ...]:
    printed = facts.last("kv_tokens") or facts.last("full_tokens")
    if printed is None:
        return ()
    cell = pool.extra["cell_bytes"] + settings.swa_full_tokens_ratio * pool.extra.get("window_cell_bytes", 0)
    slots = facts.last("state_slots")
    states = 0.0 if slots is None else (slots.value + 1) * pool.extra.get("state_bytes_per_slot", 0)
    low, high = printed.value * cell + states, (printed.value + pool.block_size) * cell + states
    return int((low + high) / 2), int(low) + 1, int(high) - 1
