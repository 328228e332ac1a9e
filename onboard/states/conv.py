"""States that are mostly columns of short convolutions, alone or beside attention.

Shapes: vLLM 0.33 `mamba_utils.py` short_conv_state_shape; transformers 5.24 `models/{lfm2,recurrent_gemma,inkling,zaya,
qwen4_exp,deepseek_v4}/modeling_*.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from onboard.states.base import StateCache, StateTensor


class ShortConv(StateCache, frozen=True):
    """LFM2: a short convolution and nothing else."""

    family: ClassVar[str] = "short_conv"
    channels: int
    conv_kernel: int

    def divided(self) -> Mapping[str, int]:
        return {"channels": self.channels}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (StateTensor("conv", (self.channels // tp, self.conv_kernel - 1)),)


class RgLru(StateCache, frozen=True):
    """RG-LRU (RecurrentGemma, Griffin): one float32 vector, and the convolution's columns."""

    family: ClassVar[str] = "rg_lru"
    lru_width: int
    conv_kernel: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (
            StateTensor("conv", (self.lru_width, self.conv_kernel - 1)),
            StateTensor("lru", (self.lru_width,), "float32"),
        )


class Hyena(StateCache, frozen=True):
    """StripedHyena: columns of the short filter over three projections, and complex poles of the long one, float32."""

    family: ClassVar[str] = "hyena"
    hidden_size: int
    state_dim: int
    filter_length: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (
            StateTensor("conv", (3 * self.hidden_size, self.filter_length - 1)),
            StateTensor("iir", (self.hidden_size, self.state_dim, 2), "float32"),
        )


class FourConvs(StateCache, frozen=True):
    """Inkling: convolutions after the K and V projections, the attention and the MLP, beside K and V themselves."""

    family: ClassVar[str] = "four_convs"
    k_channels: int
    v_channels: int
    hidden_size: int
    conv_kernel: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        columns = self.conv_kernel - 1
        return (
            StateTensor("conv_k", (self.k_channels // tp, columns)),
            StateTensor("conv_v", (self.v_channels // tp, columns)),
            StateTensor("conv_attn", (self.hidden_size, columns)),
            StateTensor("conv_mlp", (self.hidden_size, columns)),
        )


class CompressedConvAttention(StateCache, frozen=True):
    """ZAYA (CCA): columns of two stacked convolutions over q and k, and half of the previous token's value.

    The two convolutions together remember (t0 - 1) + (t1 - 1) columns.
    """

    family: ClassVar[str] = "cca"
    channels: int
    columns: int
    delayed_v_dim: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (
            StateTensor("conv", (self.channels // tp, self.columns)),
            StateTensor("delayed_v", (self.delayed_v_dim // tp,)),
        )


class PerLayerEmbedding(StateCache, frozen=True):
    """Qwen4-Exp's n-gram layers: columns of a dilated convolution over the wide stream, and past token ids."""

    family: ClassVar[str] = "ngram_conv"
    channels: int
    columns: int
    num_context_ids: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (
            StateTensor("conv", (self.channels, self.columns)),
            StateTensor("context_ids", (self.num_context_ids,), "int64"),
        )


class CompressorOverlap(StateCache, frozen=True):
    """DeepSeek-V4: the previous window's first series (K and gate), which the next compressed entry still needs.

    An engine also stages the tokens of the window in progress; that buffer is the engine's own rule. Every card
    keeps it whole.
    """

    family: ClassVar[str] = "compressor"
    tokens_per_entry: int
    head_dim: int
    index_head_dim: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (
            StateTensor("overlap_kv", (self.tokens_per_entry, self.head_dim), "float32"),
            StateTensor("overlap_gate", (self.tokens_per_entry, self.head_dim), "float32"),
            StateTensor("indexer_overlap_kv", (self.tokens_per_entry, self.index_head_dim), "float32"),
            StateTensor("indexer_overlap_gate", (self.tokens_per_entry, self.index_head_dim), "float32"),
        )
