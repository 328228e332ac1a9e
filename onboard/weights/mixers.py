"""The matrices of a layer's token mixer, from its cache spec and the config's facts: one builder a spec class.

Sources: vLLM 0.33 model_executor/models/{llama,deepseek_v2}.py; roles say what TP does to each (`calc.shard`).
Recurrent mixers are `recurrent`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onboard.errors import WeightsUnknown
from onboard.facts import Facts
from onboard.layers import (
    CacheSpec,
    Compressed,
    CrossAttention,
    FullAttention,
    Heads,
    Indexer,
    LatentAttention,
    Layer,
    SharedWith,
)
from onboard.weights.context import Context
from onboard.weights.matrix import Matrix, linear, vector
from onboard.weights.recurrent import RECURRENT


def mixer(context: Context, layer: Layer, index: int) -> list[Matrix]:
    """All token mixers of a layer. Raises WeightsUnknown where a spec has no builder."""
    facts, traits = context.facts, context.traits
    made: list[Matrix] = []
    if facts.get("o_lora_rank"):
        return grouped_latent(context, layer)
    if not layer.caches and (not facts.generates or facts.get("is_causal") is False):
        return _heads(context, _encoder_heads(facts), index)
    if not layer.caches and traits.reads_target:
        return [m for m in _heads(context, _encoder_heads(facts), index) if m.role == "attention"]
    for cache in layer.caches:
        if traits.shared_blocks and isinstance(cache, Heads):
            continue  # counted once, outside the stack
        builder = next((BUILDERS[c] for c in type(cache).__mro__ if c in BUILDERS), None)
        if builder is None:
            raise WeightsUnknown(
                f"no rule counts the parameters of {type(cache).__name__} (layer {index})", path="layers",
                value=type(cache).__name__, hint="give --weights-gb X (10^9 bytes, the checkpoint's size)",
            )  # fmt: skip
        made += builder(context, cache, index)
    return made


def heads_of(context: Context, index: int) -> int:
    """Query heads of a layer: per-layer lists, other counts for windowed layers, else the one number."""
    facts = context.facts
    listed = facts.get("heads_per_layer")
    if listed:
        entry: object = listed[index] if index < len(listed) else None
        if isinstance(entry, bool) or not isinstance(entry, int) or entry < 1:
            path = f"{facts.path('heads_per_layer')}[{index}]"
            raise WeightsUnknown(f"{path} is no number of query heads", path=path, value=str(entry)[:80])
        return entry
    kinds = context.layers[index].kinds() if index < len(context.layers) else ()
    windowed = facts.get("swa_num_attention_heads")
    if windowed and "window" in kinds:
        return int(windowed)
    return int(facts.layer("num_attention_heads", index) or 0)


def _encoder_heads(facts: Facts) -> FullAttention:
    """The geometry of a layer that attends without keeping anything: an encoder's, or a draft's that has no keys."""
    heads = int(facts.layer("num_attention_heads", 0) or 1)
    dim = int(facts.layer("head_dim", 0) or facts.need("hidden_size") // heads)
    return FullAttention(num_kv_heads=int(facts.layer("num_kv_heads", 0) or heads), k_dim=dim, v_dim=dim)


def grouped_latent(context: Context, layer: Layer) -> list[Matrix]:
    """DeepSeek-V4: queries and outputs through low ranks, one key row, compressors and indexer whole on every card.

    Source: transformers 5.24 models/deepseek_v4 (DeepseekV4Attention, CSA and HCA compressors, HyperConnection).
    """
    facts, hidden = context.facts, context.hidden
    heads, dim = int(facts.need_layer("num_attention_heads", 0)), int(facts.need_layer("head_dim", 0))
    rank, low, groups = int(facts.need("q_lora_rank")), int(facts.need("o_lora_rank")), int(facts.need("o_groups"))
    made = linear("replicated", "self_attn.q_a_proj", hidden, rank)
    made += linear("attention", "self_attn.q_b_proj", rank, heads * dim)
    made += linear("replicated", "self_attn.kv_proj", hidden, dim)
    made += linear("attention", "self_attn.o_a_proj", heads * dim, low)
    made += linear("attention", "self_attn.o_b_proj", groups * low, hidden)
    indexed = any(isinstance(c, Indexer) for c in layer.caches)
    if indexed:
        key, queries = int(facts.need("index_head_dim")), int(facts.need("index_n_heads"))
        made += [Matrix(role="replicated", module="self_attn.indexer.compressor", rows=4 * key, columns=hidden)]
        made += linear("replicated", "self_attn.indexer.wq_b", rank, queries * key)
        made += [Matrix(role="replicated", module="self_attn.indexer.weights_proj", rows=queries, columns=hidden)]
    if any(isinstance(c, Compressed) for c in layer.caches):
        rows = (4 if indexed else 2) * dim
        made += [Matrix(role="replicated", module="self_attn.compressor", rows=rows, columns=hidden)]
    streams = int(facts.get("hc_mult") or 1)
    if streams > 1:
        rows = 2 * (2 + streams) * streams
        made += [Matrix(role="replicated", module="hyper", rows=rows, columns=streams * hidden, wide=True)]
    return made


def _heads(context: Context, cache: Any, index: int) -> list[Matrix]:
    """Q, K, V and O of grouped-query attention; one K=V matrix where the two are tied and the spec says so."""
    traits, facts, hidden = context.traits, context.facts, context.hidden
    heads, kv = heads_of(context, index), cache.num_kv_heads
    stated = facts.get("attention_bias")
    qkv_bias = bool(stated) if traits.qkv_bias is None or stated is False else traits.qkv_bias
    o_bias = bool(stated) if traits.o_bias is None else traits.o_bias
    v_dim = cache.v_dim or cache.k_dim
    gate = 2 if facts.get("attn_output_gate") or (traits.output_gate and facts.get("attn_output_gate") is None) else 1
    made: list[Matrix] = []
    shared = facts.get("share_q_dim")
    if shared:  # Step-3: queries through a low rank, kept whole on every card
        made += linear("replicated", "self_attn.q_proj", hidden, shared)
        made += linear("attention", "self_attn.wq", shared, heads * cache.k_dim)
    else:
        made += linear("attention", "self_attn.q_proj", hidden, gate * heads * cache.k_dim, bias=qkv_bias)
    made += key_values(context, cache, qkv_bias)
    made += linear("attention", "self_attn.o_proj", heads * v_dim, hidden, bias=o_bias)
    if traits.qk_norm:
        made += [vector("norm", "self_attn.qk_norm", 2 * cache.k_dim)]
    if traits.full_qk_norm:
        made += [vector("norm", "self_attn.qk_norm", (heads + kv) * cache.k_dim)]
    if traits.output_gate_whole:
        made += linear("replicated", "self_attn.gate_proj", hidden, heads * cache.k_dim)
    if traits.gate_of_heads:
        made += linear("attention", "self_attn.gate_proj", hidden, heads * cache.k_dim)
    if facts.get("head_gating"):
        made += linear("attention", "self_attn.g_proj", hidden, heads)
    return made


def key_values(context: Context, cache: Any, bias: bool) -> list[Matrix]:
    """The K and V projections (hidden x KV heads x head size), one matrix where K and V are tied."""
    hidden, kv = context.hidden, cache.num_kv_heads
    if getattr(cache, "k_eq_v", False):
        return linear("kv_tied", "self_attn.k_proj", hidden, kv * cache.k_dim, bias=bias, units=kv)
    made = linear("kv_proj", "self_attn.k_proj", hidden, kv * cache.k_dim, bias=bias, units=kv)
    return made + linear("kv_proj", "self_attn.v_proj", hidden, kv * (cache.v_dim or cache.k_dim), bias=bias, units=kv)


def _shared(context: Context, cache: Any, index: int) -> list[Matrix]:
    """A layer that reads another's cache: queries and output only (vLLM still builds K and V, see `calc.shard`)."""
    source = next(c for c in context.layers[cache.layer].caches if isinstance(c, (Heads, LatentAttention)))
    builder = BUILDERS[LatentAttention if isinstance(source, LatentAttention) else Heads]
    kept = {"kv_proj": "kv_unused", "kv_tied": "kv_unused"}
    return [
        Matrix(
            role=kept.get(m.role, m.role), module=m.module, rows=m.rows, columns=m.columns, copies=m.copies,
            units=m.units, linear=m.linear,
        )
        for m in builder(context, source, index)
    ]  # fmt: skip


