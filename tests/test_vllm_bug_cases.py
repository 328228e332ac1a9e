"""Public bug reports about windows and allocators, restated: the right bytes for each engine that a case names."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import pytest

from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Prediction
from onboard.derive import derive
from onboard.profile import Profile, SourceRef
from onboard.yamlio import load_text
from tests.shared import SHARED, needs_shared

pytestmark = [needs_shared, pytest.mark.wide]
HAS_LLAMACPP = hasattr(import_module("calc.engines.llamacpp"), "ENGINE")


@lru_cache(maxsize=1)
def cases() -> dict[str, dict[str, Any]]:
    text = (SHARED / "evidence" / "bug_cases.yml").read_text(encoding="utf-8")
    listed = load_text(text, "bug_cases.yml")["cases"]
    return {c["id"]: c for c in listed if c["area"] in ("allocator", "swa")}


def model(case: str, config: dict[str, Any]) -> Profile:
    return derive(config, model_id=case, source=SourceRef(kind="file", name=case))


def floor(profile: Profile, length: int, sequences: int, width: int = 2) -> int:
    """What the architecture must keep: growing rows of every token, windows as far as the context reaches."""
    total = 0
    for spec, indices in profile.cache_groups:
        window = getattr(spec, "window", None)
        rows = min(window, length) if window else length
        total += len(indices) * rows * spec.elements_per_token() * width  # type: ignore[attr-defined]
    return total * sequences


def vllm(profile: Profile, **options: Any) -> Prediction:
    given = {"engine": "vllm@0.25.1", "card": "h100-80gb", "weights_gb": 1, "kv_cache_memory_bytes": 2**38}
    return predict(profile, Plan(**{**given, **options}))


def expected(case: str) -> tuple[Profile, dict[str, Any], dict[str, Any]]:
    entry = cases()[case]
    return model(case, entry["input"]["config"]), entry["input"].get("ask", {}), entry["expected"]


def test_the_areas_hold_what_is_tested_here() -> None:
    tested = {name for name in cases() if any(name == case for case in TESTED)}
    assert tested == set(cases()), set(cases()) - tested


def test_gpt_oss_windows() -> None:
    profile, ask, want = expected("gguf-parser-32-gpt-oss-window")
    counts = [len(i) for s, i in profile.cache_groups if s.kind == "full"]
    assert counts == [want["full_layers"]]
    assert floor(profile, ask["max_model_len"], 1) == want["kv_bytes_floor"]
    if HAS_LLAMACPP:
        plan = Plan(engine="llamacpp", vram_gib=80, weights_gb=1, max_model_len=131072, max_num_seqs=1, ubatch_size=512)
        prediction = predict(profile, plan)
        caches = {c.name: c for c in prediction.cache.pool.caches}
        assert sum(caches[n].k_bytes + caches[n].v_bytes for n in ("full", "window")) == want["kv_bytes"]


def test_what_reported_tokens_mean() -> None:
    profile, _, want = expected("hf-mem-60-what-reported-tokens-mean")
    assert floor(profile, 1, 1) == want["kv_bytes_at_len_1"]
    assert floor(profile, 131072, 1) == want["kv_bytes_floor_at_len_131072"]
    old = vllm(profile, engine="vllm@0.19.1", kv_cache_memory_bytes=5779095552, max_num_batched_tokens=8192)
    assert old.cache.growing_bytes_per_token == want["growing_kv_bytes_per_token"]
    assert old.cache.pool.tokens == want["old_report_tokens_for_pool_5779095552"]


def test_two_terms_behind_one_constant() -> None:
    profile, ask, want = expected("club-gemma-4-12b-one-constant-hides-two-terms")
    prediction = vllm(
        profile,
        tensor_parallel_size=ask["tp"],
        max_model_len=ask["max_model_len"],
        max_num_batched_tokens=ask["max_num_batched_tokens"],
        kv_cache_memory_bytes=round(8.16 * 2**30),
    )
    assert prediction.cache.one.total == want["kv_bytes_per_request_per_card"]
    assert round(prediction.cache.pool.max_concurrency, 2) == want["max_concurrency_for_pool_8_16_gib"]


def test_three_allocators() -> None:
    profile, ask, want = expected("hf-mem-pr-70-three-allocator-answers")
    length, sequences = ask["max_model_len"], ask["num_seqs"]
    common = {
        "max_model_len": length,
        "max_num_seqs": sequences,
        "max_num_batched_tokens": ask["max_num_batched_tokens"],
    }
    assert floor(profile, length, sequences) == want["kv_bytes_floor"]
    assert vllm(profile, **common).cache.asked.total == want["kv_bytes_vllm_hybrid_manager_on"]
    off = vllm(profile, disable_hybrid_kv_cache_manager=True, **common)
    assert off.cache.asked.total == want["kv_bytes_vllm_hybrid_manager_off"]


def test_a_window_longer_than_the_context() -> None:
    profile, ask, want = expected("tt-xla-pr-5834-window-longer-than-context")
    assert floor(profile, ask["max_model_len"], ask["num_seqs"]) == want["kv_bytes_floor"]


def test_hybrid_page_alignment() -> None:
    profile, _, want = expected("vllm-54458-hybrid-page-alignment")
    options = {"max_model_len": 8192, "mamba_ssm_cache_dtype": "bfloat16"}
    fp8 = vllm(profile, kv_cache_dtype="fp8", **options)
    assert fp8.cache.state_bytes_per_sequence == 48 * want["state_page_bytes"]
    assert fp8.cache.pool.extra["attention_block_size"] == want["attention_block_tokens"]
    assert {g.page_bytes for g in fp8.cache.pool.groups} == {want["padded_page_bytes"]}
    wide = vllm(profile, **options)
    assert wide.cache.pool.extra["attention_block_size"] == want["attention_block_tokens_if_kv_bf16"]


@pytest.mark.parametrize("index", range(3))
def test_windows_switched_off(index: int) -> None:
    case = cases()["vllm-15705-qwen2-window-switched-off"]
    want = case["expected"]["variants"][index]
    profile = model(case["id"], case["input"]["variants"][index]["config"])
    windows = [i for s, indices in profile.cache_groups if s.kind == "window" for i in indices]
    assert len(windows) == want["window_layers"]
    if "max_context" in want:
        assert profile.fact("max_model_len") == want["max_context"]
    assert floor(profile, case["input"]["ask"]["max_model_len"], 1) == want["kv_bytes_floor"]


def test_quantised_kv() -> None:
    profile, ask, want = expected("ollama-10128-quantized-kv")
    assert floor(profile, ask["max_model_len"], 1) == want["kv_bytes_f16"]
    from calc.kv_formats import kv_format

    row = sum(
        len(i) * s.num_kv_heads * kv_format("q8_0").bytes_of(s.k_dim, s.v_dim)  # type: ignore[attr-defined]
        for s, i in profile.cache_groups
    )
    assert row == want["kv_bytes_per_token"]
    assert row * ask["max_model_len"] == want["kv_bytes"]


def test_needed_and_reserved_are_two_figures() -> None:
    case = cases()["accelerate-3297-estimate-against-a-filled-card"]
    given, want = case["input"], case["expected"]
    profile = model(case["id"], given["config"])
    ask = given["ask"]
    pool = 77309411328 - given["weights_bytes"] - given["non_kv_peak_bytes"]
    assert pool == want["kv_pool_bytes"]
    prediction = vllm(
        profile,
        card=None,
        vram_gib=80,
        gpu_memory_utilization=ask["gpu_memory_utilization"],
        max_model_len=ask["max_model_len"],
        kv_cache_memory_bytes=pool,
        weights_gb=given["weights_bytes"] / 1e9,
    )
    assert prediction.budget_bytes == want["bytes_reserved"]
    assert prediction.cache.one.total == want["kv_bytes_one_request"]
    weights = next(t.bytes for t in prediction.terms if t.name == "weights")
    assert weights + given["non_kv_peak_bytes"] + prediction.cache.one.total == want["bytes_needed"]
    assert prediction.needed_bytes < prediction.reserved_bytes


TESTED = (
    "gguf-parser-32-gpt-oss-window",
    "hf-mem-60-what-reported-tokens-mean",
    "club-gemma-4-12b-one-constant-hides-two-terms",
    "hf-mem-pr-70-three-allocator-answers",
    "tt-xla-pr-5834-window-longer-than-context",
    "vllm-54458-hybrid-page-alignment",
    "vllm-15705-qwen2-window-switched-off",
    "ollama-10128-quantized-kv",
    "accelerate-3297-estimate-against-a-filled-card",
)
