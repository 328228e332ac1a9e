"""Lines of arithmetic that can be redone by hand, and the pool's groups as the contract lists them."""

from __future__ import annotations

from calc.engines.vllm.layout import Layout
from calc.engines.vllm.pages import CHUNK, GROW, WINDOW, Page, blocks_of, held_tokens
from calc.engines.vllm.pool import Sizes
from calc.prediction import Parts, PoolGroup


def pool_groups(layout: Layout, length: int, blocks: tuple[int, ...]) -> tuple[PoolGroup, ...]:
    """The groups in the contract's words; `blocks` are those of one request, by demand."""
    groups: list[PoolGroup] = []
    for row in layout.rows:
        group = PoolGroup(
            kinds=row.kinds,
            num_layers=row.num_layers,
            block_size=row.block or length,
            page_bytes=row.page_bytes,
            num_blocks_per_request=blocks[row.demand],
        )
        groups += [group] * row.repeats
    return tuple(groups)


def explain_parts(
    layout: Layout, length: int, sizes: Sizes, one: Parts, sequences: int, blocks: tuple[int, ...]
) -> tuple[tuple[str, str], ...]:
    """One line a part: layers x bytes x tokens, and what the blocks add."""
    times = f" x {sequences} sequences" if sequences > 1 else ""
    growing, window, state = [], [], []
    for page, count in layout.counted_members:
        if page.is_state:
            state.append(_state_line(page, count, length, sizes))
        elif page.demand == GROW:
            growing.append(_row_line(page, count, held_tokens(page, length, sizes.in_flight, sizes.encoder_tokens)))
        else:
            window.append(_window_line(page, count, length, sizes))
    terms = " + ".join([f"{d.groups} groups x {n}" for d, n in zip(layout.demands, blocks, strict=True)])
    held = one.growing + one.window + one.state
    padding = f"({terms}) blocks x {layout.block_bytes:,} B a block - {held:,} B [one request's lines above]"
    lines = {
        "kv_growing": " + ".join(growing),
        "kv_window": " + ".join(window),
        "state": " + ".join(state),
        "kv_padding": padding,
    }
    return tuple([(name, _times(line, times)) for name, line in lines.items()])


def _times(line: str, times: str) -> str:
    """The line for every sequence; a sum stands in brackets."""
    if not times or not line:
        return line
    return f"({line}){times}" if " + " in line or " - " in line else line + times


def _row_line(page: Page, count: int, tokens: int) -> str:
    """Bytes are of one layer on one card: K and V of its KV heads there, or its latent row."""
    if page.tokens_per_row > 1:
        rows = f"ceil({tokens:,} tokens / {page.tokens_per_row})"
        return f"{count} {page.kind} layers x {page.row_bytes:,} B a layer and entry x {rows} entries"
    return f"{count} {page.kind} layers x {page.row_bytes:,} B a layer and token x {tokens:,} tokens"


def _window_line(page: Page, count: int, length: int, sizes: Sizes) -> str:
    """Tokens in flight are those of a batch, twice where one is scheduled while another runs."""
    held = held_tokens(page, length, sizes.in_flight, sizes.encoder_tokens)
    if page.demand not in (WINDOW, CHUNK):
        return _row_line(page, count, held)
    batch = sizes.encoder_tokens
    times = sizes.in_flight // batch if batch and not sizes.in_flight % batch else 0
    flight = f"{times} x {batch:,} batched" if times > 1 else f"{sizes.in_flight:,} in flight"
    tokens = f"min({page.reach:,} before it + {flight}, {length:,}) tokens"
    per = "token" if page.tokens_per_row <= 1 else "entry"
    rows = tokens if page.tokens_per_row <= 1 else f"ceil({tokens} / {page.tokens_per_row}) entries"
    return f"{count} {page.kind} layers x {page.row_bytes:,} B a layer and {per} x {rows}"


def _state_line(page: Page, count: int, length: int, sizes: Sizes) -> str:
    slots = blocks_of(page, length, sizes.in_flight, sizes.encoder_tokens)
    why = " [prefix caching keeps more than the running one]" if page.block and slots > 1 else ""
    return f"{count} state layers x {page.row_bytes:,} B a layer and state x {slots} state(s) a request{why}"
