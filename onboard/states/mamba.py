"""Selective state spaces: Mamba 1, its per-head variant, and Mamba 2.

Shapes: vLLM 0.33 `model_executor/layers/mamba/mamba_utils.py` MambaStateShapeCalculator; transformers 5.24
`models/{mamba,zamba,mamba2}/modeling_*.py` (which keep a convolution one column wider than must be remembered).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from onboard.states.base import StateCache, StateTensor


class Mamba1(StateCache, frozen=True):
    """Mamba 1 (Mamba, Falcon-Mamba, Jamba): d_inner x state, and d_inner columns."""

    family: ClassVar[str] = "mamba"
    inner_dim: int
    state_dim: int
    conv_kernel: int
    ssm_dtype: str = "model"

    def divided(self) -> Mapping[str, int]:
        return {"inner channels": self.inner_dim}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        inner = self.inner_dim // tp
        return (
            StateTensor("conv", (inner, self.conv_kernel - 1)),
            StateTensor("ssm", (inner, self.state_dim), self.ssm_dtype),
        )


class MambaHeads(StateCache, frozen=True):
    """Zamba 1: Mamba 1 cut into heads; heads x d_inner / heads x state."""

    family: ClassVar[str] = "mamba"
    num_heads: int
    head_dim: int
    state_dim: int
    conv_kernel: int
    ssm_dtype: str = "model"

    def divided(self) -> Mapping[str, int]:
        return {"Mamba heads": self.num_heads}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        heads = self.num_heads // tp
        return (
            StateTensor("conv", (heads * self.head_dim, self.conv_kernel - 1)),
            StateTensor("ssm", (heads, self.head_dim, self.state_dim), self.ssm_dtype),
        )


class Mamba2(StateCache, frozen=True):
    """Mamba 2 and its hybrids: heads x head_dim x state, and columns of d_inner + 2 x groups x state channels.

    A single group goes whole to every card, so the sum over cards grows; several must divide (vLLM 0.33
    `mamba_mixer2.py`). PLaMo 2 convolves d_inner alone: `num_groups` 0.
    """

    family: ClassVar[str] = "mamba2"
    num_heads: int
    head_dim: int
    num_groups: int
    state_dim: int
    conv_kernel: int
    ssm_dtype: str = "model"

    def divided(self) -> Mapping[str, int]:
        groups = {"Mamba groups": self.num_groups} if self.num_groups > 1 else {}
        return {"Mamba heads": self.num_heads, **groups}

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        groups = self.num_groups + extra_groups(self.num_groups, tp)
        channels = self.num_heads * self.head_dim + 2 * groups * self.state_dim
        return (
            StateTensor("conv", (channels // tp, self.conv_kernel - 1)),
            StateTensor("ssm", (self.num_heads // tp, self.head_dim, self.state_dim), self.ssm_dtype),
        )


def extra_groups(num_groups: int, tp: int) -> int:
    """Groups added so that each of `tp` cards has its own (vLLM `extra_groups_for_head_shards`)."""
    return 0 if num_groups % tp == 0 else max(0, tp - num_groups)
