"""An answer fits and one step more does not, for every knob, under the rules of `predict` itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.plan import Plan
from calc.predict import fits, predict
from calc.solve import solve
from calc.table import table
from onboard.errors import UsageError
from onboard.open import load_profile
from onboard.values import replace

MODELS = ("qwen3.6-27b", "qwen3.6-35b-a3b", "gemma-4-31b", "gemma-4-26b-a4b")
PLANS = st.builds(
    Plan,
    engine=st.sampled_from(["vllm", "vllm@0.24", "vllm@0.11", "sglang", "llamacpp"]),
    card=st.sampled_from(["rtx-3090", "rtx-4090", "rtx-5090", "l40s", "a100-80gb", "h100-80gb"]),
    tensor_parallel_size=st.sampled_from([1, 2]),
)


def sized(plan: Plan) -> Plan:
    """llama.cpp splits over cards; the other two shard."""
    return replace(plan, tensor_parallel_size=1, gpus=plan.tensor_parallel_size) if plan.engine == "llamacpp" else plan


@settings(max_examples=25, deadline=None)
@given(model=st.sampled_from(MODELS), plan=PLANS, require=st.sampled_from(["start", "pass"]))
def test_the_longest_context_fits_and_one_token_more_does_not(model: str, plan: Plan, require: str) -> None:
    profile, plan = load_profile(model), sized(plan)
    solution = solve(profile, plan, "max-model-len", require)
    if solution.value is None:
        assert not fits(predict(profile, replace(plan, max_model_len=1)), require)
        return
    assert isinstance(solution.value, int)
    assert fits(predict(profile, replace(plan, max_model_len=solution.value)), require)
    if not solution.bound:
        assert not fits(predict(profile, replace(plan, max_model_len=solution.value + 1)), require)


@settings(max_examples=12, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    plan=PLANS,
    require=st.sampled_from(["start", "pass"]),
    length=st.sampled_from([4096, 32768]),
)
def test_the_most_sequences_fit_and_one_more_does_not(model: str, plan: Plan, require: str, length: int) -> None:
    profile, plan = load_profile(model), replace(sized(plan), max_model_len=length)
    solution = solve(profile, plan, "max-num-seqs", require)
    if isinstance(solution.value, int):
        assert fits(predict(profile, replace(plan, max_num_seqs=solution.value)), require)
        if not solution.bound:
            assert not fits(predict(profile, replace(plan, max_num_seqs=solution.value + 1)), require)


@pytest.mark.parametrize("model", MODELS)
def test_the_smallest_card_fits_and_one_gib_less_does_not(model: str) -> None:
    profile, plan = load_profile(model), Plan(max_model_len=32768, tensor_parallel_size=2)
    solution = solve(profile, plan, "vram")
    assert isinstance(solution.value, int)
    assert fits(predict(profile, replace(plan, vram_gib=float(solution.value))), "start")
    assert not fits(predict(profile, replace(plan, vram_gib=float(solution.value - 1))), "start")


@pytest.mark.parametrize("model", MODELS)
def test_the_smallest_tp_fits_and_every_smaller_valid_one_does_not(model: str) -> None:
    profile, plan = load_profile(model), Plan(card="rtx-4090", max_model_len=131072)
    solution = solve(profile, plan, "tp")
    assert isinstance(solution.value, int)
    for smaller in (t for t in (1, 2, 4, 8) if t < solution.value):
        assert not fits(predict(profile, replace(plan, tensor_parallel_size=smaller)), "start")


def test_the_widest_format_that_fits() -> None:
    profile, plan = load_profile("gemma-4-31b"), Plan(card="rtx-3090", tensor_parallel_size=2, max_model_len=262144)
    solution = solve(profile, plan, "kv-cache-dtype")
    assert solution.value is not None
    assert fits(predict(profile, replace(plan, kv_cache_dtype=str(solution.value))), "start")
    assert not fits(predict(profile, replace(plan, kv_cache_dtype="bf16")), "start")


@pytest.mark.parametrize("arguments", [("speed", "start"), ("max-model-len", "maybe")])
def test_other_questions_are_refused(arguments: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        solve(load_profile("gemma-4-31b"), Plan(card="rtx-3090"), *arguments)


@pytest.mark.parametrize("model", MODELS)
def test_a_table_says_what_predict_says_and_never_gets_better_with_context(model: str) -> None:
    profile, plan = load_profile(model), Plan(card="rtx-3090", tensor_parallel_size=2)
    rows = table(profile, plan, contexts=(8192, 65536, 262144), kv_formats=("bf16", "fp8_e5m2"))
    order = {"PASS": 0, "TIGHT": 1, "FAIL": 2}
    for row in rows:
        alone = predict(profile, replace(plan, max_model_len=row.max_model_len, kv_cache_dtype=row.kv_cache_dtype))
        assert (row.verdict, row.needed_bytes) == (alone.verdict, alone.needed_bytes)
    for one, two in pairwise(rows):
        if one.kv_cache_dtype == two.kv_cache_dtype:
            assert order[one.verdict] <= order[two.verdict]
