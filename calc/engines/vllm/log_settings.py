"""Flags and version from the lines in which vLLM prints its own configuration, as Plan fields.

Sources: entrypoints/utils.py (`non-default args: {...}`), v1/engine/core.py (`Initializing a V1 LLM engine (v...) with
config: ...`), config/scheduler.py (`Chunked prefill is enabled with max_num_batched_tokens=...`).
"""

from __future__ import annotations

import re
from typing import Any

from calc.engines.vllm.versions import parse_version
from onboard.errors import UsageError

#: vLLM's word -> (Plan field, type).
FIELDS: dict[str, tuple[str, str]] = {
    "tensor_parallel_size": ("tensor_parallel_size", "int"),
    "pipeline_parallel_size": ("pipeline_parallel_size", "int"),
    "decode_context_parallel_size": ("decode_context_parallel_size", "int"),
    "dcp_size": ("decode_context_parallel_size", "int"),
    "enable_expert_parallel": ("enable_expert_parallel", "bool"),
    "max_model_len": ("max_model_len", "int"),
    "max_seq_len": ("max_model_len", "int"),
    "max_num_seqs": ("max_num_seqs", "int"),
    "max_num_batched_tokens": ("max_num_batched_tokens", "int"),
    "gpu_memory_utilization": ("gpu_memory_utilization", "float"),
    "kv_cache_dtype": ("kv_cache_dtype", "str"),
    "block_size": ("block_size", "int"),
    "enable_prefix_caching": ("enable_prefix_caching", "bool"),
    "enforce_eager": ("enforce_eager", "bool"),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", "int"),
    "disable_hybrid_kv_cache_manager": ("disable_hybrid_kv_cache_manager", "bool"),
    "language_model_only": ("language_model_only", "bool"),
    "mamba_cache_mode": ("mamba_cache_mode", "str"),
    "mamba_ssm_cache_dtype": ("mamba_ssm_cache_dtype", "str"),
    "mamba_block_size": ("mamba_block_size", "int"),
    "async_scheduling": ("async_scheduling", "bool"),
    "num_speculative_tokens": ("num_speculative_tokens", "int"),
    "num_spec_tokens": ("num_speculative_tokens", "int"),
    "quantization": ("quantization", "str"),
    "max_loras": ("max_loras", "int"),
    "max_lora_rank": ("max_lora_rank", "int"),
}
#: Words of a refusal that states no figure -> its kind; `suspects.MEANINGS` has what each means.
REFUSALS: tuple[tuple[str, str], ...] = (
    ("No available memory for the cache", "no-cache-memory"),  # v1/core/kv_cache_utils.py, 0.8 on
    ("Error in memory profiling", "memory-profiling"),  # v1/worker/gpu_worker.py
    ("is greater than the derived max_model_len", "max-model-len"),  # config/model.py
    ("is smaller than max_model_len", "batched-tokens"),  # config/scheduler.py
    ("must be divisible by tensor parallel size", "tp"),  # config/model.py
    ("is larger than the number of available GPUs", "tp"),  # config/parallel.py and the executors
    ("out of memory occurred when warming up sampler", "sampler-memory"),  # v1/worker/gpu_model_runner.py
    ("CUDA error: out of memory", "cuda-out-of-memory"),  # torch.AcceleratorError, without a size
)
_PAIR = re.compile(r"['\"]?\b([a-z_]{3,40})['\"]?\s*[:=]\s*('[^']{0,200}'|\"[^\"]{0,200}\"|[-\w.]+)")
_METHOD = re.compile(r"['\"]?\bmethod['\"]?\s*[:=]\s*['\"](\w+)['\"]")
_VERSION = (
    re.compile(r"server version (\d[\w.+]*)"),
    re.compile(r"LLM engine \(v(\d[\w.+]*)\)"),
)
_LINES = ("LLM engine (", "non-default args")
_LONGEST_LENGTH = 2**40


def read_setting(text: str, settings: dict[str, Any]) -> None:
    """Read what a line states into `settings`: Plan fields, and `version`."""
    for pattern in _VERSION:
        found = pattern.search(text)
        if found:
            _version(found.group(1), settings)
    for words, kind in REFUSALS:
        if words in text:
            settings.setdefault("refused", {})[kind] = True
    if any(mark in text for mark in _LINES):
        _pairs(text, settings)
    elif "Chunked prefill is enabled with" in text or "Using max model len" in text:
        _sentence(text, settings)
    elif "synchronous scheduling is" in text:
        settings["async_scheduling"] = "enabled" in text
    elif "vllm serve " in text:
        _command(text, settings)


def _version(text: str, settings: dict[str, Any]) -> None:
    plain = text.split("+")[0].rstrip(".")
    try:
        parse_version(plain)
    except UsageError:
        return
    settings["version"] = plain


def _pairs(text: str, settings: dict[str, Any]) -> None:
    for name, raw in _PAIR.findall(text):
        field, kind = FIELDS.get(name, ("", ""))
        value = _value(raw.strip("'\""), kind) if field else None
        if value is not None:
            settings[field] = value
    method = _METHOD.search(text)
    if method:
        word = method.group(1)
        settings["drafter"] = "mtp" if "mtp" in word else "ngram" if "ngram" in word else None
        if settings["drafter"] is None:
            del settings["drafter"]


def _value(raw: str, kind: str) -> Any:
    """The value of that kind, None where the text is not one."""
    if kind == "bool":
        return {"true": True, "false": False}.get(raw.lower())
    if kind == "str":
        return None if raw in ("None", "") else raw
    try:
        number = float(raw) if kind == "float" else int(raw)
    except ValueError:
        return None
    return number if 0 < number < _LONGEST_LENGTH * 2**20 else None


def _sentence(text: str, settings: dict[str, Any]) -> None:
    found = re.search(r"max_num_batched_tokens=(\d{1,12})", text)
    if found:
        settings["max_num_batched_tokens"] = int(found.group(1))
    found = re.search(r"Using max model len (\d{1,12})", text)
    if found:
        settings["max_model_len"] = int(found.group(1))


def _command(text: str, settings: dict[str, Any]) -> None:
    """A command line that a script echoed."""
    import shlex

    from calc.commandline import plan_from_words

    words = text[text.index("vllm serve ") :][:20_000]
    try:
        found = plan_from_words(shlex.split(words)[2:])
    except (UsageError, ValueError):
        return
    for name, value in found.items():
        if value is not None and name not in ("catalog", "from_file", "compose", "engine"):
            settings.setdefault(name, value)
