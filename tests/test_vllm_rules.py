"""vLLM's rules one by one: receipts, laws of the arithmetic, refusals, versions, formats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.engines.vllm.layout import stage_layers
from calc.engines.vllm.versions import CHANGES, LATEST, parse_version, rules_for
from calc.kv_formats import kv_format
from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Prediction
from calc.speculation import speculation
from onboard.derive import derive
from onboard.errors import UnknownKnob, UsageError
from onboard.layers import (
    CacheSpec,
    ChunkedAttention,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    Layer,
    SharedWith,
    WindowAttention,
)
from onboard.profile import Profile, SourceRef
from onboard.sourced import Sourced
from onboard.states import GatedDeltaNet, Mamba2
from onboard.values import replace
from tests.redo import redone

FULL = FullAttention(num_kv_heads=4, k_dim=512, v_dim=512, k_eq_v=True)
SLIDING = WindowAttention(num_kv_heads=16, k_dim=256, v_dim=256, window=1024)
DELTA = GatedDeltaNet(num_k_heads=16, num_v_heads=48, k_dim=128, v_dim=128, conv_kernel=4, ssm_dtype="float32")
ATTENTION = FullAttention(num_kv_heads=4, k_dim=256, v_dim=256)


def model(*stack: CacheSpec, mtp: int = 0, architecture: str = "", **facts: Any) -> Profile:
    """A model of these layers; facts that the estimates need are filled in."""
    stated = {
        "max_model_len": 262144,
        "hidden_size": 4096,
        "vocab_size": 32000,
        "intermediate_size": 16384,
        "num_attention_heads": 32,
        "dtype": "bfloat16",
        **facts,
    }
    layers = tuple(Layer((spec,)) for spec in stack)
    return Profile(
        id="m",
        source=SourceRef(kind="file", name="m"),
        model_type="m",
        architectures=(architecture,) if architecture else (),
        layers=layers,
        mtp_layers=tuple(layer for layer in layers if layer.caches[0].kind == "full")[:1] * mtp,
        facts={name: Sourced(value, "config", name) for name, value in stated.items() if value is not None},
    )


GEMMA_31B = model(*(([SLIDING] * 5 + [FULL]) * 10))
QWEN_27B = model(*(([DELTA] * 3 + [ATTENTION]) * 16), mtp=1)
DENSE = model(*[FullAttention(num_kv_heads=8, k_dim=128, v_dim=128)] * 32)


def run(profile: Profile, **options: Any) -> Prediction:
    base = {"engine": "vllm@0.33", "card": "h100-80gb", "weights_gb": 1, "kv_cache_memory_bytes": 40 * 2**30}
    return predict(profile, Plan(**{**base, **options}))


def kinds(prediction: Prediction) -> set[str]:
    return {r.kind for r in prediction.reasons}


# --- receipts: what engines logged ---------------------------------------------------------------------------------


def test_gemma_31b_in_a_logged_pool() -> None:
    """configiq#112: 64.68 GiB on an H200 logged 626,949 tokens; a window-only sum says about 815,000."""
    prediction = run(GEMMA_31B, engine="vllm@0.24", card="h200-141gb", kv_cache_memory_bytes=round(64.68 * 2**30))
    assert prediction.cache.pool.tokens == 626_949
    sizes = [round((103.92 + d) * 2**30) for d in (-0.005, 0.005)]
    low, high = (
        run(GEMMA_31B, engine="vllm@0.24", card="h200-141gb", kv_cache_memory_bytes=s).cache.pool.tokens for s in sizes
    )
    assert low <= 1_007_303 <= high


def test_gemma_26b_needs_what_spark_logged() -> None:
    """spark-vllm-docker#217: one request of 131,072 tokens at fp8 takes 2.131 GiB."""
    window = WindowAttention(num_kv_heads=8, k_dim=256, v_dim=256, window=1024)
    full = FullAttention(num_kv_heads=2, k_dim=512, v_dim=512, k_eq_v=True)
    profile = model(*(([window] * 5 + [full]) * 5))
    prediction = run(
        profile,
        engine="vllm@0.24",
        card="dgx-spark",
        kv_cache_dtype="fp8_e5m2",
        max_model_len=131072,
        max_num_batched_tokens=8192,
    )
    assert prediction.cache.one.total / 2**30 == pytest.approx(2.131, abs=0.001)


