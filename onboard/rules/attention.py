"""Label -> caches, for every label that is attention alone. Part of `geometry.BUILDERS`."""

from __future__ import annotations

from collections.abc import Callable

from onboard.facts import Facts
from onboard.layers import CacheSpec, ChunkedAttention, CrossAttention, FullAttention, Indexer, WindowAttention
from onboard.rules.heads import heads
from onboard.rules.indexers import indexer
from onboard.rules.labels import CHUNKED, CROSS, FULL, INDEXED, MEMORY, SLIDING, SPARSE_FULL
from onboard.rules.latent import is_latent, latent, window_latent
from onboard.rules.windows import need_window


def _full(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """All tokens. Where full layers have their own head size and KV heads (Gemma 4), those.

    `num_global_key_value_heads` counts only where K and V are tied (transformers 5.24 configuration_gemma4.py).
    """
    if is_latent(facts, index):
        return latent(facts, index)
    shape, tied = heads(facts, index), bool(facts.get("k_eq_v"))
    if facts.get("per_layer_config") is None:
        dim = facts.get("global_head_dim")
        if dim is not None:
            shape = shape._replace(k_dim=dim, v_dim=dim)
        if facts.get("num_global_kv_heads") is not None and facts.get("k_eq_v") is not False:
            shape = shape._replace(num_kv_heads=facts.get("num_global_kv_heads"))
        elif tied:
            facts.caution("defaulted-field", "num_global_key_value_heads", "not stated; as on the sliding layers")
    return (FullAttention(*shape, k_eq_v=tied),)


def _sliding(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    if is_latent(facts, index):
        return (window_latent(facts, index),)
    return (WindowAttention(*heads(facts, index, sliding=True), window=need_window(facts, index)),)


def _chunked(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    chunk = facts.need("attention_chunk_size", "gives the chunk of chunked layers")
    return (ChunkedAttention(*heads(facts, index), chunk=chunk),)


def _indexed(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """Attention with a sparse-attention indexer, whose keys it keeps unless it reuses another layer's selection."""
    return (*_full(facts, index), *indexer(facts, index))


def _sparse_full(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """Full attention whose blocks are picked by index keys of one head (MiniMax-M3)."""
    return (*_full(facts, index), Indexer(facts.need("index_head_dim", "gives the index keys of sparse layers")))


def _cross(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """A decoder layer that attends to an image or audio encoder only (Llama 3.2 Vision)."""
    return (CrossAttention(*heads(facts, index)),)


def _memory(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """Hidden states of earlier segments instead of K and V, all of them or the last `mem_len` (XLNet)."""
    hidden = facts.need("hidden_size")
    length = facts.get("memory_length")
    return (WindowAttention(1, hidden, 0, window=length) if length else FullAttention(1, hidden, 0),)


ATTENTION_BUILDERS: dict[str, Callable[[Facts, int], tuple[CacheSpec, ...]]] = {
    FULL: _full,
    SLIDING: _sliding,
    CHUNKED: _chunked,
    INDEXED: _indexed,
    SPARSE_FULL: _sparse_full,
    CROSS: _cross,
    MEMORY: _memory,
}
