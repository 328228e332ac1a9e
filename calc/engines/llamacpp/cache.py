"""Cells and bytes of every cache, layer by layer.

Source: llama.cpp 0c1e57098 src/llama-kv-cache.cpp:84-234, llama-kv-cache-iswa.cpp:73,
llama-kv-cache-dsv4.cpp:1210-1330, llama-memory-recurrent.cpp:101.
"""

from __future__ import annotations

from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.rows import CacheRows, StateRow
from calc.engines.llamacpp.settings import Settings, pad
from calc.engines.llamacpp.types import cache_type, row
from onboard.gguf.types import BY_NAME, GgmlType
from onboard.values import Struct


class LayerBytes(Struct, frozen=True):
    """What one layer holds in one cache, over all streams or slots."""

    layer: int
    k: int
    v: int

    @property
    def total(self) -> int:
        return self.k + self.v


class Cache(Struct, frozen=True, kw_only=True):
    """One cache as its log line prints it; `cells` are of one stream. A state has slots, R under k and S under v."""

    name: str
    num_layers: int
    cells: int
    streams: int
    layers: tuple[LayerBytes, ...]
    slots: int = 0

    @property
    def k_bytes(self) -> int:
        return sum(x.k for x in self.layers)

    @property
    def v_bytes(self) -> int:
        return sum(x.v for x in self.layers)

    @property
    def bytes(self) -> int:
        return self.k_bytes + self.v_bytes


def caches_of(model: LlamaModel, settings: Settings) -> tuple[Cache, ...]:
    """Every cache of the main context, in the order of its log lines."""
    per_sequence = model.arch.streams_per_sequence
    streams = settings.n_seq_max if per_sequence else settings.streams
    caches = [_cache(rows, model, settings, streams) for rows in model.caches]
    if model.states:
        caches.append(_state("state", model.states, model.num_layers, settings))
    if model.compressors:
        owners = len({r.layer for r in model.compressors})
        caches.append(_state("compressor", model.compressors, owners, settings))
    return tuple(caches)


def draft_cache(model: LlamaModel, settings: Settings) -> Cache | None:
    """The cache of the MTP context: only the draft head's layers, at full length (create_memory, ctx_type MTP)."""
    return None if model.mtp is None else _cache(model.mtp, model, settings, settings.streams)


def window_cells(model: LlamaModel, settings: Settings) -> int:
    """Cells of a window cache, one stream: pad(min(cells, window x sharing slots + ubatch))."""
    if settings.swa_full:
        return settings.n_ctx_seq
    unified = settings.unified and not model.arch.streams_per_sequence
    sharing = settings.n_seq_max if unified else 1
    return pad(min(settings.n_ctx_seq, model.window * sharing + settings.n_ubatch), settings.swa_pad)


def cells_of(rows: CacheRows, model: LlamaModel, settings: Settings) -> int:
    """Cells of one stream of this cache."""
    if rows.window:
        return window_cells(model, settings)
    if rows.tokens_per_cell > 1:
        return pad(max(1, -(-settings.n_ctx_seq // rows.tokens_per_cell)))
    return settings.n_ctx_seq


def _cache(rows: CacheRows, model: LlamaModel, settings: Settings, streams: int) -> Cache:
    cells = cells_of(rows, model, settings)
    kind_k, kind_v = _type(settings.type_k), _type(settings.type_v)
    count = cells * streams
    has_v = any(r.v for r in rows.rows)
    layers = tuple(
        LayerBytes(
            r.layer, row(kind_k, r.k) * count, row(kind_v, _v_width(r.v, model, settings) if has_v else 0) * count
        )
        for r in rows.rows
    )
    return Cache(name=rows.name, num_layers=rows.num_layers, cells=cells, streams=streams, layers=layers)


def _v_width(width: int, model: LlamaModel, settings: Settings) -> int:
    """V is as wide as the model's widest where flash attention is off; a K-only cache stays without."""
    return width if settings.flash_attn else model.widest_v


def _type(name: str) -> GgmlType:
    return cache_type(name) or BY_NAME["f16"]


def _state(name: str, states: tuple[StateRow, ...], num_layers: int, settings: Settings) -> Cache:
    """f32 rows for every slot, and n_rs_seq older ones to roll back to."""
    count = 4 * settings.n_seq_max * (1 + settings.n_rs_seq)
    layers = tuple(LayerBytes(s.layer, s.r * count, s.s * count) for s in states)
    slots = settings.n_seq_max
    return Cache(name=name, num_layers=num_layers, cells=slots, streams=1, layers=layers, slots=slots)
