"""Layers -> bytes of one token (and of one state slot) on one card, as SGLang's pools lay them out.

Sources (`sglang/srt` of 0.5.23): model_executor/pool_configurator.py (cell sizes), configs/model_config.py
(KV heads a rank), mem_cache/kv_cache_configurator.py calculate_mla_kv_cache_dim, configs/mamba_utils.py (states).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from calc.kv_formats import KvFormat
from onboard.layers import (
    CacheSpec,
    ChunkedAttention,
    Compressed,
    FullAttention,
    Heads,
    Indexer,
    LatentAttention,
    Layer,
    SharedWith,
    WindowAttention,
    WindowLatent,
)
from onboard.profile import Profile
from onboard.states import StateCache
from onboard.values import Struct

WINDOWS = (WindowAttention, ChunkedAttention, WindowLatent)
DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp32": 4, "bf16": 2, "fp16": 2, "int64": 8, "int32": 4}
_QUANT_BLOCK = 128  # DSATokenToKVPool.quant_block_size
_FP4_BLOCK = 16


class Row(Struct, frozen=True):
    """Bytes of one token in one pool, over all its layers: K (or the latent row), V, and an indexer's keys."""

    num_layers: int = 0
    k_bytes: int = 0
    v_bytes: int = 0
    index_bytes: int = 0

    def __add__(self, other: Row) -> Row:
        return Row(
            self.num_layers + other.num_layers,
            self.k_bytes + other.k_bytes,
            self.v_bytes + other.v_bytes,
            self.index_bytes + other.index_bytes,
        )

    @property
    def cell(self) -> int:
        return self.k_bytes + self.v_bytes + self.index_bytes


class Slot(Struct, frozen=True):
    """Bytes of one state slot over all its layers: convolutions, and the recurrent part."""

    num_layers: int = 0
    conv_bytes: int = 0
    ssm_bytes: int = 0

    @property
    def bytes(self) -> int:
        return self.conv_bytes + self.ssm_bytes


class How(Struct, frozen=True, kw_only=True):
    """How rows are stored: the format, cards that share the heads, and DSA's two row layouts.

    `index_every` and `no_index` are older builds that sized every layer's indexer, or none.
    """

    kv: KvFormat
    attn_tp: int
    split_windows: bool
    scaled_latent: bool = False
    v_head_dim: bool = True
    index_every: bool = False
    no_index: bool = False
    model_dtype_bytes: int = 2


class Layout(Struct, frozen=True):
    """The fullest card's pools: rows kept whole, rows of the window pool, one state slot."""

    full: Row
    window: Row
    slot: Slot


