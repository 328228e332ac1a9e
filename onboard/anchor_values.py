"""The types of an anchor's values: whole flags, finite figures, sane widths. Nothing here compares two of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from onboard.errors import BadAnchor

LIMIT = 2**50
WHOLE = frozenset(
    {
        "tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size", "data_parallel_size",
        "max_model_len", "max_num_seqs", "max_num_batched_tokens", "num_speculative_tokens", "cudagraph_max_capture",
        "chunked_prefill_size", "max_running_requests", "ubatch_size", "parallel",
    }
)  # fmt: skip
WIDTHS = frozenset({"hidden", "intermediate", "vocab", "layers", "experts", "topk", "moe_intermediate"})


def check_values(data: Mapping[str, Any], where: str) -> None:
    """Raises BadAnchor, naming the field, for a flag, figure or width that is no such number."""
    for name, value in data["flags"].items():
        if name in WHOLE and not _whole(value, least=-1):
            raise _wrong(f"{where}.flags.{name}", value, "a whole number")
        if name == "gpu_memory_utilization" and not _finite(value):
            raise _wrong(f"{where}.flags.{name}", value, "a number")
    for name, value in data["printed"].items():
        if not isinstance(value, (list, dict)) and not _finite(value) and not _figure(value):
            raise _wrong(f"{where}.printed.{name}", value, "a finite number")
    for name, value in data.get("geometry", {}).items():
        if name in WIDTHS and not _whole(value, least=0):
            raise _wrong(f"{where}.geometry.{name}", value, "a whole number")
        if name == "delta" and not (isinstance(value, list) and len(value) == 3 and all(_whole(v, 0) for v in value)):
            raise _wrong(f"{where}.geometry.delta", value, "[value heads, key dim, value dim]")
        if name == "encoder" and not isinstance(value, str):
            raise _wrong(f"{where}.geometry.encoder", value, "a family of encoders, as text")


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < LIMIT


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and abs(value) < LIMIT


def _figure(value: object) -> bool:
    """A number as text, as logs print a concurrency."""
    try:
        return isinstance(value, str) and len(value) < 32 and isfinite(float(value))
    except ValueError:
        return False


def _wrong(path: str, value: object, wanted: str) -> BadAnchor:
    return BadAnchor(f"{path} must be {wanted}", path=path, value=value)
