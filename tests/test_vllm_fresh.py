"""Runs of vLLM's planner that travel with the tests: what a fresh machine must equal."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from calc.plan import Plan
from calc.predict import predict
from onboard.derive import derive
from onboard.profile import Profile, SourceRef

DATA = json.loads((Path(__file__).parent / "data" / "vllm" / "planner.json").read_text(encoding="utf-8"))
DTYPES = {"kv_auto": "auto", "kv_fp8": "fp8"}


@lru_cache(maxsize=64)
def profile_of(name: str) -> Profile:
    return derive(DATA["configs"][name], model_id=name, source=SourceRef(kind="file", name=name))


def differences(run: dict[str, Any]) -> list[tuple[Any, ...]]:
    plan = Plan(
        engine=f"vllm@{run['version']}",
        card="h100-80gb",
        tensor_parallel_size=run["tp"],
        kv_cache_dtype=DTYPES[run["kv"]],
        kv_cache_memory_bytes=40 * 2**30,
        weights_gb=1,
    )
    prediction = predict(profile_of(run["config"]), plan)
    pool = prediction.cache.pool
    found = [
        ("bytes_per_block", pool.extra["bytes_per_block"], run["bytes_per_block"]),
        ("request_bytes", prediction.cache.one.total, run["request_bytes"]),
    ]
    if run["longest"] is not None:
        found.append(("longest", prediction.cache.max_model_len_that_fits, run["longest"]))
        found.append(("refused", any(r.kind == "memory" for r in prediction.reasons), True))
    else:
        found += [(n, getattr(pool, n), run[n]) for n in ("num_blocks", "tokens", "max_concurrency")]
    return [f for f in found if f[1] != f[2]]


@pytest.mark.parametrize("version", ["0.33", "0.25.1", "0.20.2", "0.11.0"])
def test_runs_are_equalled(version: str) -> None:
    runs = [r for r in DATA["runs"] if r["version"] == version]
    assert len(runs) >= 15
    wrong = {(r["config"], r["tp"], r["kv"]): d for r in runs if (d := differences(r))}
    assert not wrong


CHOICES: dict[str, list[Any]] = {
    "engine": [
        "vllm",
        "vllm@0.10.2",
        "vllm@0.12",
        "vllm@0.14.1",
        "vllm@0.17.1",
        "vllm@0.20.0",
        "vllm@0.25.1",
        "vllm@0.29",
    ],
    "card": ["rtx-3090", "rtx-5090", "a100-80gb", "h100-80gb", "b200-180gb"],
    "tensor_parallel_size": [1, 2, 3, 8, 64],
    "pipeline_parallel_size": [1, 1, 2, 3],
    "decode_context_parallel_size": [1, 1, 2],
    "kv_cache_dtype": ["auto", "fp8", "fp8_e5m2", "int8_per_token_head", "nvfp4", "turboquant_3bit_nc", "fp8_ds_mla"],
    "max_model_len": [None, 1, 17, 4096, 10**7],
    "max_num_seqs": [None, 1, 5000],
    "max_num_batched_tokens": [None, 1, 2048],
    "block_size": [None, None, 16, 48, 128],
    "enable_prefix_caching": [None, True, False],
    "mamba_cache_mode": [None, "all", "align"],
    "disable_hybrid_kv_cache_manager": [False, False, True],
    "kv_cache_memory_bytes": [0, 1, 2**30, 2**45],
}


def test_odd_plans_are_answered_or_refused_and_always_add_up() -> None:
    import random

    chooser = random.Random(7)
    for _ in range(600):
        profile = profile_of(chooser.choice(sorted(DATA["configs"])))
        plan = Plan(weights_gb=1, **{name: chooser.choice(values) for name, values in CHOICES.items()})
        prediction = predict(profile, plan)
        cache = prediction.cache
        claimed = sum(g.num_blocks_per_request for g in cache.pool.groups)
        assert cache.one.total == claimed * cache.pool.extra.get("bytes_per_block", 0), plan
        assert min(cache.one.growing, cache.one.window, cache.one.state, cache.one.padding) >= 0, plan
        assert sum(t.bytes for t in prediction.terms) == prediction.needed_bytes
        assert all(r.message for r in prediction.reasons)