def test_an_estimated_length_is_the_engines_own() -> None:
    """vllm_rules.md h: Gemma 4 31B in 20 GiB is refused, and 87,872 tokens would fit."""
    prediction = run(GEMMA_31B, kv_cache_memory_bytes=20 * 2**30)
    assert prediction.verdict == "FAIL"
    assert prediction.cache.max_model_len_that_fits == 87_872


def test_state_slots_cap_sequences() -> None:
    """vllm_rules.md c: 40 GiB hold 787 blocks of Qwen3.6-27B, fewer than the default 1,024 sequences."""
    prediction = run(QWEN_27B)
    assert prediction.cache.pool.num_blocks == 787
    assert kinds(prediction) == {"state_slots"}
    assert run(QWEN_27B, max_num_seqs=256).verdict == "TIGHT"
    assert not kinds(run(QWEN_27B, enforce_eager=True))


# --- laws ------------------------------------------------------------------------------------------------------------

SPECS = st.sampled_from(
    [
        FULL,
        SLIDING,
        DELTA,
        ATTENTION,
        FullAttention(num_kv_heads=1, k_dim=128, v_dim=128),
        WindowAttention(num_kv_heads=1, k_dim=128, v_dim=128, window=128),
        ChunkedAttention(num_kv_heads=8, k_dim=128, v_dim=128, chunk=8192),
        Mamba2(num_heads=64, head_dim=64, num_groups=8, state_dim=128, conv_kernel=4),
    ]
)
STACKS = st.lists(SPECS, min_size=1, max_size=12)
VERSIONS = st.sampled_from(
    ["0.12.0", "0.14.1", "0.17.1", "0.19.1", "0.20.0", "0.20.2", "0.25.1", "0.28", "0.31", "0.33"]
)


@settings(max_examples=120, deadline=None)
@given(STACKS, VERSIONS, st.integers(1, 200_000), st.sampled_from([1, 2, 4]), st.integers(2**28, 2**36))
def test_parts_pools_and_lengths_agree(stack: list[CacheSpec], version: str, length: int, tp: int, pool: int) -> None:
    prediction = run(
        model(*stack),
        engine=f"vllm@{version}",
        max_model_len=length,
        tensor_parallel_size=tp,
        kv_cache_memory_bytes=pool,
    )
    if "block_size" in kinds(prediction) and not prediction.cache.pool.groups:
        return  # this release cannot lay these pages out
    cache, block = prediction.cache, prediction.cache.pool.extra["bytes_per_block"]
    claimed = sum(g.num_blocks_per_request for g in cache.pool.groups)
    assert cache.one.total == claimed * block, "one request is whole blocks of every group"
    assert cache.one.padding >= 0
    assert cache.pool.bytes <= pool < cache.pool.bytes + block
    assert sum(g.num_layers for g in cache.pool.groups) == len(stack)
    longest = cache.max_model_len_that_fits
    assert longest <= length
    if "memory" in kinds(prediction) and longest:
        again = replace(prediction.resolved.plan, max_model_len=longest, kv_cache_dtype="auto")
        fits = run(
            model(*stack),
            engine=f"vllm@{version}",
            max_model_len=longest,
            tensor_parallel_size=tp,
            kv_cache_memory_bytes=pool,
        )
        over = run(
            model(*stack),
            engine=f"vllm@{version}",
            max_model_len=longest + 1,
            tensor_parallel_size=tp,
            kv_cache_memory_bytes=pool,
        )
        assert again.max_model_len == longest
        assert "memory" not in kinds(fits) and "memory" in kinds(over)


@settings(max_examples=60, deadline=None)
@given(STACKS, st.integers(1, 100_000), st.integers(1, 8))
def test_terms_add_up_for_every_sequence_asked_for(stack: list[CacheSpec], length: int, sequences: int) -> None:
    prediction = run(model(*stack), max_model_len=length, max_num_seqs=sequences)
    names = ("kv_growing", "kv_window", "state", "kv_padding")
    parts = sum(t.bytes for t in prediction.terms if t.name in names)
    assert parts == sequences * prediction.cache.one.total
    assert sum(t.bytes for t in prediction.terms) == prediction.needed_bytes


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 120), st.integers(1, 16))
def test_pipeline_stages_cover_every_layer(layers: int, stages: int) -> None:
    if stages > layers:
        return
    sizes = stage_layers(layers, stages)
    assert sum(sizes) == layers and max(sizes) - min(sizes) <= 1 and sizes[-1] == min(sizes)


