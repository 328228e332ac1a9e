"""The pool: blocks, tokens and concurrency as the log prints them, what a request takes, and the length that fits.

Sources: vLLM 0.33 v1/core/kv_cache_planning.py:1253 (request), :1288 (search), :1533 (null block), :1560 (check),
v1/core/kv_cache_utils.py:1061 (concurrency, tokens); 0.11.0 v1/core/kv_cache_utils.py:678, :780, :1076; 0.14.1 :1514.
"""

from __future__ import annotations

from calc.engines.vllm.layout import Layout
from calc.engines.vllm.pages import GROW, blocks_of, held_tokens
from calc.engines.vllm.versions import Rules
from calc.prediction import Parts
from onboard.values import Struct


class Sizes(Struct, frozen=True, kw_only=True):
    """What a length is turned into blocks with."""

    in_flight: int
    encoder_tokens: int
    dcp: int


class Capacity(Struct, frozen=True, kw_only=True):
    """`needed` and `available` are the two figures of the fit check; `longest` its estimated maximum length."""

    num_blocks: int
    request_blocks: int
    tokens: int
    concurrency: float
    needed: int
    available: int
    longest: int

    @property
    def fits(self) -> bool:
        return self.needed <= self.available


def demand_blocks(layout: Layout, length: int, sizes: Sizes) -> tuple[int, ...]:
    """Blocks that one request of `length` tokens claims in a group of each demand."""
    return tuple([blocks_of(d.page, length, sizes.in_flight, sizes.encoder_tokens) for d in layout.demands])


def request_blocks(layout: Layout, length: int, sizes: Sizes) -> int:
    """Blocks of the pool that one request of `length` tokens claims, all groups together."""
    total = 0
    for demand in layout.demands:
        total += demand.groups * blocks_of(demand.page, length, sizes.in_flight, sizes.encoder_tokens)
    return total


def check_bytes(layout: Layout, length: int, sizes: Sizes, rules: Rules) -> int:
    """Bytes that the fit check of this release asks for."""
    if rules.fit_check == "layers":
        return sum(
            count * page.page_bytes * blocks_of(page, length, sizes.in_flight, sizes.encoder_tokens)
            for page, count in layout.all_pages
        )
    block = layout.model_block_bytes if rules.fit_check_whole_model else layout.check_bytes
    return block * request_blocks(layout, length, sizes)


def claimed_by_bytes(layout: Layout, length: int, sizes: Sizes) -> int:
    """Before 0.29 a request's bytes are divided by the first group's page, which differs where groups are mixed."""
    need = sum(blocks_of(g.page, length, sizes.in_flight, sizes.encoder_tokens) * g.page_bytes for g in layout.groups)
    return -(-need // layout.groups[0].page_bytes)


def capacity(layout: Layout, pool_bytes: int, length: int, sizes: Sizes, rules: Rules) -> Capacity:
    """What a pool of `pool_bytes` holds, and the fit check for one request of `length` tokens."""
    blocks = max(pool_bytes, 0) // layout.block_bytes
    claimed = request_blocks(layout, length, sizes)
    available = pool_bytes - (layout.block_bytes if rules.null_block_checked else 0)
    claims = claimed_by_bytes(layout, length, sizes) if layout.claims_by_bytes else claimed
    concurrency = blocks / claims if claims else 0.0
    if rules.tokens_from_concurrency:
        tokens = int(concurrency * length)
    else:
        tokens = blocks // len(layout.groups) * layout.smallest_block(length) * sizes.dcp
    needed = check_bytes(layout, length, sizes, rules)
    longest = length if needed <= available else longest_that_fits(layout, available, length, sizes, rules)
    return Capacity(
        num_blocks=blocks,
        request_blocks=claimed,
        tokens=tokens,
        concurrency=concurrency,
        needed=needed,
        available=available,
        longest=longest,
    )


def longest_that_fits(layout: Layout, available: int, upper: int, sizes: Sizes, rules: Rules) -> int:
    """The engine's own bisection over [1, upper]; 0 where not even one token fits."""
    if available <= 0 or check_bytes(layout, 1, sizes, rules) > available:
        return 0
    low, high, best = 1, upper, 1
    while low <= high:
        middle = (low + high) // 2
        if check_bytes(layout, middle, sizes, rules) <= available:
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


def request_parts(layout: Layout, length: int, sizes: Sizes) -> Parts:
    """One request split by what makes it grow; padding is what blocks, pages and short groups add."""
    growing, window, state = 0, 0, 0
    for page, count in layout.counted_members:
        if page.is_state:
            state += count * page.row_bytes * blocks_of(page, length, sizes.in_flight, sizes.encoder_tokens)
            continue
        tokens = held_tokens(page, length, sizes.in_flight, sizes.encoder_tokens)
        held = -(-tokens // page.tokens_per_row) * page.row_bytes * count
        if page.demand == GROW:
            growing += held
        else:
            window += held
    total = layout.block_bytes * request_blocks(layout, length, sizes)
    return Parts(growing=growing, window=window, state=state, padding=total - growing - window - state)
