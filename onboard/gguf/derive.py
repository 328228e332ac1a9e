"""GGUF metadata -> Profile: the layers llama.cpp would build from the file, and the facts it rests on.

Source: llama.cpp 0c1e57098 src/llama-model.cpp load_hparams, src/llama-hparams.cpp, src/models/*.cpp. Facts read from
the file have the origin `header`. `block_count` counts draft-head blocks (`nextn_predict_layers`) too; they become
`mtp_layers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onboard.errors import FieldInvalid, FieldMissing
from onboard.gguf.archs import Arch, arch_of, is_known
from onboard.gguf.geometry import Geometry, attention_cache, geometry_of
from onboard.gguf.metadata import Metadata
from onboard.gguf.patterns import recurrent_layers, sliding_layers
from onboard.gguf.reader import GgufHeader, LongArray
from onboard.gguf.states import STATES, ngram_state
from onboard.layers import CacheSpec, Compressed, CrossAttention, FullAttention, Indexer, Layer, SharedWith
from onboard.profile import Profile, SourceRef, WeightVariant

ARCHITECTURE = "gguf_architecture"
# our fact <- key of the file; a per-layer array stands as its largest entry
_FACTS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_kv_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_model_len": "context_length",
    "num_experts": "expert_count",
    "num_experts_per_token": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "num_shared_experts": "expert_shared_count",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "num_mtp_layers": "nextn_predict_layers",
    "per_layer_input": "embedding_length_per_layer_input",
    "num_deepstack_layers": "n_deepstack_layers",
}


def derive_gguf(
    header: GgufHeader | Mapping[str, Any],
    *,
    model_id: str,
    source: SourceRef,
    weights: tuple[WeightVariant, ...] = (),
) -> Profile:
    """The profile of a GGUF file. Raises a Refusal that names the key, its value and what to do."""
    raw = header.metadata if isinstance(header, GgufHeader) else header
    meta = Metadata(raw)
    arch = arch_of(meta.arch)
    if not is_known(meta.arch):
        meta.caution("unknown-architecture", "", f"no rules for {meta.arch!r}; every layer is read as full attention")
    meta.record(ARCHITECTURE, meta.arch, "general.architecture")
    for fact, key in _FACTS.items():
        meta.scalar_fact(key, fact)
    _vocab(meta, header)
    if isinstance(header, GgufHeader) and any(t.name == "blk.0.attn_qkv.weight" for t in header.tensors):
        meta.record("fused_qkv", True, "blk.0.attn_qkv.weight")
    num_mtp = meta.get_int("nextn_predict_layers") or 0
    if num_mtp > meta.num_blocks:
        raise FieldInvalid("more draft blocks than blocks", path=meta.key("nextn_predict_layers"), value=num_mtp)
    layers = _layers(meta, arch, meta.num_blocks - num_mtp)
    return Profile(
        id=model_id,
        source=source,
        model_type=meta.arch,
        architectures=(),
        layers=layers,
        mtp_layers=_mtp_layers(meta, arch, num_mtp),
        facts=dict(meta.used),
        weights=weights,
        default_weights=weights[0].name if weights else None,
        warnings=tuple(meta.cautions),
    )


def _vocab(meta: Metadata, header: GgufHeader | Mapping[str, Any]) -> None:
    tokens = meta.raw.get("tokenizer.ggml.tokens")
    if meta.get_int("vocab_size", "vocab_size") is None and isinstance(tokens, (tuple, LongArray)):
        count = tokens.num_entries if isinstance(tokens, LongArray) else len(tokens)
        meta.record("vocab_size", count, "tokenizer.ggml.tokens")


def _layers(meta: Metadata, arch: Arch, count: int) -> tuple[Layer, ...]:
    """The trunk's layers: recurrent, sliding or full, then what cuts across them."""
    if arch.no_cache:
        return (Layer(),) * count
    recurrent = recurrent_layers(meta, arch, count)
    window, sliding = sliding_layers(meta, arch, count, recurrent)
    state = _state(meta, arch) if any(recurrent) else None
    geometry = geometry_of(meta, arch) if arch.recurrent != "all" else Geometry((0,) * meta.num_blocks, 0, 0, 0, 0)
    beside = arch.recurrent == "beside"
    layers: list[Layer] = []
    for index in range(count):
        caches: list[CacheSpec] = []
        if not recurrent[index] or beside:
            caches += attention_cache(geometry, index, window if sliding[index] else 0, arch)
        if recurrent[index] and state is not None:
            caches.append(state)
            caches += ngram_state(meta, index)
        layers.append(Layer(tuple(caches)))
    layers = _looped(meta, layers)
    layers = _with_compressed(meta, arch, layers, geometry)
    layers = _with_indexers(meta, arch, layers, recurrent)
    if meta.get_int("decoder_block_count"):
        layers = [Layer((*x.caches, *_cross(x))) for x in layers]
    layers += [Layer((FullAttention(1, geometry.k_dim, geometry.v_dim),))] * arch.extra_layers
    return tuple(_shared(meta, arch, layers, sliding))