def test_more_cards_never_need_more_of_each() -> None:
    for profile in (GEMMA_31B, QWEN_27B, DENSE):
        needs = [run(profile, tensor_parallel_size=tp, max_num_seqs=8).cache.one.total for tp in (1, 2, 4, 8, 16)]
        assert needs == sorted(needs, reverse=True)


# --- rules -----------------------------------------------------------------------------------------------------------


def test_kv_heads_replicate_beyond_their_number() -> None:
    rates = [run(DENSE, tensor_parallel_size=tp).cache.growing_bytes_per_token for tp in (1, 8, 16, 32)]
    assert rates == [131072, 16384, 16384, 16384]


def test_latents_are_whole_on_every_card_and_only_dcp_cuts_them() -> None:
    profile = model(*[LatentAttention(latent_dim=512, rope_dim=64)] * 61, num_attention_heads=128)
    one, eight = run(profile), run(profile, tensor_parallel_size=8)
    cut = run(profile, tensor_parallel_size=8, decode_context_parallel_size=8)
    assert one.cache.growing_bytes_per_token == eight.cache.growing_bytes_per_token == 70_272
    assert cut.cache.pool.groups[0].num_blocks_per_request * 8 == eight.cache.pool.groups[0].num_blocks_per_request
    assert "dcp" in kinds(run(DENSE, tensor_parallel_size=8, decode_context_parallel_size=2))
    assert "dcp" not in kinds(run(DENSE, tensor_parallel_size=16, decode_context_parallel_size=2))


@pytest.mark.parametrize(
    ("card", "dtype", "rate"),
    [
        ("h100-80gb", "auto", 1152 + 132),
        ("h100-80gb", "fp8", 656 + 132),
        ("h100-80gb", "fp8_e4m3", 576 + 132),
        ("b200-180gb", "fp8", 576 + 132),
        ("b200-180gb", "nvfp4_ds_mla", 352 + 132),
        ("rtx-pro-6000", "auto", 656 + 132),
    ],
)
def test_sparse_latents(card: str, dtype: str, rate: int) -> None:
    stack = (LatentAttention(latent_dim=512, rope_dim=64), Indexer(elements_per_entry=128))
    profile = replace(model(num_attention_heads=128), layers=(Layer(stack),) * 61)
    prediction = run(profile, card=card, kv_cache_dtype=dtype, kv_cache_memory_bytes=2**36)
    assert prediction.cache.growing_bytes_per_token == 61 * rate
    assert [g.kinds for g in prediction.cache.pool.groups] == [("latent", "indexer")]


def test_the_hybrid_manager_off_makes_every_layer_grow() -> None:
    prediction = run(GEMMA_31B, disable_hybrid_kv_cache_manager=True)
    assert prediction.cache.growing_bytes_per_token == 901_120
    assert prediction.cache.pool.num_groups == 1
    assert prediction.cache.pool.extra["bytes_per_block"] == 14_417_920


def test_shared_and_cross_layers() -> None:
    stack = [FULL, SharedWith(layer=0), CrossAttention(num_kv_heads=20, k_dim=64, v_dim=64, num_encoder_tokens=1500)]
    profile = model(*stack)
    assert run(profile, max_model_len=448).cache.pool.num_groups == 2
    whisper = model(*[FullAttention(num_kv_heads=20, k_dim=64, v_dim=64), stack[2]] * 32)
    prediction = run(whisper, max_model_len=448)
    assert {g.num_blocks_per_request for g in prediction.cache.pool.groups} == {28, 512}


