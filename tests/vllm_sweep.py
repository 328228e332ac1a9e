"""One conformance entry of vLLM's own planner beside the prediction: every figure that both have."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from calc.plan import Plan
from calc.predict import predict
from onboard.open import inspect
from onboard.profile import Profile
from tests.shared import SHARED

POOL = 40 * 2**30
DTYPES = {"kv_auto": "auto", "kv_fp8": "fp8", "kv_bfloat16": "bfloat16"}


@lru_cache(maxsize=8)
def entries(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SHARED / "conformance" / file).read_text())["results"]
    return found


@lru_cache(maxsize=256)
def profile_of(config: str) -> Profile:
    """The runs were given config.json alone: a quantization file beside it was not there for the engine to read."""
    return inspect(str(SHARED / "corpus" / config / "config.json"))


def answered(file: str) -> list[tuple[str, str]]:
    """(entry, KV) of every run that has a pool and is not of low trust (`conformance/README.md`)."""
    found = []
    for name, entry in entries(file).items():
        for kv in DTYPES:
            run = entry.get(kv)
            if not run or "error" in run or not run.get("pool"):
                continue
            if entry.get("generic_config_class") or run.get("fallback_flags") or run.get("low_trust"):
                continue
            found.append((name, kv))
    return found


def groups_of(run: dict[str, Any]) -> list[tuple[int, int, int, int]]:
    """Every group as (layers, block size, page bytes, blocks a request), sorted."""
    return sorted(
        (layers, g["block_size"], g["page_size_bytes"], g["blocks_for_one_max_len_request"])
        for g in run["groups"]
        for layers in g["num_layers"]
    )


def differences(version: str, entry: dict[str, Any], kv: str, profile: Profile) -> list[tuple[Any, ...]]:
    """(figure, ours, vLLM's) for each figure that is not equal."""
    run = entry[kv]
    pool = run["pool"]
    prediction = predict(
        profile,
        Plan(
            engine=f"vllm@{version}",
            card="h100-80gb",
            tensor_parallel_size=entry["tp"],
            kv_cache_dtype=DTYPES[kv],
            kv_cache_memory_bytes=POOL,
            weights_gb=1,
        ),
    )
    ours, kinds = prediction.cache.pool, {r.kind for r in prediction.reasons}
    error = pool.get("error", "")
    found = re.search(r"estimated maximum model length is (\d+)", error)
    compared: list[tuple[str, Any, Any]] = [
        ("max_model_len", prediction.resolved.plan.max_model_len, run["max_model_len"]),
        ("max_num_batched_tokens", prediction.resolved.plan.max_num_batched_tokens, run["max_num_batched_tokens"]),
        ("max_num_seqs", prediction.resolved.plan.max_num_seqs, run["max_num_seqs"]),
        (
            "groups",
            sorted((g.num_layers, g.block_size, g.page_bytes, g.num_blocks_per_request) for g in ours.groups),
            groups_of(run),
        ),
        ("bytes_per_block", ours.extra.get("bytes_per_block"), pool["bytes_per_block"]),
        ("request_bytes", prediction.cache.one.total, pool["max_memory_usage_bytes_one_request"]),
        ("growing_bytes_per_token", prediction.cache.growing_bytes_per_token, run["growing_bytes_per_token"]),
        ("state_bytes", prediction.cache.state_bytes_per_sequence, run["recurrent_state_bytes_per_seq"]),
        ("refused", "memory" in kinds, bool(error)),
    ]
    if run.get("mamba_cache_mode") is not None:
        compared.append(("state mode", prediction.resolved.plan.mamba_cache_mode, run["mamba_cache_mode"]))
    if error:
        compared.append(("longest", prediction.cache.max_model_len_that_fits, int(found.group(1)) if found else 0))
    else:
        compared += [
            ("num_blocks", ours.num_blocks, pool["num_gpu_blocks"]),
            ("tokens", ours.tokens, pool["kv_cache_size_tokens"]),
            ("concurrency", ours.max_concurrency, pool["max_concurrency"]),
        ]
    slots = pool.get("boot_fails_max_num_seqs_gt_mamba_blocks")
    if slots is not None:
        compared.append(("state_slots", "state_slots" in kinds, slots))
    compared.append(("other reasons", kinds - {"memory", "state_slots"}, set()))
    return [(name, mine, theirs) for name, mine, theirs in compared if mine != theirs]
