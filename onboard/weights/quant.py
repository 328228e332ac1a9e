"""Packed tensors: which module a stored tensor belongs to, how many weights it holds, and what the scheme is called.

Bytes always come from the header; only parameter counts need unpacking. Sources: the loaders of vLLM 0.33
(model_executor/layers/quantization/*: tensor names and packing of each scheme).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onboard.weights.safetensors_header import Tensor

# Suffix of a stored tensor -> what it is: "packed" weights, or "aux" (scales, zeros, ranges: no parameters).
PLAIN = frozenset({"weight", "bias"})
PACKED = frozenset({"qweight", "weight_packed", "blocks"})
AUX = frozenset({
    "qzeros", "scales", "g_idx", "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale",
    "input_scale", "input_global_scale", "weight_zero_point", "input_zero_point", "weight_shape", "weight_g_idx",
    "k_scale", "v_scale", "q_scale", "kv_scale", "output_scale", "absmax", "quant_map", "nested_absmax",
    "nested_quant_map", "bitsandbytes__nf4", "bitsandbytes__fp4", "SCB", "scale", "scale_inv",
    "input_min", "input_max", "output_min", "output_max", "pre_quant_scale", "weight_scale_inv_2", "perm",
})  # fmt: skip


def split_name(name: str) -> tuple[str, str]:
    """`a.b.qweight` -> (`a.b`, `qweight`); fused experts' `x_proj_blocks` -> (`x_proj`, `blocks`).

    bitsandbytes writes `a.b.weight.absmax` and `a.b.weight.quant_state.bitsandbytes__nf4` beside `a.b.weight`.
    """
    stem, _, last = name.rpartition(".")
    if last in PLAIN:
        return stem, last
    for tail in ("_blocks", "_scales", "_scale_inv", "_scale_2", "_scale", "_scale_inverse", "_packed"):
        if last.endswith(tail) and last not in AUX and last not in PACKED:
            return (f"{stem}.{last.removesuffix(tail)}" if stem else last.removesuffix(tail)), tail[1:]
    for middle in (".quant_state", ".weight", ".qparam"):
        if last in AUX and stem.endswith(middle):
            stem = stem.removesuffix(middle)
    return stem, last


def is_aux(suffix: str) -> bool:
    """Whether tensors of that suffix only describe how others are packed."""
    return suffix in AUX or suffix in ("scale_inverse", "input_scale")


def unpacked_elements(tensor: Tensor, suffix: str, bits: int | None, siblings: Mapping[str, Tensor]) -> int:
    """Weights that a stored tensor holds: 32/bits in an int32, two in a byte of 4-bit floats, none in scales.

    `siblings` are the tensors of the same module by suffix; `bits` is the config's word, used where an int32 holds
    the weights and nothing beside it tells how many.
    """
    if suffix in PLAIN and tensor.dtype not in ("U8", "I8"):
        return tensor.elements
    if is_aux(suffix):
        return 0
    if suffix == "blocks":  # MXFP4: bytes of two weights
        return tensor.elements * 2
    if tensor.dtype in ("I32", "U32") and suffix in PACKED:
        return tensor.elements * 32 // (_bits_from_scales(tensor, siblings) or bits or 4)
    if tensor.dtype in ("U8", "I8") and suffix in ("packed", "weight_packed"):
        return tensor.elements * 2
    if tensor.dtype == "U8" and suffix == "weight":
        return tensor.elements * 2 if _four_bit_beside(siblings) else tensor.elements
    if tensor.dtype == "I64" and suffix == "num_batches_tracked":
        return 0
    return tensor.elements


def _bits_from_scales(tensor: Tensor, siblings: Mapping[str, Tensor]) -> int | None:
    """An int32 matrix with scales of [groups, out] (or [out, groups]): the unpacked width is on the scales."""
    scales, zeros = siblings.get("scales"), siblings.get("qzeros")
    if scales is None or zeros is None or len(scales.shape) != 2 or len(zeros.shape) != 2 or not scales.shape[1]:
        return None
    bits = 32 * zeros.shape[1] // scales.shape[1]  # zero points are packed along the same width as the weights
    return bits if bits in (2, 3, 4, 8) else None


def _four_bit_beside(siblings: Mapping[str, Tensor]) -> bool:
    """A byte holds two 4-bit weights where a second scale (NVFP4) or a 4-bit state (bitsandbytes) stands by."""
    beside = ("weight_scale_2", "weight_global_scale", "quant_map", "bitsandbytes__nf4", "bitsandbytes__fp4")
    if any(s in siblings for s in beside):
        return True
    weight, scale = siblings.get("weight"), siblings.get("weight_scale")
    if weight is None or scale is None or len(weight.shape) != 2 or len(scale.shape) != 2 or not scale.shape[1]:
        return False
    return weight.shape[1] * 2 // scale.shape[1] in (16, 32)


def config_bits(quantization: Mapping[str, Any]) -> int | None:
    """The bit width a quantization_config states for its weights."""
    for key in ("bits", "w_bit", "wbits"):
        if type(quantization.get(key)) is int:
            return int(quantization[key])
    groups = quantization.get("config_groups")
    if isinstance(groups, Mapping):
        for group in groups.values():
            weights = group.get("weights") if isinstance(group, Mapping) else None
            if isinstance(weights, Mapping) and type(weights.get("num_bits")) is int:
                return int(weights["num_bits"])
    return None


def scheme_label(tensors: Iterable[Tensor], quantization: Mapping[str, Any]) -> str | None:
    """What the headers say the scheme is, in the config's word for it where the two agree; None where plain."""
    stated = str(quantization.get("quant_method") or quantization.get("quant_algo") or "").lower() or None
    suffixes: set[tuple[str, str]] = set()
    for tensor in tensors:
        suffixes.add((split_name(tensor.name)[1], tensor.dtype))
    names = {s for s, _ in suffixes}
    if names & {"blocks"}:
        return "mxfp4"
    if names & {"weight_scale_2", "weight_global_scale"}:
        return f"{stated} nvfp4" if stated and "nvfp4" not in stated else "nvfp4"
    if "qweight" in names:
        return stated or ("gptq" if "g_idx" in names else "awq")
    if "weight_packed" in names:
        return stated or "compressed-tensors"
    if names & {"absmax", "bitsandbytes__nf4", "SCB"}:
        return "bitsandbytes"
    if any(d.startswith(("F8_E4M3", "F8_E5M2")) for _, d in suffixes):
        return stated or "fp8"
    if any(s == "weight" and d == "I8" for s, d in suffixes):
        return stated or "int8"
    return None
