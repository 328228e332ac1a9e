"""Weights from the config alone against vLLM's own modules: rank 0 at TP 1 and 2, before post-processing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.shared import SHARED, needs_shared
from tests.weights_rule import on_card, profile_of, read_config, without_quantization

TOLERANCE = 0.015

# Where vLLM's modules are not what the checkpoint holds, by name, with the reason.
EXCEPTIONS = {
    "Qwen__Qwen3-32B-FP8-Static-PerTensor": "the method is spelled FP8, which this vLLM did not take for its fp8",
    "mistralai__Devstral-Small-2-24B-Instruct-2512": "its ignore list misses vLLM's name of the tower",
    "mistralai__Ministral-3-3B-Instruct-2512": "its ignore list misses vLLM's name of the tower",
    "yuhuili__EAGLE3-LLaMA3.1-Instruct-8B": "run as a plain Llama, whose head covers the whole vocabulary",
}  # fmt: skip


def entries() -> list[tuple[str, int, dict[str, Any]]]:
    if not SHARED.exists():
        return []
    results = json.loads((SHARED / "conformance/vllm_kv_spec.json").read_text(encoding="utf-8"))["results"]
    kept = [(e["config"], e["tp"], e["kv_auto"]) for e in results.values() if isinstance(e.get("kv_auto"), dict)]
    return [(c, tp, e) for c, tp, e in kept if e.get("weights_rank0_bytes")]


@needs_shared
@pytest.mark.wide
def test_weights_on_rank_0() -> None:
    wrong, counted = {}, 0
    profiles: dict[tuple[str, bool], Any] = {}
    for config, tp, entry in entries():
        flags = entry.get("fallback_flags") or []
        key = (config, "--strip-quant" in flags)
        if key not in profiles:
            whole = read_config(SHARED / "corpus" / config / "config.json")
            profiles[key] = profile_of(without_quantization(whole) if key[1] else whole, config)
        got = on_card(profiles[key], tp, language_model_only="--language-model-only" in flags)
        counted += 1
        if abs(got / entry["weights_rank0_bytes"] - 1) > TOLERANCE:
            wrong[f"{config}@tp{tp}"] = round(100 * (got / entry["weights_rank0_bytes"] - 1), 2)
    assert counted > 300
    unexplained = {k: v for k, v in wrong.items() if k.partition("@")[0] not in EXCEPTIONS}
    assert not unexplained
    assert {k.partition("@")[0] for k in wrong} == set(EXCEPTIONS), "an exception that no longer is one"
