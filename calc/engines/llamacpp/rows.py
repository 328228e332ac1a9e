"""Rows that caches keep beside the attention's: recurrent states, indexers, DeepSeek-V4's compressed entries.

Source: llama.cpp 0c1e57098 src/llama-hparams.cpp n_embd_r and n_embd_s, src/llama-kv-cache-{dsa,msa,dsv4}.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onboard.gguf.archs import Arch
from onboard.layers import Compressed, FullAttention, Indexer, Layer
from onboard.states import (
    GatedDeltaNet,
    KimiDelta,
    LightningAttention,
    Mamba1,
    Mamba2,
    PerLayerEmbedding,
    RwkvMatrix,
    ShortConv,
    StateCache,
)
from onboard.values import Struct

# Tensors of each state that the engine keeps: (rows of R, rows of S).
STATE_TENSORS: dict[type[StateCache], tuple[tuple[str, ...], tuple[str, ...]]] = {
    Mamba1: (("conv",), ("ssm",)),
    Mamba2: (("conv",), ("ssm",)),
    GatedDeltaNet: (("conv",), ("ssm",)),
    KimiDelta: (("conv",), ("ssm",)),
    LightningAttention: ((), ("ssm",)),
    ShortConv: (("conv",), ()),
    RwkvMatrix: (("shift_att", "shift_ffn"), ("wkv",)),
    PerLayerEmbedding: (("conv",), ()),
}
DSV4_RATIOS = (4, 128)


class Row(Struct, frozen=True):
    """K and V elements that one cell of one layer holds; `layer` is the block's number in the file."""

    layer: int
    k: int
    v: int


class CacheRows(Struct, frozen=True, kw_only=True):
    """The layers of one cache. `cells` says how many cells it has: full, window, or one a `tokens_per_cell` tokens."""

    name: str
    rows: tuple[Row, ...]
    num_layers: int
    window: bool = False
    tokens_per_cell: int = 1


class StateRow(Struct, frozen=True):
    """Recurrent state of one layer, in f32 elements a slot."""

    layer: int
    r: int
    s: int


def indexer_rows(arch: Arch, layers: Sequence[Layer]) -> Iterable[Row]:
    """What each layer's indexer keeps a cell: K elements, and V where the architecture keeps one."""
    for index, layer in enumerate(layers):
        for spec in layer.caches:
            if isinstance(spec, Indexer):
                v = (
                    next((c.v_dim for c in layer.caches if isinstance(c, FullAttention)), 0)
                    if arch.indexer_has_v
                    else 0
                )
                yield Row(index, spec.elements_per_entry * arch.indexer_rows, v)


def compressed_caches(layers: Sequence[Layer]) -> Iterable[CacheRows]:
    """DeepSeek-V4 (llama-kv-cache-dsv4.cpp): K-only caches of each ratio, and the indexer's on ratio-4 layers."""
    for ratio in DSV4_RATIOS:
        rows = tuple(
            Row(i, c.elements_per_entry, 0)
            for i, layer in enumerate(layers)
            for c in layer.caches
            if isinstance(c, Compressed) and c.tokens_per_entry == ratio
        )
        yield CacheRows(name=f"compressed_{ratio}", rows=rows, num_layers=len(rows), tokens_per_cell=ratio)
    rows = tuple(
        Row(i, c.elements_per_entry, 0)
        for i, layer in enumerate(layers)
        for c in layer.caches
        if isinstance(c, Indexer)
    )
    yield CacheRows(name="indexer", rows=rows, num_layers=len(rows), tokens_per_cell=DSV4_RATIOS[0])


def compressor_rows(arch: Arch, layers: Sequence[Layer]) -> Iterable[StateRow]:
    """f32 compressor states of one stream: K and score, twice the ratio's rows where windows overlap (ratio 4)."""
    if not arch.streams_per_sequence:
        return
    for index, layer in enumerate(layers):
        for spec in layer.caches:
            if isinstance(spec, Compressed) and spec.tokens_per_entry == DSV4_RATIOS[0]:
                yield StateRow(index, 2 * 8 * 2 * spec.elements_per_entry, 0)
            elif isinstance(spec, Compressed) and spec.tokens_per_entry == DSV4_RATIOS[1]:
                yield StateRow(index, 2 * 128 * spec.elements_per_entry, 0)
            elif isinstance(spec, Indexer):
                yield StateRow(index, 2 * 8 * 2 * spec.elements_per_entry, 0)


def state_rows(layers: Sequence[Layer]) -> Iterable[StateRow]:
    """Elements of R and S a slot, for each layer that has a state."""
    for index, layer in enumerate(layers):
        r = s = 0
        for spec in layer.caches:
            names = STATE_TENSORS.get(type(spec)) if isinstance(spec, StateCache) else None
            if names is not None and isinstance(spec, StateCache):
                r += sum(t.elements for t in spec.tensors() if t.name in names[0])
                s += sum(t.elements for t in spec.tensors() if t.name in names[1])
        if r or s:
            yield StateRow(index, r, s)
