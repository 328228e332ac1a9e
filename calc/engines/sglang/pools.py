"""Pool arithmetic: a byte budget -> tokens and state slots. Pure numbers, no profile.

Source: model_executor/pool_configurator.py and mem_cache/kv_cache_configurator.py of the 0.5.23 wheel. The order of
float operations is the engine's, because it decides the last slot.
"""

from __future__ import annotations

from calc.units import GIB
from onboard.values import Struct, replace

SWA_EVICTION_INTERVAL = 128  # environment variable SGLANG_SWA_EVICTION_INTERVAL


class Tokens(Struct, frozen=True):
    """Tokens of the pool kept whole (what `max_total_num_tokens` prints), and of the window pool."""

    full: int
    window: int = 0


def floor_to(tokens: int, page: int) -> int:
    """`tokens` rounded down to whole pages."""
    return tokens // page * page


def ceil_to(tokens: int, page: int) -> int:
    """`tokens` rounded up to whole pages."""
    return -(-tokens // page) * page


def single_pool(budget: int, cell: int, page: int, limit: int | None = None) -> Tokens:
    """One pool over all layers. A cell of 0 bytes (no attention) is bounded by `limit` alone."""
    tokens = max(budget, 0) // cell if cell else limit or 0
    tokens = floor_to(tokens, page)
    return Tokens(floor_to(min(tokens, limit), page) if limit is not None else tokens)


def two_pools(
    budget: int,
    full_cell: int,
    window_cell: int,
    ratio: float,
    page: int,
    *,
    by_total: bool,
    limit: int | None,
    extra: int = 0,
) -> Tokens:
    """A whole pool and a window pool of `ratio` its tokens. `by_total` is 0.5.9's way: one token total first.

    `extra` bytes a token are charged beside both (a DFLASH drafter's rows).
    """
    if full_cell == 0:
        tokens = floor_to(int(max(budget, 0) // (window_cell + extra)), page)
        return Tokens(0, floor_to(min(tokens, limit), page) if limit is not None else tokens)
    cell = full_cell + ratio * window_cell + extra
    if by_total:
        total = max(budget, 0) // (full_cell + window_cell)
        if limit is not None:
            total = min(total, limit)
        whole = int(floor_to(total, page) * (full_cell + window_cell) / cell)
        return Tokens(floor_to(whole, page), floor_to(int(whole * ratio), page))
    whole = floor_to(int(max(budget, 0) // cell), page)
    if limit is not None:
        whole = floor_to(min(whole, limit), page)
    return Tokens(whole, floor_to(int(whole * ratio), page))


def window_request_cap(*, requests: int, window: int, page: int, chunk: int, draft_tokens: int, overlap: bool) -> int:
    """Window slots that `requests` running requests can hold at once, with the prefill chunks in flight."""
    trailing = window + SWA_EVICTION_INTERVAL * max(1, draft_tokens) + page
    decode = page if not draft_tokens else (2 if overlap else 1) * draft_tokens
    return (trailing + decode) * requests + (2 if overlap else 1) * chunk + page


def capped_window(
    budget: int, full_cell: int, window_cell: int, cap: int, page: int, limit: int | None, extra: int = 0
) -> Tokens:
    """The window pool at its worst case, the rest of the budget to the whole pool."""
    window = ceil_to(cap, page)
    whole = floor_to(int((budget - window * window_cell) // (full_cell + extra)), page)
    if limit is not None and limit < whole:
        return Tokens(floor_to(limit, page), min(window, limit))
    return Tokens(whole, window)


class States(Struct, frozen=True):
    """Slots as logged (one more is allocated), bytes charged for them, for speculation, and what is left in GiB."""

    slots: int
    charged_bytes: int
    speculative_bytes: int
    rest_gib: float


class StateAsk(Struct, frozen=True, kw_only=True):
    """What the state pool depends on. `given_slots` is --max-mamba-cache-size for one rank, `by_requests` the rule with
    the radix cache off and running requests set; `requests` are per rank."""

    slot_bytes: int
    ratio: float
    slots_per_request: int
    draft_tokens: int = 0
    requests: int | None = None
    given_slots: int | None = None
    by_requests: bool = False
    padding_slot: bool = True
    draft_first: bool = False


def state_pool(budget: int, ask: StateAsk) -> States:
    """Slots of the state pool, and what it leaves to KV."""
    rest = budget / GIB
    per, draft, pad = ask.slot_bytes, ask.draft_tokens, 1 if ask.padding_slot else 0
    if draft and ask.draft_first:
        first = per * (ask.requests or 1) * draft
        found = state_pool(budget - first, replace(ask, draft_tokens=0))
        return replace(found, speculative_bytes=first)
    if ask.given_slots is not None or ask.by_requests:
        slots = ask.given_slots if ask.given_slots is not None else max(1, ask.requests or 1)
        held = slots if ask.by_requests else min(ask.requests or slots, slots // ask.slots_per_request)
    else:
        pool = rest * ask.ratio / (1 + ask.ratio) * GIB
        if draft:
            slots = int((pool - pad * per * (1 + draft)) // (per * (1 + draft / ask.slots_per_request)))
            held = min(ask.requests or slots, slots // ask.slots_per_request)
        else:
            slots = int((pool - pad * per) // per)
            held = 0
    speculative = per * (held + pad) * draft if draft else 0
    rest -= speculative / GIB
    charged = (slots + pad) * per
    return States(slots, charged, speculative, rest - charged / GIB)


def running_requests(
    *, tokens: int, context_len: int, requested: int | None, state_cap: int | None, by_tokens: bool
) -> int:
    """`max_running_requests` of one rank. `state_cap` is slots // slots per request."""
    if requested is None:
        requested = max(min(int(tokens / context_len * 512), 4096), 2048)
    allowed = min(requested, tokens // 2) if by_tokens else requested
    return allowed if state_cap is None else min(allowed, state_cap)
