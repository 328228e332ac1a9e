"""Pools against SGLang 0.5.23's own configurator and buffers: 40 GiB, H100, TP 1 and 2, auto and fp8."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from onboard.derive import derive
from onboard.profile import Profile, SourceRef
from tests.sglang_answers import figures
from tests.shared import SHARED, needs_shared

SMALL: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "sglang" / "pools.json").read_text())
# These repositories hold hf_quant_config.json, which declares FP8 KV; the run was given config.json alone.
DECLARED_BESIDE_THE_CONFIG = ("nvidia__Llama-3.1-70B-Instruct-FP8", "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8")
# A stand-in config class, or no SGLang model of that name: not evidence (conformance/README.md).
LOW_TRUST = ("inclusionAI__Ling-1T", "microsoft__Phi-3-small-8k-instruct", "tencent__Hunyuan-A13B-Instruct")
NO_ANSWER = ("sgl-project__DeepSeek-V4-Flash-FP8",)  # the run itself failed on its config class


@cache
def small_profile(name: str) -> Profile:
    return derive(SMALL[name]["config"], model_id=name, source=SourceRef(kind="file", name=name))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("kv", ["auto", "fp8"])
def test_pools_on_a_fresh_machine(name: str, tp: int, kv: str) -> None:
    expected = SMALL[name]["answers"][f"{kv}@tp{tp}"]
    assert figures(small_profile(name), tensor_parallel_size=tp, kv_cache_dtype=kv) == expected


def answer(run: dict[str, Any]) -> dict[str, Any]:
    """A run's answer under the names of `figures`."""
    pool, defaults = run["kv_pool"], run["defaults"]
    found: dict[str, Any] = {
        "tokens": run["tokens"],
        "max_running_requests": run["max_running_requests"],
        "page_size": run["page_size"],
        "mem_fraction_static": defaults["mem_fraction_static"],
        "request_table_bytes": run["req_to_token"]["bytes"],
    }
    if "swa_max_total_num_tokens" in run:
        found["window_tokens"] = run["swa_max_total_num_tokens"]
    if "parts" in pool:
        parts = pool["parts"]
        found["parts"] = {
            "window": parts["swa_kv_pool"],
            "compressed_4": parts["c4_kv_pool"],
            "compressed_128": parts["c128_kv_pool"],
            "indexer": parts["index_pools"],
            "state": parts["compress_state_pools"] + parts["indexer_compress_state_pools"],
        }
        return found
    for name, key in (("full", "full_kv_pool"), ("window", "swa_kv_pool")):
        if key in pool:
            one = pool[key]
            found[name] = [one["kv_bytes"], 0] if "kv_bytes" in one else [one["k_bytes"], one["v_bytes"]]
    if "full_kv_pool" not in pool:
        found["full"] = [pool["kv_bytes"], 0] if "kv_bytes" in pool else [pool["k_bytes"], pool["v_bytes"]]
    if "mamba" in run:
        names = ("slots", "slots_per_request", "bytes_per_slot", "conv_bytes", "ssm_bytes")
        found["state"] = {name: run["mamba"][name] for name in names}
    return found


def corpus_profile(name: str, *, beside: bool = False) -> Profile:
    """What config.json alone derives to, or with the quantisation file beside it."""
    folder = SHARED / "corpus" / name
    side = json.loads((folder / "hf_quant_config.json").read_text()) if beside else None
    config = json.loads((folder / "config.json").read_text())
    return derive(config, model_id=name, source=SourceRef(kind="file", name=name), side=side)


@needs_shared
@pytest.mark.wide
def test_pools_of_every_config() -> None:
    runs = json.loads((SHARED / "conformance" / "sglang_pools.json").read_text())["results"]
    wrong: dict[str, Any] = {}
    equal = 0
    for key, entry in runs.items():
        name, _, tp = key.partition("@tp")
        if name in NO_ANSWER or name in LOW_TRUST:
            continue
        profile = corpus_profile(name)
        for kv in ("auto", "fp8"):
            found = figures(profile, tensor_parallel_size=int(tp), kv_cache_dtype=kv)
            expected = answer(entry[kv])
            equal += found == expected
            if found != expected:
                wrong[f"{key} {kv}"] = {k: (found.get(k), v) for k, v in expected.items() if found.get(k) != v}
    assert not wrong
    assert equal == 2 * (len(runs) - 2 * len(NO_ANSWER) - 2 * len(LOW_TRUST))


@needs_shared
@pytest.mark.wide
@pytest.mark.parametrize("name", DECLARED_BESIDE_THE_CONFIG)
def test_a_kv_format_declared_beside_the_config_is_taken(name: str) -> None:
    """SGLang reads that file (configs/model_config.py _parse_quant_hf_config), so `auto` is then what fp8 is."""
    run = json.loads((SHARED / "conformance" / "sglang_pools.json").read_text())["results"][f"{name}@tp1"]
    assert figures(corpus_profile(name, beside=True)) == answer(run["fp8"])