def test_windows_reserve_the_batches_in_flight() -> None:
    def blocks(**options: Any) -> int:
        groups = run(GEMMA_31B, **options).cache.pool.groups
        return next(g.num_blocks_per_request for g in groups if g.kinds == ("window",))

    assert blocks() == 1089
    assert blocks(async_scheduling=False) == 577
    assert blocks(card="a100-80gb") == 321
    assert blocks(engine="vllm@0.25.1") == 577
    assert blocks(max_model_len=8192) == 513
    assert blocks(pipeline_parallel_size=2) == -(-(1023 + 3 * 8192) // 16) + 1


def test_chunks_have_no_extra_block_and_old_releases_let_them_grow() -> None:
    chunk = ChunkedAttention(num_kv_heads=8, k_dim=128, v_dim=128, chunk=8192)
    scout = model(*(([chunk] * 3 + [FullAttention(num_kv_heads=8, k_dim=128, v_dim=128)]) * 12), max_model_len=10485760)
    new = run(scout)
    assert {g.num_blocks_per_request for g in new.cache.pool.groups} == {1536, 655360}
    assert run(scout, engine="vllm@0.13.0").cache.pool.num_groups == 1


def test_speculation_adds_layers_columns_and_state_blocks() -> None:
    plain, drafted = run(QWEN_27B, max_num_seqs=8), run(QWEN_27B, max_num_seqs=8, num_speculative_tokens=3)
    assert drafted.cache.growing_bytes_per_token == 69_632
    states = [g for g in drafted.cache.pool.groups if g.kinds == ("state",)]
    assert {g.num_blocks_per_request for g in states} == {6}
    per_layer = (drafted.cache.state_bytes_per_sequence - plain.cache.state_bytes_per_sequence) // 48
    assert per_layer == 61_440
    off = run(QWEN_27B, max_num_seqs=8, num_speculative_tokens=3, enable_prefix_caching=False)
    assert {g.num_blocks_per_request for g in off.cache.pool.groups if g.kinds == ("state",)} == {4}
    assert speculation(QWEN_27B, drafted.resolved.plan) is not None


@pytest.mark.parametrize(
    ("card", "version", "caching", "block", "slots"),
    [
        ("h100-80gb", "0.33", None, 832, 3),
        ("rtx-4090", "0.33", None, 784, 2),
        ("h100-80gb", "0.33", False, 784, 1),
        ("h100-80gb", "0.25.1", None, 784, 1),
        ("h100-80gb", "0.25.1", True, 784, 2),
        ("h100-80gb", "0.26", None, 784, 2),
    ],
)
def test_hybrid_blocks_by_card_and_release(
    card: str, version: str, caching: bool | None, block: int, slots: int
) -> None:
    prediction = run(QWEN_27B, card=card, engine=f"vllm@{version}", enable_prefix_caching=caching, max_num_seqs=2)
    assert prediction.cache.pool.extra["attention_block_size"] == block
    assert {g.num_blocks_per_request for g in prediction.cache.pool.groups if g.kinds == ("state",)} == {slots}


def test_mode_all_keeps_a_state_for_every_block() -> None:
    mamba = Mamba2(num_heads=128, head_dim=80, num_groups=8, state_dim=128, conv_kernel=4, ssm_dtype="float32")
    profile = model(*([mamba] * 7 + [FullAttention(num_kv_heads=8, k_dim=128, v_dim=128)]), mamba_chunk_size=128)
    old = run(profile, engine="vllm@0.25.1", enable_prefix_caching=True, max_num_seqs=8, max_model_len=131072)
    assert old.resolved.plan.mamba_cache_mode == "all"
    assert len({g.num_blocks_per_request for g in old.cache.pool.groups}) == 1
    assert old.cache.pool.extra["attention_block_size"] == 1408
    gone = run(profile, mamba_cache_mode="all", max_num_seqs=8)
    assert "mamba_cache_mode" in kinds(gone)


def test_align_blocks_must_fit_a_batch_until_0_27() -> None:
    wide = model(*(([DELTA] * 3 + [FullAttention(num_kv_heads=2, k_dim=128, v_dim=128)]) * 4))
    old = run(wide, engine="vllm@0.20.2", card="rtx-3090", enable_prefix_caching=True, max_num_seqs=2)
    assert "block_size" in kinds(old)
    assert "block_size" not in kinds(run(wide, card="rtx-3090", max_num_seqs=2))


def test_the_null_block_is_refused_its_place_since_0_29() -> None:
    need = run(DENSE, max_model_len=131072).cache.one.total
    old = run(DENSE, engine="vllm@0.28", max_model_len=131072, kv_cache_memory_bytes=need)
    new = run(DENSE, engine="vllm@0.29", max_model_len=131072, kv_cache_memory_bytes=need)
    assert old.verdict == "PASS" and kinds(new) == {"memory"}
    assert {t.name for t in new.terms} - {t.name for t in old.terms} == {"null_block"}


def test_the_token_line_changed_its_meaning() -> None:
    tokens = {
        v: run(GEMMA_31B, engine=f"vllm@{v}", max_num_batched_tokens=8192).cache.pool.tokens
        for v in ("0.20.0", "0.20.1")
    }
    assert tokens["0.20.0"] == 16384 // 6 * 16
    assert tokens["0.20.1"] == int(16384 / 11077 * 262144)


def test_turboquant_leaves_both_ends_of_dense_models_alone() -> None:
    prediction = run(DENSE, kv_cache_dtype="turboquant_k8v4")
    assert prediction.cache.growing_bytes_per_token == 28 * 8 * 196 + 4 * 4096
    hybrid = run(QWEN_27B, kv_cache_dtype="turboquant_3bit_nc", max_num_seqs=2)
    assert hybrid.cache.growing_bytes_per_token == 16 * 4 * 198


@pytest.mark.parametrize(
    ("name", "head", "latent"),
    [
        ("bf16", 512, 1152),
        ("fp8", 256, 576),
        ("int8_per_token_head", 264, 584),
        ("int4_per_token_head", 136, 296),
        ("nvfp4", 144, None),
        ("turboquant_k8v4", 196, None),
        ("turboquant_4bit_nc", 134, None),
        ("turboquant_k3v4_nc", 118, None),
        ("turboquant_3bit_nc", 102, None),
    ],
)
def test_formats_are_rules_on_a_head(name: str, head: int, latent: int | None) -> None:
    fmt = kv_format(name)
    assert fmt.bytes_of(128, 128) == head
    assert (fmt.latent_of(512, 64) if fmt.latent_of else None) == latent


def test_packed_latents_are_rules_too() -> None:
    packed = {name: kv_format(name).latent_of for name in ("fp8_ds_mla", "nvfp4_ds_mla")}
    assert [rule(512, 64) for rule in packed.values() if rule] == [656, 352]


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"kv_cache_dtype": "q4_0"}, "kv_dtype"),
        ({"kv_cache_dtype": "nvfp4", "card": "h100-80gb", "engine": "vllm@0.25"}, "kv_dtype"),
        ({"kv_cache_dtype": "fp8_ds_mla"}, "kv_dtype"),
        ({"kv_cache_dtype": "int8_per_token_head", "engine": "vllm@0.19"}, "kv_dtype"),
        ({"max_model_len": 300_000}, "max_model_len"),
        ({"tensor_parallel_size": 3}, "tp"),
        ({"block_size": 24}, "block_size"),
        ({"max_num_seqs": 4096, "max_num_batched_tokens": 1024}, "max_num_batched_tokens"),
        ({"pipeline_parallel_size": 40}, "pp"),
        ({"gpus": 1, "tensor_parallel_size": 2}, "gpus"),
        ({"gpu_memory_utilization": 1.0, "kv_cache_memory_bytes": None}, "free_memory"),
    ],
)
def test_refusals_name_their_kind(options: dict[str, Any], kind: str) -> None:
    prediction = run(DENSE, **options)
    assert prediction.verdict == "FAIL"
    assert kind in kinds(prediction)


