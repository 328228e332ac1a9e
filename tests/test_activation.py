"""The activation peak as mechanisms: printed peaks, and laws that hold whatever the constants are."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calc.estimates.activation import activation, forward_part, moe_workspace, sampler_part
from calc.estimates.classes import class_of
from calc.estimates.fit import PRIORS, Fit, load_fit
from calc.estimates.graphs import capture_size, estimate_is_subtracted, graphs
from calc.estimates.intervals import at, band, share_below
from calc.estimates.notes import suggestions
from calc.estimates.reserve import estimate
from calc.estimates.runtime import FLASHINFER_BYTES, delta_prefill_bytes, inside, outside
from calc.estimates.setup import Setup
from calc.units import GIB
from onboard.values import replace

LAW = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])  # cores are shared
SOURCES = Fit(constants=PRIORS)  # the mechanisms' own constants, nothing learned

LLAMA_8B = Setup(
    engine="vllm", version=(0, 11, 0), hidden=4096, vocab=128256, layers=32, intermediate=14336,
    max_num_seqs=1024, max_num_batched_tokens=8192, link="nvlink", datacentre=True, compute_capability=(9, 0),
)  # fmt: skip
QWEN_14B = replace(LLAMA_8B, version=(0, 16, 0), hidden=5120, vocab=151936, layers=40, intermediate=17408)
QWEN_27B = Setup(
    engine="vllm", version=(0, 20, 1), hidden=5120, vocab=248320, layers=64, intermediate=17408, delta=(48, 128, 128),
    states=True, tp=2, max_num_seqs=2, max_num_batched_tokens=8192, compute_capability=(8, 6),
)  # fmt: skip

setups = st.builds(
    Setup,
    engine=st.just("vllm"),
    version=st.sampled_from([(0, 10, 0), (0, 16, 0), (0, 17, 0), (0, 19, 1), (0, 24, 0), (0, 33, 0)]),
    hidden=st.integers(64, 16384),
    vocab=st.integers(1000, 300_000),
    layers=st.integers(1, 128),
    intermediate=st.integers(0, 65536),
    experts=st.sampled_from([0, 8, 128]),
    topk=st.integers(1, 10),
    moe_intermediate=st.integers(64, 8192),
    tp=st.sampled_from([1, 2, 4, 8]),
    max_num_seqs=st.integers(1, 2048),
    max_num_batched_tokens=st.integers(2048, 65536),
    link=st.sampled_from(["pcie", "nvlink", "unified", "rocm"]),
)


# --- printed peaks --------------------------------------------------------------------------------------------------


def test_one_boot_before_and_after_the_sampler_changed() -> None:
    """The same Qwen3-14B boot logs 5.64 GiB on 0.16 and 2.23 on 0.17: nothing but the sampler changed."""
    assert activation(QWEN_14B, SOURCES).bytes / GIB == pytest.approx(5.64, abs=0.03)
    assert activation(replace(QWEN_14B, version=(0, 17, 0)), SOURCES).bytes / GIB == pytest.approx(2.23, abs=0.06)


@pytest.mark.parametrize(
    ("changes", "printed"),
    [
        ({}, 4.76),  # Llama-3.1-8B
        ({"hidden": 8192, "intermediate": 28672, "layers": 80, "tp": 2}, 4.84),  # Llama-3.3-70B, two cards
        ({"hidden": 1024, "vocab": 151936, "intermediate": 3072}, 5.56),  # Qwen3-0.6B
    ],
)
def test_peaks_depend_on_vocabulary_and_sequences_not_on_size(changes: dict[str, int], printed: float) -> None:
    assert activation(replace(LLAMA_8B, **changes), SOURCES).bytes / GIB == pytest.approx(printed, abs=0.05)


def test_the_forward_pass_binds_where_sequences_are_few() -> None:
    """V0, Qwen2.5-7B, one batch of 32,768 tokens: 4.35 GiB logged, the sampler alone would be 1.6."""
    boot = replace(
        LLAMA_8B, version=(0, 8, 5), v0=True, hidden=3584, vocab=152064, intermediate=18944, max_num_seqs=256,
        max_num_batched_tokens=32768, link="pcie", chunked=False,
    )  # fmt: skip
    assert activation(boot, SOURCES).bytes / GIB == pytest.approx(4.35, abs=0.04)
    assert activation(boot, SOURCES).name == "forward pass"


def test_three_boots_that_differ_only_in_sequences() -> None:
    """B300, 35B-A3B on 0.20.1: 1,024 sequences keep 2.50 GiB more than 256."""
    moe = replace(
        QWEN_27B, hidden=2048, layers=40, intermediate=0, experts=256, topk=8, moe_intermediate=512, tp=1,
        max_num_batched_tokens=2048, graph_estimate=False,
    )  # fmt: skip
    many, few = (estimate(replace(moe, max_num_seqs=n), load_fit()).inside for n in (1024, 256))
    assert (many - few) / GIB == pytest.approx(2.50, abs=0.12)


def test_a_failed_allocation_of_96_mib_is_the_chunk_states() -> None:
    assert delta_prefill_bytes(QWEN_27B) == 96 * 2**20


def test_awq_in_the_first_engine_unpacks_a_whole_matrix() -> None:
    boot = replace(
        LLAMA_8B, version=(0, 7, 2), v0=True, hidden=8192, vocab=152064, intermediate=29568, layers=80, tp=2,
        max_num_seqs=256, max_num_batched_tokens=32768, chunked=False, quantization="awq int4", link="pcie",
    )  # fmt: skip
    assert activation(boot, SOURCES).bytes / GIB == pytest.approx(5.66, abs=0.1)
    assert activation(replace(boot, quantization="bf16"), SOURCES).bytes / GIB < 5.4


# --- laws -----------------------------------------------------------------------------------------------------------


@LAW
@given(setups)
def test_the_peak_is_the_maximum_and_never_the_sum(setup: Setup) -> None:
    sampler, forward = sampler_part(setup, SOURCES).bytes, forward_part(setup, SOURCES).bytes
    base = PRIORS["base_gib"] * GIB
    assert activation(setup, SOURCES).bytes == pytest.approx(max(sampler, forward) + base)


@LAW
@given(setups)
def test_more_cards_do_not_lower_the_sampler_and_do_lower_a_dense_forward_pass(setup: Setup) -> None:
    dense = replace(setup, experts=0, tp=1, intermediate=max(64, setup.intermediate))
    wide = replace(dense, tp=8)
    assert sampler_part(wide, SOURCES).bytes == sampler_part(dense, SOURCES).bytes
    assert forward_part(wide, SOURCES).bytes < forward_part(dense, SOURCES).bytes


@LAW
@given(setups, st.integers(1, 512))
def test_more_sequences_or_tokens_never_take_less(setup: Setup, more: int) -> None:
    now = estimate(setup, SOURCES)
    assert estimate(replace(setup, max_num_seqs=setup.max_num_seqs + more), SOURCES).inside >= now.inside
    assert activation(replace(setup, max_num_batched_tokens=setup.max_num_batched_tokens + more), SOURCES).bytes >= (
        activation(setup, SOURCES).bytes
    )


@LAW
@given(setups)
def test_pooling_models_sample_nothing(setup: Setup) -> None:
    assert sampler_part(replace(setup, pooling=True), SOURCES).bytes == 0


@LAW
@given(setups)
def test_bands_hold_their_estimate(setup: Setup) -> None:
    fit = load_fit()
    for term, size in (("activation", 1e9), ("runtime", 1e9), ("cuda_graphs", 1e9), ("reserve", 1e9), ("context", 1e9)):
        low, high = band(setup, term, size, fit)
        assert low <= 0 <= high
        assert high - low > 0


@LAW
@given(st.lists(st.floats(-5, 5), min_size=3, max_size=60), st.floats(-6, 6))
def test_shares_and_quantiles_agree(values: list[float], limit: float) -> None:
    values = sorted(values)
    share = share_below(values, limit)
    assert 0.01 <= share <= 0.99
    assert share_below(values, limit + 0.5) >= share
    assert values[0] <= at(values, 0.3) <= at(values, 0.7) <= values[-1]


# --- inside and outside ---------------------------------------------------------------------------------------------


def test_graphs_are_inside_from_0_20_and_outside_before() -> None:
    assert estimate_is_subtracted(replace(LLAMA_8B, version=(0, 20, 0)))
    assert not estimate_is_subtracted(replace(LLAMA_8B, version=(0, 19, 1)))
    assert not estimate_is_subtracted(replace(LLAMA_8B, version=(0, 25, 0), eager=True))
    assert estimate_is_subtracted(replace(LLAMA_8B, version=(0, 19, 1), graph_estimate=True))


def test_graphs_vanish_with_enforce_eager_and_shrink_with_sequences() -> None:
    modern = replace(LLAMA_8B, version=(0, 24, 0))
    assert graphs(replace(modern, eager=True), SOURCES).bytes == 0
    assert graphs(replace(modern, max_num_seqs=4), SOURCES).bytes < graphs(modern, SOURCES).bytes / 4
    assert capture_size(replace(modern, max_num_seqs=4, num_speculative_tokens=3)) == 32


def test_nvlink_makes_the_step_in_runtime_memory() -> None:
    one, two = (inside(replace(LLAMA_8B, version=(0, 19, 0), tp=n), SOURCES).bytes / GIB for n in (1, 2))
    assert two - one > 1.5
    pcie = replace(LLAMA_8B, version=(0, 19, 0), link="pcie", tp=2)
    assert inside(pcie, SOURCES).bytes / GIB < 0.6


def test_flashinfer_stands_outside_the_budget_for_fp8_on_ampere_only() -> None:
    ampere = replace(QWEN_27B, kv_cache_dtype="fp8_e5m2")
    assert outside(ampere, SOURCES).bytes - outside(QWEN_27B, SOURCES).bytes == FLASHINFER_BYTES
    hopper = replace(ampere, compute_capability=(9, 0))
    assert "FlashInfer" not in outside(hopper, SOURCES).rule


def test_workspaces_of_experts_are_kept_from_0_17() -> None:
    moe = replace(LLAMA_8B, experts=128, topk=8, moe_intermediate=768, hidden=2048)
    kept = sampler_part(replace(moe, version=(0, 17, 0), sampler="flashinfer"), SOURCES).bytes
    before = sampler_part(replace(moe, version=(0, 16, 0), sampler="flashinfer"), SOURCES).bytes
    assert kept - before == pytest.approx(PRIORS["moe_kept_factor"] * moe_workspace(moe))


def test_what_is_not_modelled_is_a_class_of_its_own() -> None:
    assert class_of(replace(QWEN_27B, sparse=True)) == "uncovered"
    assert class_of(replace(QWEN_27B, drafter=True)) == "uncovered"
    fit = load_fit()
    wide = band(replace(LLAMA_8B, sparse=True), "reserve", 0, fit)[1]
    assert wide > 5 * band(LLAMA_8B, "reserve", 0, fit)[1]


# --- advice ---------------------------------------------------------------------------------------------------------


def test_advice_names_the_knob_and_what_it_frees() -> None:
    told = suggestions(replace(QWEN_14B, version=(0, 19, 0)), load_fit())
    assert any(t.startswith("max_num_seqs 1024 -> ") and "frees" in t for t in told)
    assert any("raising tensor_parallel_size does not lower" in t for t in told)
    assert any("max_num_batched_tokens does not lower" in t for t in told)


def test_advice_turns_where_the_forward_pass_binds() -> None:
    told = suggestions(replace(QWEN_14B, max_num_seqs=2, max_num_batched_tokens=65536), load_fit())
    assert any(t.startswith("max_num_batched_tokens 65536 -> 2048 frees") for t in told)
    assert not any("tensor_parallel_size" in t or "max_num_seqs" in t for t in told)