def _latent(context: Context, cache: Any, index: int) -> list[Matrix]:
    """MLA: the down projections are whole on every card, the up projections are split by heads."""
    facts, hidden, heads = context.facts, context.hidden, heads_of(context, index)
    nope = facts.layer("qk_nope_head_dim", index) or 0
    v_dim = facts.layer("v_head_dim", index) or nope
    q_dim = heads * (nope + cache.rope_dim)
    rank = facts.layer("q_lora_rank", index)
    made: list[Matrix] = []
    if rank:
        made += linear("replicated", "self_attn.q_a_proj", hidden, rank)
        made += [vector("norm", "self_attn.q_a_layernorm", rank)]
        made += linear("attention", "self_attn.q_b_proj", rank, q_dim)
    else:
        made += linear("attention", "self_attn.q_proj", hidden, q_dim)
    made += linear("replicated", "self_attn.kv_a_proj_with_mqa", hidden, cache.latent_dim + cache.rope_dim)
    made += [vector("norm", "self_attn.kv_a_layernorm", cache.latent_dim)]
    made += linear("latent_up", "self_attn.kv_b_proj", cache.latent_dim, heads * (nope + v_dim))
    made += linear("attention", "self_attn.o_proj", heads * v_dim, hidden)
    if facts.get("mla_output_gate"):
        made += linear("attention", "self_attn.g_proj", hidden, heads * v_dim)
    return made


def _indexer(context: Context, cache: Any, index: int) -> list[Matrix]:
    """DeepSeek V3.2's indexer, whole on every card: queries from the low rank, one key, a weight a head."""
    facts, hidden = context.facts, context.hidden
    heads, dim = facts.get("index_n_heads") or 0, facts.get("index_head_dim") or cache.elements_per_entry
    made = linear("replicated", "self_attn.indexer.wq_b", facts.layer("q_lora_rank", index) or hidden, heads * dim)
    made += linear("replicated", "self_attn.indexer.wk", hidden, dim)
    made += [Matrix(role="replicated", module="self_attn.indexer.weights_proj", rows=heads, columns=hidden)]
    return [*made, vector("norm", "self_attn.indexer.k_norm", 2 * dim)]


BUILDERS: dict[type[CacheSpec], Callable[[Context, Any, int], list[Matrix]]] = {
    Heads: _heads,
    CrossAttention: _heads,
    LatentAttention: _latent,
    Indexer: _indexer,
    SharedWith: _shared,
    **RECURRENT,
}
