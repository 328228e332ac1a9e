"""Recurrent geometry from GGUF keys: one builder a mechanism, found in one table.

Source: llama.cpp 0c1e57098 src/llama-hparams.cpp n_embd_r and n_embd_s; sizes of the specs equal those.
"""

from __future__ import annotations

from collections.abc import Callable

from onboard.errors import FieldInvalid
from onboard.gguf.metadata import Metadata
from onboard.layers import CacheSpec
from onboard.states import (
    GatedDeltaNet,
    KimiDelta,
    LightningAttention,
    Mamba1,
    Mamba2,
    PerLayerEmbedding,
    RwkvMatrix,
    ShortConv,
)

STATE_DTYPE = "float32"


def _heads(meta: Metadata) -> int:
    heads = meta.per_layer("attention.head_count", meta.num_blocks)
    return heads[0] if heads else 0


def _mamba(meta: Metadata) -> CacheSpec:
    inner, state = meta.need_int("ssm.inner_size", low=1), meta.need_int("ssm.state_size", low=1)
    kernel, groups = meta.need_int("ssm.conv_kernel", low=1), meta.get_int("ssm.group_count") or 0
    if not groups:
        return Mamba1(inner_dim=inner, state_dim=state, conv_kernel=kernel, ssm_dtype=STATE_DTYPE)
    heads = meta.get_int("ssm.time_step_rank") or 1
    if inner % heads:
        heads = 1
    return Mamba2(
        num_heads=heads,
        head_dim=inner // heads,
        num_groups=groups,
        state_dim=state,
        conv_kernel=kernel,
        ssm_dtype=STATE_DTYPE,
    )


def _gdn(meta: Metadata) -> CacheSpec:
    inner, heads = meta.need_int("ssm.inner_size", low=1), meta.need_int("ssm.time_step_rank", low=1)
    if inner % heads:
        raise FieldInvalid(
            f"ssm.inner_size {inner} is not a multiple of {heads} value heads", path=meta.key("ssm.inner_size")
        )
    return GatedDeltaNet(
        num_k_heads=meta.need_int("ssm.group_count", low=1),
        num_v_heads=heads,
        k_dim=meta.need_int("ssm.state_size", low=1),
        v_dim=inner // heads,
        conv_kernel=meta.need_int("ssm.conv_kernel", low=1),
        ssm_dtype=STATE_DTYPE,
    )


def _shortconv(meta: Metadata) -> CacheSpec:
    return ShortConv(channels=meta.need_int("embedding_length"), conv_kernel=meta.need_int("shortconv.l_cache", low=1))


def _kda(meta: Metadata) -> CacheSpec:
    kernel = meta.get_int("ssm.conv_kernel") or 4
    return KimiDelta(
        num_heads=_heads(meta),
        head_dim=meta.need_int("kda.head_dim", low=1),
        conv_kernel=kernel,
        ssm_dtype=STATE_DTYPE,
    )


def _lightning(meta: Metadata) -> CacheSpec:
    return LightningAttention(num_heads=_heads(meta), head_dim=meta.need_int("attention.key_length", low=1))


def _rwkv(meta: Metadata) -> CacheSpec:
    hidden, dim = meta.need_int("embedding_length", low=1), meta.need_int("wkv.head_size", low=1)
    shifts = 1 if meta.get_int("token_shift_count") == 1 else 2  # RWKV mixers on another model's MLPs shift once
    return RwkvMatrix(num_heads=hidden // dim, head_dim=dim, hidden_size=hidden, token_shifts=shifts)


STATES: dict[str, Callable[[Metadata], CacheSpec]] = {
    "mamba": _mamba,
    "gdn": _gdn,
    "shortconv": _shortconv,
    "kda": _kda,
    "lightning": _lightning,
    "rwkv": _rwkv,
}


def ngram_state(meta: Metadata, index: int) -> list[CacheSpec]:
    """Columns of the n-gram embedding's dilated convolution on the layers that `ple.layers` names (Qwen4-Exp)."""
    layers = meta.value("ple.layers")
    if not isinstance(layers, tuple) or index not in layers:
        return []
    ngram, kernel = meta.need_int("ple.ngram_size", low=2), meta.need_int("ple.conv_kernel", low=1)
    streams = meta.need_int("hyper_connection.count", low=1)
    return [
        PerLayerEmbedding(
            channels=streams * meta.need_int("embedding_length"),
            columns=(kernel - 1) * ngram,
            num_context_ids=ngram - 1,
        )
    ]
