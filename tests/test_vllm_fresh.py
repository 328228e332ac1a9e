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
