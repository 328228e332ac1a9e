"""A profile as llama.cpp would load it: rows per cell and layer, recurrent states, widths its checks read.

Source: llama.cpp 0c1e57098 src/llama-model.cpp create_memory, src/llama-kv-cache*.cpp, src/llama-hparams.cpp. Widths
are elements a cell; bytes are `cache`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calc.engines.llamacpp.rows import (
    STATE_TENSORS,
    CacheRows,
    Row,
    StateRow,
    compressed_caches,
    compressor_rows,
    indexer_rows,
    state_rows,
)
from onboard.gguf.archs import Arch, arch_of, is_known
from onboard.gguf.converter import MTP_IN_FILE, converted_layers, gguf_architecture, is_file
from onboard.layers import (
    CacheSpec,
    ChunkedAttention,
    Compressed,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    Layer,
    SharedWith,
    WindowAttention,
    WindowLatent,
)
from onboard.profile import Profile
from onboard.values import Struct


class LlamaModel(Struct, frozen=True, kw_only=True):
    """`num_layers` without draft-head blocks, `num_blocks` with those the file holds (they count for -ngl)."""

    name: str
    arch: Arch
    known: bool
    num_layers: int
    num_blocks: int
    caches: tuple[CacheRows, ...]
    states: tuple[StateRow, ...]
    compressors: tuple[StateRow, ...]
    mtp: CacheRows | None
    window: int
    chunked: bool
    mla: bool
    widest_v: int
    k_widths: tuple[int, ...]
    v_widths: tuple[int, ...]
    layers: tuple[Layer, ...] = ()
    unsupported: tuple[str, ...] = ()


def model_of(profile: Profile) -> LlamaModel:
    """What llama.cpp loads for this profile. Never raises: what it cannot hold is in `unsupported`."""
    name = gguf_architecture(profile)
    arch = arch_of(name or "")
    layers = converted_layers(profile)
    rows = _attention_rows(profile, arch, layers)
    window = next((w for _, _, w in rows if w), 0)
    split = window > 0 or bool(arch.window and arch.window.pattern == 0 and arch.streams_per_sequence)
    mtp_rows = tuple(r for r, _, _ in _attention_rows(profile, arch, profile.mtp_layers, len(layers)))
    mtp_blocks = len(profile.mtp_layers) if name in MTP_IN_FILE or is_file(profile) else 0
    every_row = [r for r, _, _ in rows] + list(mtp_rows if mtp_blocks else ())
    shared_rows = [Row(0, 0, _v_of(layers[c.layer])) for x in layers for c in x.caches if isinstance(c, SharedWith)]
    latent = any(isinstance(c, LatentAttention) for x in layers for c in x.caches) and arch.absorbs_mla
    k_widths, v_widths = _checked_widths(profile, arch, layers)
    return LlamaModel(
        name=name or "",
        arch=arch,
        known=name is not None and is_known(name),
        num_layers=len(layers),
        num_blocks=len(layers) + mtp_blocks,
        caches=() if arch.no_cache else _caches(arch, layers, rows, split),
        states=tuple(state_rows(layers)),
        compressors=tuple(compressor_rows(arch, layers)),
        mtp=CacheRows(name="mtp", rows=mtp_rows, num_layers=len(mtp_rows)) if mtp_rows else None,
        window=window,
        chunked=any(isinstance(c, ChunkedAttention) for x in layers for c in x.caches),
        mla=latent,
        widest_v=max((r.v for r in (*every_row, *shared_rows)), default=0),
        k_widths=k_widths,
        v_widths=v_widths,
        layers=layers,
        unsupported=_unsupported(layers) + _stateless(arch, layers),
    )


def _expanded(profile: Profile, spec: LatentAttention) -> tuple[int, int]:
    """K and V rows of a latent layer whose architecture keeps full heads (MiniCPM3, PLM)."""
    heads = int(profile.require("num_attention_heads"))
    k_dim = int(profile.require("qk_nope_head_dim")) + spec.rope_dim
    return heads * k_dim, heads * int(profile.fact("gguf_value_length") or profile.require("hidden_size") // heads)


def _attention_rows(
    profile: Profile, arch: Arch, layers: Sequence[Layer], first: int = 0
) -> list[tuple[Row, CacheSpec, int]]:
    """Every attention row with its spec and window (0 where the architecture ignores it)."""
    found: list[tuple[Row, CacheSpec, int]] = []
    for index, layer in enumerate(layers, first):
        for spec in layer.caches:
            if isinstance(spec, LatentAttention):
                width = spec.elements_per_token()
                k, v = (width, 0) if arch.absorbs_mla else _expanded(profile, spec)
                window = spec.window if isinstance(spec, WindowLatent) and arch.window else 0
            elif isinstance(spec, FullAttention):
                k, v, window = spec.num_kv_heads * spec.k_dim, spec.num_kv_heads * spec.v_dim, 0
            elif isinstance(spec, WindowAttention):
                k, v = spec.num_kv_heads * spec.k_dim, spec.num_kv_heads * spec.v_dim
                window = _window(arch, spec.window, len(layers))
            elif isinstance(spec, ChunkedAttention):
                k, v = spec.num_kv_heads * spec.k_dim, spec.num_kv_heads * spec.v_dim
                window = _window(arch, spec.chunk, len(layers))
            else:
                continue
            found.append((Row(index, k, v), spec, window))
    return found


def _window(arch: Arch, stated: int, num_layers: int) -> int:
    rule = arch.window
    if rule is None or (rule.only_with_layers and num_layers != rule.only_with_layers):
        return 0
    return rule.fixed or stated


def _caches(
    arch: Arch, layers: Sequence[Layer], rows: list[tuple[Row, CacheSpec, int]], split: bool
) -> tuple[CacheRows, ...]:
    """The caches in the order their log lines appear: full, window, compressed, indexer."""
    if arch.recurrent == "all":
        return ()
    full = tuple(r for r, _, window in rows if not window)
    if not (split or arch.recurrent):  # a block without attention has a row too, of nothing but padding
        bare = (Row(i, 0, 0) for i, layer in enumerate(layers) if not layer.caches)
        full = tuple(sorted((*full, *bare), key=lambda row: row.layer))
    owners = len(full) if split or arch.recurrent else _num_owners(layers)
    caches = [CacheRows(name="full", rows=full, num_layers=owners)]
    if split:
        sliding = tuple(r for r, _, window in rows if window)
        caches.append(CacheRows(name="window", rows=sliding, num_layers=len(sliding), window=True))
    if arch.streams_per_sequence:
        return (*caches, *compressed_caches(layers))
    index_rows = tuple(indexer_rows(arch, layers))
    if index_rows:
        caches.append(CacheRows(name="indexer", rows=index_rows, num_layers=len(index_rows)))
    return tuple(caches)


def _num_owners(layers: Sequence[Layer]) -> int:
    """Layers that the log line counts: all that do not read another's cache, those without KV heads too."""
    return sum(not any(isinstance(c, SharedWith) for c in layer.caches) for layer in layers)