def test_formats_and_card_generations() -> None:
    one_width, two_widths = DENSE, GEMMA_31B
    assert not kinds(run(one_width, card="rtx-3090", kv_cache_dtype="fp8_e4m3"))
    notes = run(one_width, card="rtx-3090", kv_cache_dtype="fp8_e4m3").notes
    assert any("fp8_e5m2" in n.message for n in notes)
    refused = run(two_widths, card="rtx-3090", kv_cache_dtype="fp8_e4m3")
    assert "kv_dtype" in kinds(refused) and "fp8_e5m2" in refused.reasons[0].message
    assert not kinds(run(one_width, card="b200-180gb", kv_cache_dtype="nvfp4"))
    latent = model(*[LatentAttention(latent_dim=512, rope_dim=64)] * 4)
    assert "kv_dtype" in kinds(run(latent, kv_cache_dtype="fp8_ds_mla"))
    assert "kv_dtype" in kinds(run(latent, card="rtx-3090", kv_cache_dtype="fp8"))


def test_pages_that_cannot_be_laid_out_are_refused_by_name() -> None:
    options = {"tensor_parallel_size": 2, "kv_cache_dtype": "int8_per_token_head"}
    old = run(GEMMA_31B, engine="vllm@0.20.2", **options)
    assert "block_size" in kinds(old)
    new = run(GEMMA_31B, engine="vllm@0.25.1", **options)
    full = next(g for g in new.cache.pool.groups if g.kinds == ("full",))
    assert (full.page_bytes, full.block_size) == (66_560, 16)


