"""Hybrid models: the attention block is raised until its page holds a state, and states are padded up to that page.

Sources: vLLM 0.33 platforms/interface.py:940 (_align_hybrid_block_size), :841 (skip layers); 0.25.1 :750; 0.12.0
models/config.py:321; 0.11.0 models/config.py:318.
"""

from __future__ import annotations

from math import lcm

from calc.engines.vllm.pages import Page, ceil_div
from onboard.values import Struct

GDN_CHECKPOINT = 64  # FlashInfer's GDN prefill exports states on boundaries of 64 tokens


class Raised(Struct, frozen=True, kw_only=True):
    """`block` of the attention layers, `page_bytes` that every state is padded to (0: no state, no padding)."""

    block: int
    page_bytes: int
    state_bytes: int

    @property
    def padding_percent(self) -> float:
        """The figure of the log line "Padding mamba page size by ...%"."""
        return 100 * (self.page_bytes - self.state_bytes) / self.state_bytes if self.state_bytes else 0.0


def raise_block(
    attention: list[Page], states: list[Page], base: int, kernel: int, alignment: int, all_mode_chunk: int | None
) -> Raised:
    """K = max(kernel block, default block), a multiple of `alignment`; block = K x ceil(state / (K x bytes a token)).

    `all_mode_chunk` is the state kernel's chunk where mode `all` runs, whose block is a multiple of it too.
    """
    token = max(int(p.token_bytes) for p in attention)
    state = max(p.row_bytes for p in states)
    unit = max(kernel, base)
    if all_mode_chunk is not None:
        chunk = lcm(all_mode_chunk, unit)
        block = chunk * ceil_div(ceil_div(state, token), chunk)
    else:
        unit = lcm(unit, alignment)
        block = unit * -(-state // (unit * token))
    block = max(block, base)
    return Raised(block=block, page_bytes=block * token, state_bytes=state)


def skip_layer_block(packed_token: int, wide_token: int, base: int) -> int:
    """The block at which packed pages hold a wide layer's smallest page (TurboQuant's exempt layers)."""
    if packed_token >= wide_token:
        return base
    return base * -(-wide_token * base // (base * packed_token))
