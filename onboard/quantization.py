"""What a checkpoint says about its own quantisation: the method, and a KV format that engines take as their default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.errors import FieldInvalid
from onboard.facts import Facts

SIDE_FILE = "hf_quant_config.json"

# Words for a KV format -> the engine's (vLLM 0.33 utils/torch_utils.py, MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP).
_KV_WORDS = {"fp8": "fp8", "fp8_e4m3": "fp8", "float8_e4m3fn": "fp8", "nvfp4": "nvfp4"}


def record_quantization(facts: Facts, *, beside: bool = False) -> None:
    """Note `quantization` and `kv_cache_scheme`. A block with `quantization` inside is ModelOpt's hf_quant_config.json.

    `beside` says that the block stood in that file, so that its facts name it.

    Raises FieldInvalid where the block is no mapping or its method no text.
    A KV scheme counts as vLLM 0.33 counts it: 8-bit static floats are fp8, 4-bit floats nvfp4; others are left out.
    """
    block = facts.get("quantization_config")
    where = f"{SIDE_FILE}: " if beside else facts.path("quantization_config") + "."
    if block is None:
        return
    if not isinstance(block, Mapping):
        raise FieldInvalid(
            f"{where.rstrip(': .')} must be a mapping, not {type(block).__name__}",
            path=where.rstrip(": ."),
            value=str(block)[:80],
        )
    inner = block.get("quantization") if isinstance(block.get("quantization"), Mapping) else block
    assert isinstance(inner, Mapping)
    inside = where if inner is block else f"{where}quantization."
    method = _method(block, inner)
    if method:
        facts.record("quantization", method, where.rstrip(": ."), "config")
    if not block.get("quant_method") and inner is block:
        return  # vLLM picks no method for such a block, and so no KV format
    for holder, at in ((inner, inside), (block, where)):
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            scheme = _scheme(holder.get(key))
            if scheme:
                facts.record("kv_cache_scheme", scheme, f"{at}{key}", "config")
                return


def _method(block: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    """The method. ModelOpt's own file names its producer (vLLM transformers_utils/model_arch_config_convertor.py)."""
    producer = block.get("producer")
    if inner is not block and isinstance(producer, Mapping) and producer.get("name") == "modelopt":
        return "modelopt_fp4" if str(inner.get("quant_algo")).upper() == "NVFP4" else "modelopt"
    for holder, key in ((block, "quant_method"), (inner, "quant_algo"), (block, "quant_algo")):
        value = holder.get(key)
        if value is not None and not isinstance(value, str):
            raise FieldInvalid(
                f"{key} must be text, not {type(value).__name__}",
                path=f"quantization_config.{key}",
                value=str(value)[:80],
            )
        if value:
            return value.lower()[:80]
    return ""


def _scheme(value: Any) -> str | None:
    if isinstance(value, str):
        return _KV_WORDS.get(value.lower())
    if not isinstance(value, Mapping) or value.get("type") != "float":
        return None
    if value.get("num_bits") == 8 and value.get("dynamic") is False:
        return "fp8"
    return "nvfp4" if value.get("num_bits") == 4 else None