def test_knobs_of_other_engines_are_refused() -> None:
    with pytest.raises(UnknownKnob, match="ubatch"):
        run(DENSE, ubatch_size=512)


# --- versions ------------------------------------------------------------------------------------------


def test_versions_are_ordered_and_candidates_stand_before_their_release() -> None:
    texts = [
        "0.10",
        "0.11.0",
        "0.11.2",
        "0.20.0",
        "0.20.1rc1",
        "0.20.1",
        "0.20.2rc1.dev3+g1",
        "0.20.2",
        "0.20",
        "v0.33.0",
    ]
    parsed = [parse_version(t) for t in texts]
    assert parsed == sorted(parsed)
    with pytest.raises(UsageError):
        parse_version("latest")


def test_versions_outside_the_known_range_say_so() -> None:
    for version, word in (("0.8.3", "older"), ("0.40", "newer")):
        prediction = run(DENSE, engine=f"vllm@{version}")
        assert any(n.kind == "engine-version" and word in n.message for n in prediction.notes)
    assert not any(n.kind == "engine-version" for n in run(DENSE, engine="vllm").notes)


def test_every_change_is_dated_within_the_range() -> None:
    dates = [since for since, _ in CHANGES]
    assert dates == sorted(dates) and dates[-1] <= LATEST
    for since, values in CHANGES:
        rules = rules_for(since)
        assert all(getattr(rules, name) == value for name, value in values.items())


def test_fixed_terms_do_not_look_at_the_length() -> None:
    """They are remembered without it (terms.py)."""
    found = [
        {
            t.name: t.bytes
            for t in run(DENSE, max_model_len=n, kv_cache_memory_bytes=None).terms
            if not t.name.startswith("kv")
        }
        for n in (1024, 65536)
    ]
    assert found[0] == found[1]


# --- explain ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [GEMMA_31B, QWEN_27B, DENSE])
@pytest.mark.parametrize("sequences", [1, 5])
def test_rules_can_be_redone_by_hand(profile: Profile, sequences: int) -> None:
    prediction = run(profile, max_num_seqs=sequences, num_speculative_tokens=2 if profile.mtp_layers else None)
    for term in prediction.terms:
        if term.name.startswith(("kv_", "state")) and term.bytes:
            assert redone(term.rule.partition("; ")[0]) == term.bytes, (term.name, term.rule)


@pytest.mark.parametrize(("version", "blocks"), [("0.25.1", 769), ("0.33", 770)])
def test_cohere_counts_the_token_itself_beside_its_window(version: str, blocks: int) -> None:
    """commandr.py:244: a window of 4,096 is one of 4,097; 4,095 + 8,193 tokens are whole blocks, one more is not."""
    config = {
        "model_type": "cohere2", "architectures": ["Cohere2ForCausalLM"], "num_hidden_layers": 8, "hidden_size": 4096,
        "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 1000,
        "max_position_embeddings": 131072,
    }  # fmt: skip
    profile = derive(config, model_id="m", source=SourceRef(kind="file", name="m"))
    plan = Plan(
        engine=f"vllm@{version}", vram_gib=80, weights_gb=1, max_num_batched_tokens=8193, async_scheduling=False
    )
    groups = predict(profile, plan).cache.pool.groups
    assert {g.num_blocks_per_request for g in groups if "window" in g.kinds} == {blocks}
