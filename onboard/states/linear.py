"""Linear attention: a matrix per head that stands for all earlier tokens.

Shapes: vLLM 0.33 `model_executor/layers/mamba/mamba_utils.py` MambaStateShapeCalculator; transformers 5.24
`models/{qwen3_next,kimi_linear,minimax,xlstm,rwkv}/modeling_*.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from onboard.states.base import StateCache, StateTensor


class GatedDeltaNet(StateCache, frozen=True):
    """Qwen3-Next, Qwen3.5/3.6, OLMo-hybrid: a k x v matrix per value head, and the convolution's columns."""

    family: ClassVar[str] = "gated_delta_net"
    num_k_heads: int
    num_v_heads: int
    k_dim: int
    v_dim: int
    conv_kernel: int
    ssm_dtype: str = "model"

    def divided(self) -> Mapping[str, int]:
        return {"key heads": self.num_k_heads, "value heads": self.num_v_heads}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        channels = 2 * self.num_k_heads * self.k_dim + self.num_v_heads * self.v_dim
        return (
            StateTensor("conv", (channels // tp, self.conv_kernel - 1)),
            StateTensor("ssm", (self.num_v_heads // tp, self.v_dim, self.k_dim), self.ssm_dtype),
        )


class KimiDelta(StateCache, frozen=True):
    """KDA (Kimi-Linear, Kimi-K3): a square matrix per head, float32, and q, k, v columns."""

    family: ClassVar[str] = "kda"
    num_heads: int
    head_dim: int
    conv_kernel: int
    ssm_dtype: str = "float32"

    def divided(self) -> Mapping[str, int]:
        return {"KDA heads": self.num_heads}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        heads = self.num_heads // tp
        return (
            StateTensor("conv", (3 * heads * self.head_dim, self.conv_kernel - 1)),
            StateTensor("ssm", (heads, self.head_dim, self.head_dim), self.ssm_dtype),
        )


class LightningAttention(StateCache, frozen=True):
    """MiniMax-Text-01 class: a square matrix per head, no convolution."""

    family: ClassVar[str] = "lightning"
    num_heads: int
    head_dim: int

    def divided(self) -> Mapping[str, int]:
        return {"heads": self.num_heads}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (StateTensor("ssm", (self.num_heads // tp, self.head_dim, self.head_dim)),)


class XLstm(StateCache, frozen=True):
    """mLSTM: a k x v matrix, a k normaliser and a stabiliser per head, float32 unless the config says otherwise."""

    family: ClassVar[str] = "xlstm"
    num_heads: int
    k_dim: int
    v_dim: int
    ssm_dtype: str = "float32"

    def divided(self) -> Mapping[str, int]:
        return {"heads": self.num_heads}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        heads = self.num_heads // tp
        return (
            StateTensor("c", (heads, self.k_dim, self.v_dim), self.ssm_dtype),
            StateTensor("n", (heads, self.k_dim), self.ssm_dtype),
            StateTensor("m", (heads, 1), self.ssm_dtype),
        )


class Rwkv4(StateCache, frozen=True):
    """RWKV 4: the last token of both mixers, and numerator, denominator and maximum of the attention, float32."""

    family: ClassVar[str] = "rwkv4"
    hidden_size: int
    attention_dim: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (
            StateTensor("shift_ffn", (self.hidden_size,)),
            StateTensor("shift_att", (self.hidden_size,)),
            StateTensor("num", (self.attention_dim,), "float32"),
            StateTensor("den", (self.attention_dim,), "float32"),
            StateTensor("max", (self.attention_dim,), "float32"),
        )


class RwkvMatrix(StateCache, frozen=True):
    """RWKV 5, 6 and 7: a square matrix per head, float32, and the last token of both mixers, or of one."""

    family: ClassVar[str] = "rwkv"
    num_heads: int
    head_dim: int
    hidden_size: int
    token_shifts: int = 2

    def divided(self) -> Mapping[str, int]:
        return {"heads": self.num_heads}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        shifts = ("shift_att", "shift_ffn")[: self.token_shifts]
        return (
            *(StateTensor(name, (self.hidden_size,)) for name in shifts),
            StateTensor("wkv", (self.num_heads // tp, self.head_dim, self.head_dim), "float32"),
        )


class Retention(StateCache, frozen=True):
    """RetNet, GLA: a k x v matrix per head, float32, and q, k, v columns where there is a convolution (kernel > 1)."""

    family: ClassVar[str] = "retention"
    num_heads: int
    k_dim: int
    v_dim: int
    conv_kernel: int = 1

    def divided(self) -> Mapping[str, int]:
        return {"heads": self.num_heads}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        heads = self.num_heads // tp
        matrix = StateTensor("ssm", (heads, self.k_dim, self.v_dim), "float32")
        if self.conv_kernel == 1:
            return (matrix,)
        return (StateTensor("conv", (heads * (2 * self.k_dim + self.v_dim), self.conv_kernel - 1)), matrix)
