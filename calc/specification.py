"""The specification's own arithmetic, kept reproducible by name and used by no prediction.

Measured boots refute parts of it (docs/differences.md lists each part with its evidence). The functions take the
document's stated inputs and give the document's published figures.
"""

from __future__ import annotations

from fractions import Fraction

from onboard.values import Struct

# Bytes a KV element by format, as the document rounds them.
BYTES_PER_ELEMENT: dict[str, Fraction] = {
    "bf16": Fraction(2),
    "fp8_e5m2": Fraction(1),
    "int8_per_token_head": Fraction(101, 100),
    "k8v4": Fraction(3, 4),
    "q4_0": Fraction(56, 100),
    "turboquant_3bit_nc": Fraction(425, 1000),
}


class StatedModel(Struct, frozen=True, kw_only=True):
    """A model as the document describes it; `k_v_tensors` is 1 where it holds that K = V share storage."""

    num_growing_layers: int
    num_kv_heads: int
    head_dim: int
    k_v_tensors: int


STATED_MODELS: dict[str, StatedModel] = {
    "qwen3.6-27b": StatedModel(num_growing_layers=16, num_kv_heads=4, head_dim=256, k_v_tensors=2),
    "qwen3.6-35b-a3b": StatedModel(num_growing_layers=10, num_kv_heads=2, head_dim=256, k_v_tensors=2),
    "gemma-4-31b": StatedModel(num_growing_layers=10, num_kv_heads=16, head_dim=512, k_v_tensors=1),
    "gemma-4-26b-a4b": StatedModel(num_growing_layers=5, num_kv_heads=2, head_dim=512, k_v_tensors=1),
}


def elements_per_token(model: StatedModel) -> int:
    """The general formula before the format: layers x heads x head size x tensors."""
    return model.num_growing_layers * model.num_kv_heads * model.head_dim * model.k_v_tensors


def bytes_per_token(model: StatedModel, kv_format: str, tp: int) -> Fraction:
    """Bytes of growing KV a token and card, as the quick reference prints them."""
    return elements_per_token(model) * BYTES_PER_ELEMENT[kv_format] / tp


def sliding_elements(num_layers: int, num_kv_heads: int, head_dim: int, window: int) -> int:
    """The document's constant sliding portion, one tensor for K = V."""
    return num_layers * num_kv_heads * head_dim * window


def delta_state_bytes(
    num_layers: int, k_heads: int, k_dim: int, v_heads: int, v_dim: int, kernel: int, seqs: int = 1
) -> int:
    """The document's DeltaNet state: K dims, V dims and kernel columns of both, float32."""
    keys, values = k_heads * k_dim, v_heads * v_dim
    return num_layers * (keys + values + kernel * (keys + values)) * 4 * seqs


def overhead_gb(mem_util: Fraction, tp: int) -> Fraction:
    """The document's CUDA graph and workspace fit, in GB."""
    return Fraction(1, 2) + mem_util + Fraction(3, 10) * (tp - 1)
