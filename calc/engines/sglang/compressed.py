"""DeepSeek-V4 class pools: a window cache, entries for every 4 and 128 tokens, their indexer, and compressor states.

Source: DSV4PoolConfigurator (model_executor/pool_configurator.py) and mem_cache/deepseek_v4_memory_pool.py of the
0.5.23 wheel. Every card holds all of it; TP divides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from calc.engines.sglang.pools import floor_to
from calc.prediction import PoolCache
from onboard.errors import UnknownLayerKind
from onboard.layers import Compressed, Indexer, Layer, WindowAttention
from onboard.values import Struct

PAGE = 256
WINDOW_RATIO = 0.1
REQUESTS = 256
_ROW_ALIGN = 576
_FP32 = 4


class Kinds(Struct, frozen=True):
    """Layers by tokens an entry, and the widths. `latent` is the row's elements, `rope` those kept at two bytes."""

    layers: int
    by_ratio: dict[int, int]
    latent: int
    rope: int
    index: int
    window: int


class Sized(Struct, frozen=True):
    """Tokens of each pool, the budget's fixed part, and the pools as allocated."""

    full: int
    window: int
    fixed_bytes: int
    bytes_per_token: float
    caches: tuple[PoolCache, ...]


def kinds(layers: Sequence[Layer], rope: int) -> Kinds:
    """What the layers hold, `rope` being the part of a row that keeps two bytes.

    Raises UnknownLayerKind on a ratio that the pool has no ring for.
    """
    by_ratio: dict[int, int] = {}
    latent = index = window = 0
    for layer in layers:
        for spec in layer.caches:
            if isinstance(spec, Compressed):
                by_ratio[spec.tokens_per_entry] = by_ratio.get(spec.tokens_per_entry, 0) + 1
            elif isinstance(spec, Indexer):
                index = spec.elements_per_entry
            elif isinstance(spec, WindowAttention):
                latent, window = spec.k_dim, spec.window
    unknown = sorted(set(by_ratio) - {4, 128})
    if unknown:
        raise UnknownLayerKind(
            f"SGLang 0.5.23 has rules here for entries of 4 and 128 tokens, not {unknown[0]}",
            path="layers",
            value=unknown[0],
            hint="ask another engine",
        )
    return Kinds(len(layers), by_ratio, latent, rope, index, window)


def page_bytes(tokens: int, row: int) -> int:
    """One page of packed rows, padded to a multiple of 576."""
    return -(-tokens * row // _ROW_ALIGN) * _ROW_ALIGN


def size(budget: int, k: Kinds, *, requests: int, ratio: float, draft_tokens: int, limit: int | None) -> Sized:
    """Tokens from the budget: request-scoped states are taken out first, the rest by bytes a full token."""
    ring4, ring128 = (16, 256) if draft_tokens else (8, 128)
    row = k.latent - k.rope + 2 * k.rope + 8  # fp8 part, wide rope keys, scales
    n4, n128 = k.by_ratio.get(4, 0), k.by_ratio.get(128, 0)
    index_row = k.index + k.index // 128 * 4
    state4 = ring4 / PAGE * (2 * 2 * k.latent * _FP32 + 2 * 2 * k.index * _FP32) * n4
    window_token = page_bytes(PAGE, row) / PAGE * k.layers + state4
    per_token = ratio * window_token
    per_token += (page_bytes(PAGE // 4, row) / (PAGE // 4) / 4 + index_row / 4) * n4
    per_token += page_bytes(PAGE // 128, row) / (PAGE // 128) / 128 * n128
    if draft_tokens:
        per_token *= (k.layers + 1) / k.layers
    fixed = _state128(k, requests, ring128)
    full = floor_to(int(max(budget - fixed, 0) / per_token), PAGE)
    if limit is not None:
        full = min(full, floor_to(limit, PAGE))
    window = floor_to(int(full * ratio), PAGE)
    return Sized(full, window, fixed, per_token, _caches(k, full, window, row, index_row, requests, ring4, ring128))


def _state128(k: Kinds, requests: int, ring: int) -> int:
    """States of the 128-token compressors: a ring for every request slot, float32, whatever the tokens."""
    n = k.by_ratio.get(128, 0)
    rows = -(-((requests + 1) * ring + ring + 1) // 128) * 128
    return rows * 2 * k.latent * _FP32 * n


def _caches(
    k: Kinds, full: int, window: int, row: int, index_row: int, requests: int, ring4: int, ring128: int
) -> tuple[PoolCache, ...]:
    n4, n128 = k.by_ratio.get(4, 0), k.by_ratio.get(128, 0)
    four, far = full // 4, full // 128
    states4 = window // PAGE * ring4
    rows4 = -(-(states4 + ring4 + 1) // 4) * 4
    pages4 = (four + PAGE) // (PAGE // 4)
    return (
        PoolCache(name="full", num_layers=k.layers, num_cells=full),
        PoolCache(
            name="window",
            num_layers=k.layers,
            num_cells=window,
            k_bytes=(window // PAGE + 1) * page_bytes(PAGE, row) * k.layers,
        ),
        PoolCache(name="compressed_4", num_layers=n4, num_cells=four, k_bytes=pages4 * page_bytes(PAGE // 4, row) * n4),
        PoolCache(
            name="compressed_128",
            num_layers=n128,
            num_cells=far,
            k_bytes=(far + PAGE) // (PAGE // 128) * page_bytes(PAGE // 128, row) * n128,
        ),
        PoolCache(name="indexer", num_layers=n4, num_cells=four, k_bytes=pages4 * (PAGE // 4) * index_row * n4),
        PoolCache(
            name="state",
            num_layers=n4 + n128,
            num_slots=requests,
            bytes=_state128(k, requests, ring128) + rows4 * 4 * (k.latent + k.index) * _FP32 * n4,
        ),
    )