def _unsupported(layers: Sequence[Layer]) -> tuple[str, ...]:
    """Names of caches that llama.cpp has no memory for."""
    known = (
        FullAttention,
        WindowAttention,
        ChunkedAttention,
        LatentAttention,
        Compressed,
        Indexer,
        SharedWith,
        CrossAttention,
    )
    return tuple(
        sorted(
            {
                type(c).__name__
                for layer in layers
                for c in layer.caches
                if not isinstance(c, known) and type(c) not in STATE_TENSORS and type(c).__name__ != "CompressorOverlap"
            }
        )
    )


def _stateless(arch: Arch, layers: Sequence[Layer]) -> tuple[str, ...]:
    """A recurrent architecture whose state the source does not tell: no bytes would be a wrong number."""
    told = any(type(c) in STATE_TENSORS for layer in layers for c in layer.caches)
    return ("recurrent",) if arch.recurrent in ("all", "beside") and not told else ()


def _v_of(layer: Layer) -> int:
    return max(
        (c.num_kv_heads * c.v_dim for c in layer.caches if isinstance(c, (FullAttention, WindowAttention))), default=0
    )


def _checked_widths(profile: Profile, arch: Arch, layers: Sequence[Layer]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Head widths that llama_init_from_model holds against the block size of a quantised type."""
    k: set[int] = set()
    v: set[int] = set()
    for layer in layers:
        for spec in layer.caches:
            if isinstance(spec, LatentAttention):
                k.add(spec.elements_per_token() if arch.absorbs_mla else _head(profile))
                v.add(_head(profile) if arch.own_v_check or not arch.absorbs_mla else spec.latent_dim)
            elif isinstance(spec, (FullAttention, WindowAttention, ChunkedAttention)):
                k.add(spec.k_dim)
                v.add(spec.v_dim)
    return tuple(sorted(k)), tuple(sorted(v))


def _head(profile: Profile) -> int:
    hidden, heads = profile.fact("hidden_size"), profile.fact("num_attention_heads")
    return _scalar(hidden) // _scalar(heads) if hidden and heads else 0


def _scalar(value: Any) -> int:
    return int(max(value)) if isinstance(value, (tuple, list)) else int(value)
