"""Bytes of a quantised matrix from what the config states: bits, group, what is left alone.

A config may lie (ignore lists do); headers are read wherever there are any. Sources: vLLM 0.33
model_executor/layers/quantization/{awq_marlin,gptq_marlin,fp8,modelopt,mxfp4,compressed_tensors}: the tensors each
scheme creates for a linear layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from onboard.facts import whole
from onboard.values import Struct
from onboard.weights.ignored import IgnoreList
from onboard.weights.matrix import Matrix

MAX_BITS, MAX_GROUP = 16, 2**20
PER_TENSOR = ("auto-round", "auto_round", "inc")  # AutoRound: a group of 0 is the whole tensor
ALWAYS_PLAIN = ("lm_head", "vision", "audio", "eh_proj")  # quantisers leave them unless told otherwise


class Scheme(Struct, frozen=True, kw_only=True, dict=True):
    """`bits` a weight, one scale of `scale_bits` (and a zero point) for every `group` weights; 0: one a row."""

    name: str
    bits: int
    dtype: str
    group: int = 0
    scale_bits: int = 16
    zero_bits: int = 0
    block: tuple[int, int] | None = None  # FP8 blocks: one float32 scale each
    ignored: tuple[str, ...] = ()
    only: str = ""  # a kind: the scheme packs that alone

    def covers(self, matrix: Matrix, layer: int = -1) -> bool:
        """Whether the scheme packs this matrix. Biases and norms never come here; `ignored` are name patterns."""
        if self.only:
            return matrix.role.endswith(self.only)
        if matrix.columns == 1 or any(matrix.module.startswith(p) for p in ALWAYS_PLAIN):
            return False
        return not self.ignores.match(matrix, layer)

    @cached_property
    def ignores(self) -> IgnoreList:
        return IgnoreList(self.ignored)

    def bytes_of(self, matrix: Matrix) -> int:
        """Weights and scales of all copies, in bytes."""
        weights = matrix.elements * self.bits // 8
        if self.block is not None:
            rows, columns = self.block
            scales = -(-matrix.rows // rows) * -(-matrix.columns // columns) * 4 * matrix.copies
            return weights + scales
        groups = -(-matrix.columns // self.group) if self.group else 1
        return weights + matrix.rows * groups * matrix.copies * (self.scale_bits + self.zero_bits) // 8


class Schemes(Struct, frozen=True, kw_only=True):
    """What a config states: schemes of named modules first, then one for all others."""

    name: str
    named: tuple[tuple[IgnoreList, Scheme], ...]
    rest: Scheme | None

    def of(self, matrix: Matrix, layer: int = -1) -> Scheme | None:
        """The scheme that packs a matrix in a layer (-1: outside the stack), or None where it stays plain."""
        for targets, scheme in self.named:
            if targets.match(matrix, layer):
                return scheme
        return self.rest if self.rest is not None and self.rest.covers(matrix, layer) else None


def scheme_of(
    quantization: Mapping[str, Any], expert_dtype: str = "", where: str = "quantization_config"
) -> Schemes | None:
    """The schemes a quantization_config (or ModelOpt's side file) states, or None where it states none we know.

    `expert_dtype` `fp4` (DeepSeek-V4): experts are MXFP4 beside an FP8 model. Raises FieldInvalid, with the path
    below `where`, where a width, a group or a block cannot be true.
    """
    rest = _one_scheme(quantization, where)
    named = _targeted(quantization, where)
    if rest is None and not named:
        return None
    if rest is not None and (expert_dtype == "fp4" or quantization.get("moe_quant_algo")):
        nvfp4 = "nvfp4" in str(quantization.get("moe_quant_algo") or "").lower()
        fp4 = Scheme(name="nvfp4" if nvfp4 else "mxfp4", bits=4, dtype="u8", group=16 if nvfp4 else 32, scale_bits=8)
        named = ((IgnoreList(("mlp.experts",)), fp4), *named)
    elif named and any(_names_modules(g) for g in _config_groups(quantization)):
        rest = None  # every packed module is named
    name = rest.name if rest is not None else str(quantization.get("quant_method") or "mixed").lower()
    return Schemes(name=name, named=named, rest=rest)


def _config_groups(quantization: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    groups = quantization.get("config_groups")
    return [g for g in groups.values() if isinstance(g, Mapping)] if isinstance(groups, Mapping) else []


def _names_modules(group: Mapping[str, Any]) -> bool:
    """Whether a group names modules rather than a class of layers."""
    targets = group.get("targets")
    return isinstance(targets, (list, tuple)) and bool(targets) and any("." in str(t) for t in targets)


def _targeted(quantization: Mapping[str, Any], where: str) -> tuple[tuple[IgnoreList, Scheme], ...]:
    """Schemes of the modules that config groups name one by one (ModelOpt's mixed precision)."""
    found = []
    for group in _config_groups(quantization):
        weights = group.get("weights")
        if not _names_modules(group) or not isinstance(weights, Mapping):
            continue
        bits = _count(weights, ("num_bits",), f"{where}.config_groups", 8, 1, MAX_BITS)
        if bits == 4:
            group_size = _group(weights, f"{where}.config_groups", 16)
            scheme = Scheme(name="nvfp4", bits=4, dtype="u8", group=group_size, scale_bits=8)
        else:
            scheme = Scheme(name="fp8", bits=8, dtype="f8_e4m3", scale_bits=0)
        found.append((IgnoreList(tuple(str(t) for t in group["targets"])), scheme))
    return tuple(found)


def _count(stated: Mapping[str, Any], keys: tuple[str, ...], where: str, default: int, low: int, high: int) -> int:
    """The first of `keys` that is stated, within its bounds; null counts as not stated."""
    found = next((key for key in keys if stated.get(key) is not None), None)
    return default if found is None else whole(stated[found], f"{where}.{found}", low, high)


def _group(stated: Mapping[str, Any], where: str, default: int, low: int = 1) -> int:
    """Weights that share a scale: 0 where a whole row does, which files write as -1."""
    return 0 if stated.get("group_size") == -1 else _count(stated, ("group_size",), where, default, low, MAX_GROUP)


def _block(stated: Mapping[str, Any], key: str, where: str) -> tuple[int, int] | None:
    """Rows and columns of a block with one scale, or None where no pair is stated."""
    block = stated.get(key)
    if not isinstance(block, (list, tuple)) or len(block) != 2:
        return None
    rows, columns = (whole(side, f"{where}.{key}[{i}]", 1, MAX_GROUP) for i, side in enumerate(block))
    return rows, columns


def _one_scheme(quantization: Mapping[str, Any], where: str) -> Scheme | None:
    if not quantization:
        return None
    inner = quantization.get("quantization")
    stated = {**quantization, **inner} if isinstance(inner, Mapping) else dict(quantization)
    method = str(stated.get("quant_method") or "").lower()
    algorithm = str(stated.get("quant_algo") or "").lower()
    ignored = _ignored(stated)
    if method in ("awq", "gptq", "auto-round", "auto_round", "awq_marlin", "gptq_marlin", "inc"):
        bits = _count(stated, ("bits", "w_bit"), where, 4, 1, MAX_BITS)
        group = _group(stated, where, 128, 0 if method in PER_TENSOR else 1)
        symmetric = bool(stated.get("sym", False)) and method != "awq"
        zero = 0 if symmetric else bits
        return Scheme(name=method, bits=bits, dtype="i32", group=group, zero_bits=zero, ignored=ignored)
    if method in ("fp8", "fbgemm_fp8", "deepseek_fp8") or algorithm == "fp8":
        block = _block(stated, "weight_block_size", where)
        return Scheme(
            name=method or "fp8", bits=8, dtype="f8_e4m3", block=block, scale_bits=32 if method == "fbgemm_fp8" else 0,
            ignored=ignored,
        )  # fmt: skip
    if method == "mxfp4":
        return Scheme(name="mxfp4", bits=4, dtype="u8", group=32, scale_bits=8, only="experts")
    if method.startswith("modelopt") or algorithm.startswith(("nvfp4", "w4a16_nvfp4", "mixed")):
        return Scheme(name="nvfp4", bits=4, dtype="u8", group=16, scale_bits=8, ignored=ignored)
    if method == "compressed-tensors":
        return _compressed(stated, ignored, f"{where}.config_groups")
    if method == "bitsandbytes":
        four = bool(stated.get("load_in_4bit", stated.get("_load_in_4bit", False)))
        return Scheme(
            name=method, bits=4 if four else 8, dtype="u8", group=64 if four else 0, scale_bits=8, ignored=ignored
        )
    return None


def _compressed(stated: Mapping[str, Any], ignored: tuple[str, ...], where: str) -> Scheme | None:
    groups = stated.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, group = _count(weights, ("num_bits",), where, 8, 1, MAX_BITS), _group(weights, where, 0, 0)
    is_float = weights.get("type") == "float"
    if bits == 8:
        block = _block(weights, "block_structure", where)
        dtype = "f8_e4m3" if is_float else "i8"
        return Scheme(name="compressed-tensors", bits=8, dtype=dtype, block=block, ignored=ignored)
    scale = 8 if is_float else 16
    zero = 0 if weights.get("symmetric", True) else bits
    return Scheme(
        name="compressed-tensors", bits=bits, dtype="u8" if is_float else "i32", group=group, scale_bits=scale,
        zero_bits=zero, ignored=ignored,
    )  # fmt: skip


def _ignored(stated: Mapping[str, Any]) -> tuple[str, ...]:
    names: list[str] = []
    for key in ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "llm_int8_skip_modules"):
        value = stated.get(key)
        if isinstance(value, (list, tuple)):
            names += [v for v in value if isinstance(v, str)]
    return tuple(dict.fromkeys(names))