def _state(meta: Metadata, arch: Arch) -> CacheSpec | None:
    """The state spec. A file without its keys keeps its layers, and says that their state is not known."""
    try:
        return STATES[arch.state](meta)
    except FieldMissing as missing:
        meta.caution("state-unknown", missing.path, "the recurrent layers' state is not counted; the key is missing")
        return None


def _cross(layer: Layer) -> tuple[CacheSpec, ...]:
    return tuple(
        CrossAttention(num_kv_heads=c.num_kv_heads, k_dim=c.k_dim, v_dim=c.v_dim)
        for c in layer.caches
        if isinstance(c, FullAttention)
    )


def _looped(meta: Metadata, layers: list[Layer]) -> list[Layer]:
    """`num_loops`: the whole stack runs several times, each pass with caches of its own (Nanbeige)."""
    loops = meta.get_int("num_loops", low=1) or 1
    if loops * len(layers) > 4096:
        raise FieldInvalid(f"{loops} loops", path=meta.key("num_loops"), value=loops)
    return layers * loops


def _with_compressed(meta: Metadata, arch: Arch, layers: list[Layer], geometry: Geometry) -> list[Layer]:
    """DeepSeek-V4: compressed entries beside the window; layers of ratio 4 have an indexer as well."""
    ratios = meta.value("attention.compress_ratios")
    if not isinstance(ratios, tuple) or not arch.streams_per_sequence:
        return layers
    if len(ratios) < len(layers):
        raise FieldInvalid("compress_ratios is shorter than block_count", path=meta.key("attention.compress_ratios"))
    index_dim = meta.need_int("attention.indexer.key_length", low=1)
    out = []
    for layer, ratio in zip(layers, ratios, strict=False):
        extra: tuple[CacheSpec, ...] = ()
        if ratio:
            extra = (Compressed(elements_per_entry=geometry.k_dim, tokens_per_entry=ratio),)
        if ratio == 4:
            extra += (Indexer(elements_per_entry=index_dim, tokens_per_entry=4),)
        out.append(Layer(layer.caches + extra))
    return out


def _with_indexers(meta: Metadata, arch: Arch, layers: list[Layer], recurrent: Sequence[bool]) -> list[Layer]:
    if not arch.indexer:
        return layers
    dim = meta.get_int("attention.indexer.key_length")
    if not dim or not meta.get_int("attention.indexer.top_k"):
        return layers
    owners = _indexer_owners(meta, arch, len(layers))
    spec = Indexer(elements_per_entry=dim)
    return [
        Layer((*layer.caches, spec)) if owner and not recurrent[i] else layer
        for i, (layer, owner) in enumerate(zip(layers, owners, strict=True))
    ]


def _indexer_owners(meta: Metadata, arch: Arch, count: int) -> list[bool]:
    """Layers that own an indexer; without `indexer.types`, all below 1M context, else 0-2 and every 4th from 6."""
    if arch.indexer == "after_dense":
        dense = meta.get_int("leading_dense_block_count") or 0
        return [i >= dense for i in range(count)]
    types = meta.per_layer("attention.indexer.types", count) if arch.indexer == "types" else None
    if types is not None:
        return [bool(t) for t in types]
    if arch.indexer == "types" and (meta.get_int("context_length") or 0) >= 2**20:
        return [i < 3 or i % 4 == 2 for i in range(count)]
    return [True] * count


def _shared(meta: Metadata, arch: Arch, layers: list[Layer], sliding: Sequence[bool]) -> list[Layer]:
    """Layers past the last owner read its cache, or the one before it where they slide."""
    owners = arch.kv_from_start or len(layers) - (meta.get_int("attention.shared_kv_layers") or 0)
    if owners >= len(layers):
        return layers
    if owners < 2:
        raise FieldInvalid("fewer than two layers own a cache", path=meta.key("attention.shared_kv_layers"))
    shared = [Layer((SharedWith(owners - (2 if sliding[i] else 1)),)) for i in range(owners, len(layers))]
    return layers[:owners] + shared


def _mtp_layers(meta: Metadata, arch: Arch, count: int) -> tuple[Layer, ...]:
    """Draft-head blocks are plain attention over the whole context (create_memory, ctx_type MTP)."""
    if not count or arch.no_cache:
        return ()
    geometry = geometry_of(meta, arch)
    first = meta.num_blocks - count
    return tuple(Layer(tuple(attention_cache(geometry, first + i, 0, arch))) for i in range(count))
