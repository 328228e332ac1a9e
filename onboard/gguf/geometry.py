"""Heads and widths of every layer from GGUF keys (llama_hparams n_head_kv, n_embd_head_k, n_embd_head_v)."""

from __future__ import annotations

from onboard.errors import FieldInvalid, FieldMissing
from onboard.gguf.archs import Arch
from onboard.gguf.metadata import Metadata
from onboard.layers import CacheSpec, ChunkedAttention, FullAttention, LatentAttention, WindowAttention, WindowLatent
from onboard.values import Struct


class Geometry(Struct, frozen=True):
    """`kv_heads` per block; widths of full and of sliding layers; `latent` is the MLA rank, 0 without absorption."""

    kv_heads: tuple[int, ...]
    k_dim: int
    v_dim: int
    k_dim_swa: int
    v_dim_swa: int
    latent: int = 0
    latent_swa: int = 0


def geometry_of(meta: Metadata, arch: Arch) -> Geometry:
    """Raises FieldMissing where neither KV heads nor heads, or neither width nor what gives it, is stated."""
    heads = meta.per_layer("attention.head_count", meta.num_blocks)
    kv_heads = meta.per_layer("attention.head_count_kv", meta.num_blocks) or heads
    if kv_heads is None:
        raise FieldMissing(
            "the file states neither attention.head_count nor head_count_kv", path=meta.key("attention.head_count")
        )
    k_dim = meta.get_int("attention.key_length") or _width(meta, heads, kv_heads)
    v_dim = meta.get_int("attention.value_length") or _width(meta, heads, kv_heads)
    is_mla = bool(meta.get_int("attention.key_length_mla") and meta.get_int("attention.value_length_mla"))
    return Geometry(
        kv_heads,
        k_dim,
        v_dim,
        meta.get_int("attention.key_length_swa") or k_dim,
        meta.get_int("attention.value_length_swa") or v_dim,
        meta.need_int("attention.kv_lora_rank", low=1) if is_mla else 0,
        meta.get_int("attention.kv_lora_rank_swa") or 0,
    )


def _width(meta: Metadata, heads: tuple[int, ...] | None, kv_heads: tuple[int, ...]) -> int:
    """embedding_length / head_count of the first block, in whole elements; 0 for models without heads."""
    if not any(kv_heads):
        return 0
    hidden = meta.need_int("embedding_length", low=1)
    if not heads or not heads[0]:
        raise FieldMissing("no key_length, and no head_count that gives it", path=meta.key("attention.key_length"))
    return hidden // heads[0]


def attention_cache(geometry: Geometry, index: int, window: int, arch: Arch) -> list[CacheSpec]:
    """The attention cache of one layer; empty where it has no KV heads."""
    heads = geometry.kv_heads[index]
    if not heads:
        return []
    k_dim = geometry.k_dim_swa if window else geometry.k_dim
    v_dim = geometry.v_dim_swa if window else geometry.v_dim
    latent = (geometry.latent_swa or geometry.latent) if window else geometry.latent
    if arch.streams_per_sequence:
        latent = k_dim
    if latent:
        if latent > k_dim:
            raise FieldInvalid(f"kv_lora_rank {latent} exceeds key_length {k_dim}", path="attention.kv_lora_rank")
        if window:
            return [WindowLatent(latent, k_dim - latent, window)]
        return [LatentAttention(latent, k_dim - latent)]
    if window and arch.window is not None and arch.window.chunked:
        return [ChunkedAttention(heads, k_dim, v_dim, window)]
    if window:
        return [WindowAttention(heads, k_dim, v_dim, window)]
    return [FullAttention(heads, k_dim, v_dim)]
