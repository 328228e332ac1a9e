"""Recurrent state: what a sequence holds whatever its length, one class a family.

A class gives its tensors as `tensors(tp)`: name, shape and dtype on one of `tp` cards. `conv` tensors hold
kernel - 1 columns (what must be remembered; an engine that keeps more says so in its own rule). `dtype`
"model" is the model's own. Sources: vLLM 0.33 model_executor/layers/mamba/mamba_utils.py (shapes, sharding),
transformers 5.24 caches (shapes), as named on each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from onboard.layers import CacheSpec


@dataclass(frozen=True, slots=True)
class StateTensor:
    """One tensor of a state: shape in elements on one card, dtype name ("model" is the model's own)."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "model"

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class StateCache(CacheSpec):
    """Base of every recurrent state. `family` names the mechanism, as in the contract."""

    kind: ClassVar[str] = "state"
    family: ClassVar[str] = ""

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        raise NotImplementedError

    def state_elements(self) -> int:
        return sum(t.elements for t in self.tensors())

    def to_json(self, model_dtype: str = "model") -> dict[str, Any]:
        return {
            "family": self.family,
            "states": [
                {"name": t.name, "shape": list(t.shape), "dtype": model_dtype if t.dtype == "model" else t.dtype}
                for t in self.tensors()
            ],
        }


@dataclass(frozen=True)
class GatedDeltaNet(StateCache):
    """Qwen3-Next, Qwen3.5/3.6, OLMo-hybrid: a k x v matrix per value head, and the convolution's columns."""

    family: ClassVar[str] = "gated_delta_net"
    num_k_heads: int
    num_v_heads: int
    k_dim: int
    v_dim: int
    conv_kernel: int
    ssm_dtype: str = "model"

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        channels = 2 * self.num_k_heads * self.k_dim + self.num_v_heads * self.v_dim
        return (
            StateTensor("conv", (channels // tp, self.conv_kernel - 1)),
            StateTensor("ssm", (self.num_v_heads // tp, self.v_dim, self.k_dim), self.ssm_dtype),
        )


@dataclass(frozen=True)
class Mamba2(StateCache):
    """Mamba 2 and its hybrids: heads x head_dim x state, and columns of d_inner + 2 x groups x state channels.

    Where TP does not divide the groups each card keeps whole ones (vLLM and SGLang extend the groups).
    """

    family: ClassVar[str] = "mamba2"
    num_heads: int
    head_dim: int
    num_groups: int
    state_dim: int
    conv_kernel: int
    ssm_dtype: str = "model"

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        groups = self.num_groups if self.num_groups % tp == 0 else self.num_groups + extra_groups(self.num_groups, tp)
        channels = self.num_heads * self.head_dim + 2 * groups * self.state_dim
        return (
            StateTensor("conv", (channels // tp, self.conv_kernel - 1)),
            StateTensor("ssm", (self.num_heads // tp, self.head_dim, self.state_dim), self.ssm_dtype),
        )


def extra_groups(num_groups: int, tp: int) -> int:
    """Groups added so that each of `tp` cards has its own (vLLM MambaStateShapeCalculator.extra_groups_for_head_shards)."""
    return 0 if num_groups % tp == 0 else tp - num_groups


@dataclass(frozen=True)
class Mamba1(StateCache):
    """Mamba 1 (Jamba, Falcon-Mamba): d_inner x state, and d_inner columns."""

    family: ClassVar[str] = "mamba"
    inner_dim: int
    state_dim: int
    conv_kernel: int
    ssm_dtype: str = "model"

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        inner = self.inner_dim // tp
        return (
            StateTensor("conv", (inner, self.conv_kernel - 1)),
            StateTensor("ssm", (inner, self.state_dim), self.ssm_dtype),
        )


@dataclass(frozen=True)
class ShortConv(StateCache):
    """LFM2: a short convolution and nothing else."""

    family: ClassVar[str] = "short_conv"
    channels: int
    conv_kernel: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (StateTensor("conv", (self.channels // tp, self.conv_kernel - 1)),)


@dataclass(frozen=True)
class KimiDelta(StateCache):
    """KDA (Kimi-Linear): a square matrix per head, float32, and q, k, v columns."""

    family: ClassVar[str] = "kda"
    num_heads: int
    head_dim: int
    conv_kernel: int
    ssm_dtype: str = "float32"

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        heads = self.num_heads // tp
        return (
            StateTensor("conv", (3 * heads * self.head_dim, self.conv_kernel - 1)),
            StateTensor("ssm", (heads, self.head_dim, self.head_dim), self.ssm_dtype),
        )


@dataclass(frozen=True)
class LightningAttention(StateCache):
    """MiniMax-Text-01 class: a square matrix per head, no convolution."""

    family: ClassVar[str] = "lightning"
    num_heads: int
    head_dim: int

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        return (StateTensor("ssm", (self.num_heads // tp, self.head_dim, self.head_dim)),)


STATE_CLASSES: dict[str, type[StateCache]] = {
    c.__name__: c for c in (GatedDeltaNet, Mamba2, Mamba1, ShortConv, KimiDelta, LightningAttention)
}