def heads_row(spec: Heads, how: How) -> Row:
    """One layer of K and V heads. KV heads divide over the attention TP group, and never below one."""
    heads = max(1, spec.num_kv_heads // how.attn_tp)
    v_dim = spec.v_dim if how.v_head_dim else spec.k_dim
    return Row(1, heads * how.kv.bytes_of(spec.k_dim, 0), heads * how.kv.bytes_of(0, v_dim))


def latent_row(spec: LatentAttention, how: How, *, sparse: bool) -> Row:
    """One layer's latent row, whole on every card. Beside an indexer fp8_e4m3 rows may hold scales and wide rope."""
    width = spec.latent_dim + spec.rope_dim
    if how.kv.element_bits == 4:
        return Row(1, width // 2 + width // _FP4_BLOCK)
    if sparse and how.scaled_latent:
        return Row(1, spec.latent_dim + spec.latent_dim // _QUANT_BLOCK * 4 + spec.rope_dim * 2)
    return Row(1, how.kv.bytes_of(width, 0))


def index_bytes(spec: Indexer, how: How, *, latent: bool) -> int:
    """One layer's indexer keys: fp8 with a scale a block beside a latent cache, the model's dtype beside heads."""
    elements = spec.elements_per_entry
    if latent:
        return -(-(elements + elements // _QUANT_BLOCK * 4) // spec.tokens_per_entry)
    return -(-elements * how.model_dtype_bytes // spec.tokens_per_entry)


@lru_cache(maxsize=256)
def layout(layers: tuple[Layer, ...], how: How, ssm_dtype: str, stage: range | None = None) -> Layout:
    """Rows of the layers in `stage` (all, where None)."""
    chosen = range(len(layers)) if stage is None else stage
    hybrid = any(isinstance(c, StateCache) for layer in layers for c in layer.caches)
    common = _common_heads(layers)
    full, window = Row(), Row()
    for index in chosen:
        for spec in _attention(layers, index):
            row = _row(spec, layers[index], how, common)
            if how.split_windows and isinstance(spec, WINDOWS):
                window += row
            else:
                full += row
        if not hybrid and not layers[index].caches and common is not None:
            full += heads_row(common, how)  # a layer without attention still has buffers where nothing is hybrid
    if how.index_every:
        full = _index_on_every_layer(full, layers, chosen, how)
    return Layout(full, window, state_slot(layers, how.attn_tp, ssm_dtype, chosen))


def state_slot(layers: Sequence[Layer], tp: int, ssm_dtype: str, chosen: Sequence[int]) -> Slot:
    """One slot of every state in `chosen`: convolutions are bfloat16, the rest `ssm_dtype`."""
    conv = ssm = count = 0
    for index in chosen:
        states = [c for c in layers[index].caches if isinstance(c, StateCache)]
        count += bool(states)
        for tensor in (t for s in states for t in s.tensors(tp)):
            if tensor.name.startswith("conv"):
                conv += 2 * tensor.elements
            else:
                ssm += DTYPE_BYTES[ssm_dtype] * tensor.elements
    return Slot(count, conv, ssm)


def stages(num_layers: int, pp: int) -> list[range]:
    """Layers of each pipeline stage: even shares, the rest going to the later stages but the last (get_pp_indices)."""
    shares = [num_layers // pp] * pp
    for i in range(num_layers % pp):
        shares[-2 - i] += 1
    starts = [sum(shares[:i]) for i in range(pp)]
    return [range(start, start + share) for start, share in zip(starts, shares, strict=True)]


def holds(profile: Profile, *kinds: type[CacheSpec]) -> bool:
    """Whether any layer holds a cache of one of these classes."""
    return any(isinstance(spec, kinds) for spec, _ in profile.cache_groups)


def is_latent(profile: Profile) -> bool:
    """Whether the model runs on a latent-attention backend."""
    return holds(profile, LatentAttention) and not is_compressed(profile)


def is_compressed(profile: Profile) -> bool:
    """Whether any layer keeps compressed entries."""
    return holds(profile, Compressed)


def has_indexer(profile: Profile) -> bool:
    """Whether any layer keeps index keys."""
    return holds(profile, Indexer)


def _attention(layers: Sequence[Layer], index: int) -> list[Heads | LatentAttention]:
    found: list[Heads | LatentAttention] = []
    for spec in layers[index].caches:
        if isinstance(spec, SharedWith):
            found += [c for c in layers[spec.layer].caches if isinstance(c, (Heads, LatentAttention))]
        elif isinstance(spec, (Heads, LatentAttention)):
            found.append(spec)
    return found


def _row(spec: Heads | LatentAttention, layer: Layer, how: How, common: Heads | None) -> Row:
    indexers = () if how.no_index else tuple(c for c in layer.caches if isinstance(c, Indexer))
    if isinstance(spec, LatentAttention):
        index = 0 if how.index_every else sum(index_bytes(i, how, latent=True) for i in indexers)
        return latent_row(spec, how, sparse=True) + Row(0, 0, 0, index)
    if not (how.split_windows and isinstance(spec, WINDOWS)) and common is not None:
        spec = common  # one head geometry for every layer that is kept whole
    return heads_row(spec, how) + Row(0, 0, 0, sum(index_bytes(i, how, latent=False) for i in indexers))


def _common_heads(layers: Sequence[Layer]) -> Heads | None:
    """The geometry of full-attention layers, where they have only one; else of all head layers, likewise."""
    for kind in (FullAttention, Heads):
        found = {c for layer in layers for c in layer.caches if isinstance(c, kind)}
        if found:
            return next(iter(found)) if len({(c.num_kv_heads, c.k_dim, c.v_dim) for c in found}) == 1 else None
    return None


def _index_on_every_layer(full: Row, layers: Sequence[Layer], chosen: Sequence[int], how: How) -> Row:
    widths = [index_bytes(c, how, latent=True) for layer in layers for c in layer.caches if isinstance(c, Indexer)]
    latent = sum(isinstance(c, LatentAttention) for i in chosen for c in layers[i].caches)
    return full + Row(0, 0, 0, max(widths) * latent) if widths and latent else full
