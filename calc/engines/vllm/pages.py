"""One layer's cache as vLLM sees it: a page of bytes for each block, and how many blocks a request claims.

Sources: vLLM 0.33 v1/kv_cache_interface.py (page_size_bytes, max_admission_blocks_per_request, MambaSpec), and the
same functions of 0.11.0 to 0.25.1.
"""

from __future__ import annotations

from fractions import Fraction

from onboard.values import Struct, replace

GROW, WINDOW, CHUNK, SLOTS, EVERY_BLOCK, CROSS = "grow", "window", "chunk", "slots", "every-block", "cross"


class Page(Struct, frozen=True, kw_only=True):
    """`row_bytes` are stored for every `tokens_per_row` tokens; `block` tokens make a page of `page_bytes`, padding in.

    `demand` says what a request claims: a block for every `block` tokens (GROW), for a window of `reach` + 1 tokens
    (WINDOW), for a chunk of `reach` tokens (CHUNK), `slots` blocks whatever its length (SLOTS), a state for every
    block (EVERY_BLOCK), or the encoder's tokens (CROSS). `shape` is what else must agree before layers may share a
    group. A state's `row_bytes` is the whole state, `tokens_per_row` 0.
    """

    kind: str
    demand: str
    block: int
    row_bytes: int
    page_bytes: int
    tokens_per_row: int = 1
    reach: int = 0
    slots: int = 0
    shape: tuple[object, ...] = ()
    dcp: int = 1  # decode-context shards that a block of this page spans
    latent: bool = False  # one row for all heads; MLA pages are never padded

    @property
    def token_bytes(self) -> Fraction:
        """Unpadded bytes of one token on one card; 0 for a state."""
        return Fraction(self.row_bytes, self.tokens_per_row) if self.tokens_per_row else Fraction(0)

    @property
    def is_state(self) -> bool:
        return self.demand in (SLOTS, EVERY_BLOCK)

    @property
    def uniform_key(self) -> tuple[object, ...]:
        """Layers with equal keys always need the same block table, whatever their width (UniformTypeKVCacheSpecs)."""
        size = self.page_bytes if self.is_state else 0
        return (self.demand, self.block, self.reach, self.slots, self.dcp, size)

    def padded_to(self, page_bytes: int) -> Page:
        return replace(self, page_bytes=page_bytes)

    def scaled(self, ratio: int) -> Page:
        return replace(self, block=self.block * ratio, page_bytes=self.page_bytes * ratio)


def ceil_div(number: int, by: int) -> int:
    """`number` / `by`, rounded up."""
    return -(-number // by)


def held_tokens(page: Page, length: int, in_flight: int, encoder_tokens: int) -> int:
    """Tokens that a request of `length` may hold in this layer at once."""
    if page.demand in (GROW, EVERY_BLOCK):
        return -(-length // page.dcp)
    if page.demand in (WINDOW, CHUNK):
        return min(page.reach + in_flight, length)
    return encoder_tokens if page.demand == CROSS else 0


def blocks_of(page: Page, length: int, in_flight: int, encoder_tokens: int) -> int:
    """Blocks that one request of `length` tokens claims of the pool for a group of such layers.

    A window's first block may be half outside it, hence one more; a chunk starts on a block.
    """
    if page.demand == GROW:
        return ceil_div(ceil_div(length, page.dcp), page.block)
    if page.demand == WINDOW:
        return -(-min(page.reach + in_flight, length) // page.block) + 1
    if page.demand == CHUNK:
        return -(-min(page.reach + in_flight, length) // page.block)
    if page.demand == SLOTS:
        return page.slots
    if page.demand == EVERY_BLOCK:
        return -(-length // page.block) + page.slots
    return -(-encoder_tokens // page.block)
