"""The raw buckets are in the engine's own formats, and say how far they are from what the verdict counts."""

from __future__ import annotations

import pytest

from calc.breakdown import against_verdict, buckets, scope
from calc.plan import Plan
from calc.predict import predict
from onboard.open import load_profile

GEMMA, TOKENS = "gemma-4-31b", 100_096  # a multiple of 256, which llama.cpp's contexts are
HEADS = {"growing": (10, 4, 512), "window": (50, 16, 256)}  # layers, KV heads, width


def found(plan: Plan) -> tuple[dict[str, int], str, str]:
    profile = load_profile(GEMMA)
    prediction = predict(profile, plan)
    listed = buckets(profile, prediction, plan)
    sizes = {b.name.rpartition(", ")[2].partition(" ")[0].rstrip("s"): b.bytes for b in listed}
    return sizes, scope(prediction, plan), against_verdict(listed, prediction)


@pytest.mark.parametrize(
    ("k", "v", "k_bytes", "v_bytes"),
    [("f16", "f16", 2, 2), ("q8_0", "q8_0", 34 / 32, 34 / 32), ("q8_0", "q4_0", 34 / 32, 18 / 32)],
)
def test_llamacpp_counts_its_cache_types_over_all_cards(k: str, v: str, k_bytes: float, v_bytes: float) -> None:
    plan = Plan(engine="llamacpp", card="rtx-3090", gpus=2, max_model_len=TOKENS, cache_type_k=k, cache_type_v=v)
    sizes, words, told = found(plan)
    for name, tokens in (("growing", TOKENS), ("window", 1024)):
        layers, heads, width = HEADS[name]
        assert sizes[name] == layers * heads * width * (k_bytes + v_bytes) * tokens
    assert "over 2 card(s) together" in words
    assert "on the fullest card" in told


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_sharded_engines_count_one_card_and_name_the_difference(engine: str) -> None:
    sizes, words, told = found(Plan(engine=engine, card="h100-80gb", tensor_parallel_size=2, max_model_len=TOKENS))
    layers, heads, width = HEADS["growing"]
    assert sizes["growing"] == layers * heads // 2 * width * 2 * 2 * TOKENS
    assert "one of 2 GPU(s)" in words
    assert "more: tokens in flight" in told or "the same" in told
