"""Cache types of llama.cpp: `--cache-type-k` and `-v` names to ggml types (common/arg.cpp kv_cache_types)."""

from __future__ import annotations

from onboard.gguf.types import BY_NAME, GgmlType

_ALIASES = {"fp16": "f16", "float16": "f16", "half": "f16", "bfloat16": "bf16", "float32": "f32", "auto": "f16"}
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")


def cache_type(name: str) -> GgmlType | None:
    """The ggml type of that name or alias, None where llama.cpp keeps no cache in it."""
    key = _ALIASES.get(name.lower(), name.lower())
    return BY_NAME[key] if key in CACHE_TYPES else None


def is_quantised(kind: GgmlType) -> bool:
    """Whether a type stores blocks that share a scale."""
    return kind.block > 1


def row(kind: GgmlType, elements: int) -> int:
    """Bytes of a row (ggml_row_size); a row that is not whole blocks is refused before it is counted."""
    return elements * kind.block_bytes // kind.block
