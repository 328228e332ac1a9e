"""Layers with several caches: attention beside a state, and layers that read another layer's cache."""

from __future__ import annotations

from onboard.errors import FieldInvalid
from onboard.facts import Facts
from onboard.layers import CacheSpec, Heads, SharedWith
from onboard.rules.attention import ATTENTION_BUILDERS
from onboard.rules.labels import FULL, SLIDING
from onboard.rules.nested import single
from onboard.rules.pattern_words import indices
from onboard.rules.recurrent import recurrent_caches
from onboard.states import CompressedConvAttention, FourConvs, PerLayerEmbedding, StateCache


def hybrid_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """Full attention and a state."""
    return _beside(facts, index, FULL)


def hybrid_sliding_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """Windowed attention and a state."""
    return _beside(facts, index, SLIDING)


def _beside(facts: Facts, index: int, label: str) -> tuple[CacheSpec, ...]:
    _zamba_head_dim(facts)
    attention = ATTENTION_BUILDERS[label](facts, index)
    source = _reused(facts, index)
    if source is not None:
        return (SharedWith(source), *_state(facts, index, attention))
    return attention + _state(facts, index, attention)


def _reused(facts: Facts, index: int) -> int | None:
    """`kv_reuse_group`: the layers of a group read the K and V of its first (Hymba)."""
    for group in facts.get("kv_reuse_group") or ():
        if not isinstance(group, (list, tuple)) or not group:
            raise FieldInvalid(
                "kv_reuse_group must be lists of layers", path=facts.path("kv_reuse_group"), value=repr(group)
            )
        members = indices(facts, "kv_reuse_group", group, facts.need("num_hidden_layers"))
        if index in members and index != group[0]:
            return int(group[0])
    return None


def _state(facts: Facts, index: int, attention: tuple[CacheSpec, ...]) -> tuple[CacheSpec, ...]:
    """ZAYA's and Inkling's states follow from the attention's own heads; any other is a mechanism of its own."""
    heads = next((cache for cache in attention if isinstance(cache, Heads)), None)
    if heads is not None and facts.get("cca_time0") is not None:
        return (_compressed_convolution(facts, heads),)
    if heads is not None and facts.get("sconv_kernel_size") is not None:
        return (
            FourConvs(
                k_channels=heads.num_kv_heads * heads.k_dim,
                v_channels=heads.num_kv_heads * heads.v_dim,
                hidden_size=single(facts, "hidden_size"),
                conv_kernel=facts.need("sconv_kernel_size"),
            ),
        )
    return recurrent_caches(facts, index)


def _compressed_convolution(facts: Facts, heads: Heads) -> StateCache:
    """q and k run through two convolutions; half of each value is the token before's (transformers 5.24 `zaya`)."""
    queries = single(facts, "num_attention_heads")
    return CompressedConvAttention(
        channels=(queries + heads.num_kv_heads) * heads.k_dim,
        columns=facts.need("cca_time0") - 1 + facts.need("cca_time1") - 1,
        delayed_v_dim=heads.num_kv_heads * heads.v_dim // 2,
    )


def _zamba_head_dim(facts: Facts) -> None:
    """Zamba's attention reads hidden states and embeddings side by side: its heads share twice the hidden size."""
    if facts.get("zamba_mamba_heads") is None:
        return
    stated, heads = facts.get("attention_head_dim"), single(facts, "num_attention_heads")
    if stated is None:
        width = facts.get("attention_hidden_size") or 2 * single(facts, "hidden_size")
        if width % heads:
            raise FieldInvalid(
                f"{heads} heads do not divide {width}", path=facts.prefix + "num_attention_heads", value=heads
            )
        stated = width // heads
        facts.caution("defaulted-field", "attention_head_dim", f"not stated; 2 x hidden_size / heads = {stated}")
    facts.record("head_dim", stated, "attention_head_dim, or 2 x hidden_size / heads")


def linear_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """A state, and what an n-gram embedding of the layer keeps."""
    return recurrent_caches(facts, index) + ngram_caches(facts, index)


def yoco_cross_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """The upper half of a YOCO stack reads the one full-attention layer's cache (Phi-4-mini-flash)."""
    return (SharedWith(facts.need("num_hidden_layers") // 2 + 1),)


def ngram_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """What an n-gram embedding layer keeps beside its own caches; `ple_layer_ids` count from 1.

    Source: transformers 5.24 `models/qwen4_exp` (Qwen4ExpTextPLELayer, Qwen4ExpTextNGramEmbedding).
    """
    if index + 1 not in (facts.get("ple_layer_ids") or ()):
        return ()
    ngram = facts.need("ngram_size")
    return (
        PerLayerEmbedding(
            channels=single(facts, "hidden_size") * facts.need("hc_count"),
            columns=(facts.need("ple_conv_kernel_size") - 1) * ngram,
            num_context_ids=ngram - 1,
        ),
    )
