"""SGLang's rules one by one: drafters, worst-case windows, slots, DP attention, refusals; figures it printed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.engines.sglang import pools
from calc.engines.sglang.layout import stages
from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Prediction
from onboard.derive import derive
from onboard.errors import UnknownEngine, UnknownKnob, UnknownKvFormat, UsageError, WeightsUnknown
from onboard.layers import FullAttention, Layer
from onboard.profile import DrafterRef, Profile, SourceRef
from tests.shared import SHARED, needs_shared

GIB = 2**30
BASE: dict[str, Any] = {"engine": "sglang", "card": "h100-80gb", "kv_cache_memory_bytes": 40 * GIB, "weights_gb": 1.0}


def model(architecture: str, model_type: str, **fields: Any) -> Profile:
    config = {
        "architectures": [architecture],
        "model_type": model_type,
        "dtype": "bfloat16",
        "vocab_size": 1000,
        **fields,
    }
    return derive(config, model_id=model_type, source=SourceRef(kind="file", name=model_type))


def llama(layers: int = 32, kv_heads: int = 8, head_dim: int = 128, context: int = 131072, **fields: Any) -> Profile:
    return model(
        "LlamaForCausalLM",
        "llama",
        num_hidden_layers=layers,
        hidden_size=4096,
        num_attention_heads=32,
        intermediate_size=14336,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=context,
        **fields,
    )


def deepseek(**fields: Any) -> Profile:
    return model(
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        num_hidden_layers=61,
        hidden_size=7168,
        num_attention_heads=128,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        q_lora_rank=1536,
        intermediate_size=18432,
        max_position_embeddings=163840,
        num_nextn_predict_layers=1,
        num_key_value_heads=128,
        **fields,
    )


def qwen_hybrid(layers: int, v_heads: int, kv_heads: int = 4, **fields: Any) -> Profile:
    kinds = ["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(layers)]
    text = {
        "model_type": "qwen3_5_text",
        "num_hidden_layers": layers,
        "hidden_size": 4096,
        "num_attention_heads": 16,
        "head_dim": 256,
        "num_key_value_heads": kv_heads,
        "intermediate_size": 12288,
        "vocab_size": 1000,
        "layer_types": kinds,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": v_heads,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 262144,
        "mtp_num_hidden_layers": 1,
        **fields,
    }
    return model("Qwen3_5ForConditionalGeneration", "qwen3_5", text_config=text)


def gpt_oss() -> Profile:
    kinds = ["sliding_attention", "full_attention"] * 12
    return model(
        "GptOssForCausalLM",
        "gpt_oss",
        num_hidden_layers=24,
        hidden_size=2880,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=64,
        intermediate_size=2880,
        sliding_window=128,
        layer_types=kinds,
        max_position_embeddings=131072,
        num_local_experts=32,
    )


def with_drafter(profile: Profile, method: str, layer: FullAttention, count: int) -> Profile:
    from onboard.values import replace

    draft = DrafterRef(name="draft", method=method, num_bytes=0, layers=(Layer((layer,)),) * count)
    return replace(profile, drafters=(draft,))


def run(profile: Profile, **knobs: Any) -> Prediction:
    return predict(profile, Plan(**{**BASE, **knobs}))


def cells(prediction: Prediction) -> int:
    return int(prediction.cache.pool.extra["cell_bytes"])


def cache(prediction: Prediction, name: str) -> Any:
    return next(c for c in prediction.cache.pool.caches if c.name == name)


def gib(size: int) -> float:
    return round(size / GIB, 2)


# --- drafters ---


def test_a_built_in_head_is_charged_by_layers() -> None:
    plain, drafting = run(deepseek()), run(deepseek(), drafter="mtp")
    assert (cells(plain), cells(drafting)) == (70272, 71424)
    assert drafting.cache.pool.tokens == 601333
    assert (gib(cache(drafting, "full").k_bytes), gib(cache(drafting, "drafter").k_bytes)) == (39.35, 0.65)
    assert drafting.cache.pool.extra["max_running_requests"] == 48


def test_a_head_the_config_does_not_count_is_allocated_and_not_charged() -> None:
    nine = run(qwen_hybrid(32, 32), drafter="mtp")
    assert cells(nine) == cells(run(qwen_hybrid(32, 32)))
    free_of_charge = next(t for t in nine.terms if t.name == "drafter_kv")
    assert not free_of_charge.inside_budget and free_of_charge.bytes == cache(nine, "drafter").bytes
    assert cache(nine, "drafter").k_bytes * 8 == cache(nine, "full").k_bytes  # one layer beside eight
    assert any(n.kind == "drafter-not-charged" for n in nine.notes)


def test_an_eagle_head_is_charged_as_one_more_layer() -> None:
    target = llama()
    drafted = with_drafter(target, "eagle3", FullAttention(num_kv_heads=8, k_dim=128, v_dim=128), 1)
    assert (cells(run(target)), cells(run(drafted, drafter="draft"))) == (131072, 135168)


def test_a_separate_drafter_is_charged_the_targets_heads_whatever_it_has() -> None:
    """A 16-layer drafter with half-size heads: 65536 B charged, 32768 B allocated."""
    drafted = with_drafter(llama(), "draft_model", FullAttention(num_kv_heads=8, k_dim=64, v_dim=64), 16)
    found = run(drafted, drafter="draft")
    assert cells(found) == 131072 + 65536
    assert (gib(cache(found, "full").bytes), gib(cache(found, "drafter").bytes)) == (26.67, 6.67)


def test_dflash_is_charged_its_own_rows() -> None:
    drafted = with_drafter(qwen_hybrid(64, 48), "dflash", FullAttention(num_kv_heads=8, k_dim=128, v_dim=128), 5)
    found = run(drafted, drafter="draft", tensor_parallel_size=2, kv_cache_dtype="fp8_e4m3")
    assert cells(run(qwen_hybrid(64, 48), tensor_parallel_size=2, kv_cache_dtype="fp8_e4m3")) == 16384
    assert cells(found) == 21504
    assert found.cache.growing_bytes_per_token == 21504


def test_ngram_costs_nothing() -> None:
    plain, drafting = run(llama()), run(llama(), drafter="ngram", num_speculative_tokens=4)
    assert cells(plain) == cells(drafting) and plain.cache.pool.tokens == drafting.cache.pool.tokens


def test_a_drafter_without_known_weights_is_refused() -> None:
    from onboard.values import replace

    drafted = replace(llama(), drafters=(DrafterRef(name="draft", method="eagle3", num_bytes=None),))
    with pytest.raises(WeightsUnknown):
        run(drafted, drafter="draft")


# --- states ---


def test_state_slots_with_a_drafter() -> None:
    found = run(qwen_hybrid(32, 32), tensor_parallel_size=2, drafter="mtp")
    assert cache(found, "state").num_slots == 436
    assert found.cache.pool.extra["max_running_requests"] == 48
    assert gib(int(found.cache.pool.extra["state_intermediate_ssm_bytes"])) == 4.59


@pytest.mark.parametrize(("version", "slots"), [("0.5.23", 393), ("0.5.9", 394)])
def test_the_padding_slot_is_charged_in_newer_builds(version: str, slots: int) -> None:
    found = run(qwen_hybrid(32, 32), engine=f"sglang@{version}")
    assert cache(found, "state").num_slots == slots
    assert cache(found, "state").bytes == (slots + 1) * 51511296


def test_older_builds_take_a_drafters_states_off_first_and_use_three_slots() -> None:
    """0.5.9: 48 requests x 4 draft tokens off the budget, then the ratio; no extra slots, no padding slot charged."""
    found = run(qwen_hybrid(32, 32), engine="sglang@0.5.9", drafter="mtp")
    rest = 40 * GIB - 48 * 4 * 51511296
    assert cache(found, "state").num_slots == int(rest * 0.9 / 1.9 // 51511296)
    assert run(qwen_hybrid(32, 32), engine="sglang@0.5.9").cache.pool.extra["state_slots_per_request"] == 3
    assert run(qwen_hybrid(32, 32), engine="sglang@0.5.15").cache.pool.extra["state_slots_per_request"] == 5
    pad = next(t for t in found.terms if t.name == "state_padding_slot")
    assert pad.bytes == 51511296 and not pad.inside_budget


def test_older_builds_lengthen_the_pool_by_what_is_drafted() -> None:
    """0.5.2: 48 x (3 + 4) + 100 tokens more than the budget holds; nothing is charged for the drafter."""
    plain, drafting = run(deepseek(), engine="sglang@0.5.2"), run(deepseek(), engine="sglang@0.5.2", drafter="mtp")
    assert cells(plain) == cells(drafting) == 70272
    assert drafting.cache.pool.tokens - plain.cache.pool.tokens == 48 * (3 + 4) + 100


def test_a_logged_state_pool() -> None:
    """Two cards, 9.4799 GiB: 186 slots, 0.10 and 4.38 GiB of state, 2.50 GiB of K."""
    found = run(qwen_hybrid(32, 32), tensor_parallel_size=2, kv_cache_memory_bytes=int(9.4799 * GIB))
    assert cache(found, "state").num_slots == 186
    assert gib(int(found.cache.pool.extra["state_conv_bytes"])) == 0.10
    assert gib(int(found.cache.pool.extra["state_ssm_bytes"])) == 4.38
    assert gib(cache(found, "full").k_bytes) == 2.50


def test_slots_follow_requests_without_a_radix_cache() -> None:
    found = run(qwen_hybrid(32, 32), disable_radix_cache=True, max_num_seqs=10)
    assert cache(found, "state").num_slots == 10 == found.cache.pool.extra["max_running_requests"]
    assert found.cache.one.state == 51511296


def test_given_slots_cap_the_requests() -> None:
    found = run(qwen_hybrid(32, 32), max_mamba_cache_size=12, max_num_seqs=2)
    assert (cache(found, "state").num_slots, found.cache.pool.extra["max_running_requests"]) == (12, 2)
    assert run(qwen_hybrid(32, 32), max_mamba_cache_size=4).reasons[0].kind == "state_slots"


def test_state_dtype_is_float32_unless_stated() -> None:
    assert run(qwen_hybrid(32, 32)).cache.state_bytes_per_sequence == 51511296
    half = run(qwen_hybrid(32, 32), mamba_ssm_cache_dtype="bfloat16").cache.state_bytes_per_sequence
    assert half == 51511296 - 24 * 32 * 128 * 128 * 2
    assert run(qwen_hybrid(32, 32, mamba_ssm_dtype="bfloat16")).cache.state_bytes_per_sequence == half
    with pytest.raises(UsageError):
        run(qwen_hybrid(32, 32), mamba_ssm_cache_dtype="int3")


# --- windows ---


def test_the_worst_case_window_pool() -> None:
    """16 x (127 + 128 + 1 + 1) + 2 x 8192 + 1; the model passes its window of 128 less the current token."""
    found = run(gpt_oss(), disable_radix_cache=True, max_num_seqs=16)
    assert cache(found, "window").num_cells == 16 * (127 + 128 + 1 + 1) + 2 * 8192 + 1 == 20497
    assert found.cache.pool.tokens == (40 * GIB - 20497 * 24576) // 24576
    assert pools.window_request_cap(requests=16, window=128, page=1, chunk=8192, draft_tokens=0, overlap=True) == 20513


def test_one_pool_when_the_window_pool_is_switched_off() -> None:
    found = run(gpt_oss(), disable_hybrid_kv_cache_manager=True)
    assert [c.name for c in found.cache.pool.caches] == ["full"]
    assert cells(found) == 24 * 8 * 128 * 2


def test_a_window_pool_below_its_floor_does_not_start() -> None:
    found = run(gpt_oss(), swa_full_tokens_ratio=0.00005)
    assert found.verdict == "FAIL" and found.reasons[0].kind == "window_pool"


def test_older_builds_divide_one_total() -> None:
    new, old = run(gpt_oss()), run(gpt_oss(), engine="sglang@0.5.9")
    assert new.cache.pool.tokens == 970903
    assert 0 <= new.cache.pool.tokens - old.cache.pool.tokens <= 3
    assert [c.name for c in run(gpt_oss(), engine="sglang@0.4.9").cache.pool.caches] == ["full"]


# --- knobs ---


def test_dp_attention_divides_heads_and_requests() -> None:
    qwen3 = llama(layers=36, context=40960)
    found = run(qwen3, tensor_parallel_size=4, data_parallel_size=2, max_num_seqs=64)
    assert cells(found) == 73728
    assert found.cache.pool.extra["max_running_requests"] == 32
    assert found.resolved.plan.chunked_prefill_size == 4096


def test_kv_heads_are_replicated_and_never_below_one() -> None:
    assert [cells(run(llama(kv_heads=2), tensor_parallel_size=tp)) for tp in (1, 2, 4, 8)] == [
        32768,
        16384,
        16384,
        16384,
    ]


def test_a_latent_cache_is_whole_on_every_card() -> None:
    assert {cells(run(deepseek(), tensor_parallel_size=tp)) for tp in (1, 2, 4, 8)} == {70272}


@pytest.mark.parametrize(
    ("card", "kv", "cell"),
    [
        ("h100-80gb", "auto", 78324),
        ("h100-80gb", "fp8_e4m3", 48068),
        ("b200-180gb", "auto", 61 * (576 + 132)),
        ("h100-80gb", "bf16", 78324),
    ],
)
def test_sparse_latent_rows_by_card(card: str, kv: str, cell: int) -> None:
    sparse = deepseek(index_head_dim=128, index_n_heads=64, index_topk=2048)
    found = run(sparse, card=card, kv_cache_dtype=kv)
    assert cells(found) == cell and found.cache.pool.block_size == 64


@needs_shared
@pytest.mark.wide
def test_public_bug_reports_that_name_sglang() -> None:
    """A report that states no card is asked of one of unknown capability, whose fp8 rows carry no scales."""
    from onboard.yamlio import load

    asked = [
        case
        for case in load(SHARED / "evidence" / "bug_cases.yml")["cases"]
        if (case["input"].get("ask") or {}).get("engine") == "sglang"
    ]
    assert asked
    for case in asked:
        ask, config = case["input"]["ask"], case["input"]["config"]
        profile = derive(config, model_id=case["id"], source=SourceRef(kind="file", name=case["id"]))
        found = run(
            profile, card=None, vram_gib=80.0, kv_cache_dtype=ask["kv_dtype"], tensor_parallel_size=ask.get("tp", 1)
        )
        assert found.cache.growing_bytes_per_token == case["expected"]["kv_bytes_per_token"], case["id"]


def test_an_indexer_on_some_layers_is_charged_on_those() -> None:
    """78 layers, every fourth from the third computes: 78 x 576 + 21 x 132 for raw fp8 rows."""
    glm = model(
        "GlmMoeDsaForCausalLM",
        "glm_moe_dsa",
        num_hidden_layers=78,
        hidden_size=6144,
        num_attention_heads=64,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=192,
        v_head_dim=256,
        q_lora_rank=2048,
        index_head_dim=128,
        index_n_heads=32,
        index_topk=2048,
        index_topk_freq=4,
        index_skip_topk_offset=3,
        intermediate_size=12288,
        max_position_embeddings=202752,
        num_key_value_heads=64,
    )
    assert cells(run(glm, card="b200-180gb", kv_cache_dtype="fp8_e4m3")) == 47700
    assert cells(run(glm, kv_cache_dtype="fp8_e4m3")) == 78 * 656 + 21 * 132 == 53940


@pytest.mark.parametrize(
    ("kv", "bytes_a_value"), [("fp4_mx_block16", 0.5625), ("nvfp4", 0.5625), ("mxfp8", 1.03125), ("fp8_e5m2", 1.0)]
)
def test_formats_with_scales(kv: str, bytes_a_value: float) -> None:
    assert cells(run(llama(), card="b200-180gb", kv_cache_dtype=kv)) == 65536 * bytes_a_value


def test_fp4_latent_rows() -> None:
    assert cells(run(deepseek(), kv_cache_dtype="fp4_mx_block16")) == 61 * 324


@pytest.mark.parametrize(
    ("card", "page"), [("h100-80gb", 1), ("rtx-4090", 1), ("rtx-5090", 1), ("b200-180gb", 64), ("a100-80gb", 1)]
)
def test_default_page_sizes(card: str, page: int) -> None:
    assert run(llama(), card=card).cache.pool.block_size == page
    assert run(qwen_hybrid(32, 32), card=card).cache.pool.block_size == 1


def test_pages_and_caps_floor_the_tokens() -> None:
    assert run(llama(), page_size=16).cache.pool.tokens % 16 == 0
    assert run(llama(), max_total_tokens=1000, page_size=16).cache.pool.tokens == 992
    assert (
        cache(run(llama(), page_size=16), "full").num_cells + 16
        == cache(run(llama(), page_size=16), "full").k_bytes // 65536
    )


def test_the_request_table_stands_outside_the_budget() -> None:
    found = run(llama(context=40960, layers=36))
    table = next(t for t in found.terms if t.name == "request_table")
    assert table.bytes == (3640 + 1) * (40960 + 4) * 4 and not table.inside_budget


def test_pipeline_stages_share_the_layers() -> None:
    assert [len(s) for s in stages(62, 4)] == [15, 16, 16, 15]
    assert cells(run(llama(), pipeline_parallel_size=4)) == 131072 // 4


# --- verdicts ---


def test_a_pool_below_the_context_starts_and_is_tight() -> None:
    found = run(llama(), kv_cache_memory_bytes=GIB)
    assert found.verdict == "TIGHT" and found.reasons[0].kind == "tokens"
    assert found.cache.max_model_len_that_fits == found.cache.pool.tokens == 8192
    assert any(n.kind == "pool-below-context" for n in found.notes)


@pytest.mark.parametrize(
    ("name", "budget", "length", "knob"),
    [
        ("gpt_oss", 4, 131072, "swa_full_tokens_ratio"),
        ("qwen", 4, 100000, "max_mamba_cache_size"),
        ("gpt_oss", 2, 131072, None),
        ("qwen", 2, 200000, None),
        ("llama", 1, 131072, None),
    ],
)
def test_another_split_of_the_budget_is_named_where_it_holds(
    name: str, budget: int, length: int, knob: str | None
) -> None:
    profile = {"gpt_oss": gpt_oss, "qwen": lambda: qwen_hybrid(32, 32), "llama": llama}[name]()
    knobs: dict[str, Any] = {"kv_cache_memory_bytes": budget * GIB, "max_model_len": length}
    found = run(profile, **knobs)
    assert found.verdict == "TIGHT"
    hints = [n.message.split()[-2:] for n in found.notes if n.kind == "next-step"]
    assert [flag.strip("-").replace("-", "_") for flag, _ in hints] == ([knob] if knob else [])
    if knob:
        value = float(hints[0][1])
        assert run(profile, **knobs, **{knob: int(value) if value.is_integer() else value}).verdict == "PASS"


@pytest.mark.parametrize(
    ("knobs", "kind"),
    [
        ({"kv_cache_memory_bytes": 0}, "memory"),
        ({"kv_cache_memory_bytes": 1000}, "memory"),
        ({"tensor_parallel_size": 3}, "tp"),
        ({"tensor_parallel_size": 4, "data_parallel_size": 3}, "tp"),
        ({"kv_cache_dtype": "nvfp4"}, "kv_dtype"),
        ({"kv_cache_dtype": "mxfp8"}, "kv_dtype"),
        ({"kv_cache_dtype": "fp16"}, "kv_dtype"),
        ({"kv_cache_dtype": "q8_0"}, "kv_dtype"),
        ({"kv_cache_dtype": "turboquant_k8v4"}, "kv_dtype"),
        ({"kv_cache_memory_bytes": None, "weights_gb": 90.0}, "memory"),
    ],
)
def test_what_keeps_it_from_starting(knobs: dict[str, Any], kind: str) -> None:
    found = run(llama(), **knobs)
    assert found.verdict == "FAIL" and kind in [r.kind for r in found.reasons]


def test_sparse_latent_attention_takes_two_formats() -> None:
    sparse = deepseek(index_head_dim=128, index_n_heads=64, index_topk=2048)
    assert run(sparse, kv_cache_dtype="fp8_e5m2").reasons[0].kind == "kv_dtype"
    assert run(deepseek(), kv_cache_dtype="fp8_e5m2").reasons == ()


@pytest.mark.parametrize(("version", "starts"), [("0.5.2", False), ("0.5.9", True), ("0.5.23", True)])
def test_sparse_attention_came_after_its_first_releases(version: str, starts: bool) -> None:
    sparse = deepseek(index_head_dim=128, index_n_heads=64, index_topk=2048)
    assert (run(sparse, engine=f"sglang@{version}").verdict != "FAIL") is starts


def test_a_hybrid_without_a_model_does_not_start() -> None:
    jamba = model(
        "JambaForCausalLM",
        "jamba",
        num_hidden_layers=8,
        hidden_size=4096,
        num_attention_heads=32,
        num_key_value_heads=8,
        attn_layer_period=8,
        attn_layer_offset=4,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=16,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_dt_rank=256,
        intermediate_size=14336,
        max_position_embeddings=262144,
    )
    assert run(jamba).reasons[0].kind == "architecture"


@pytest.mark.parametrize(
    "knob", [{"gpu_memory_utilization": 0.9}, {"block_size": 16}, {"ubatch_size": 512}, {"n_gpu_layers": 3}]
)
def test_knobs_of_other_engines_are_refused(knob: dict[str, Any]) -> None:
    with pytest.raises(UnknownKnob):
        run(llama(), **knob)


def test_a_request_table_larger_than_the_slack_does_not_start() -> None:
    """2048 requests of ten million tokens are 80 GiB of table, whatever the pool."""
    long = llama(context=10 * 2**20)
    found = run(long, kv_cache_memory_bytes=None, weights_gb=16.0)
    assert found.verdict == "FAIL" and [r.kind for r in found.reasons] == ["free_memory"]
    assert run(long, kv_cache_memory_bytes=None, weights_gb=16.0, max_num_seqs=8).verdict == "TIGHT"
    assert run(long, weights_gb=16.0).verdict == "TIGHT"


def test_names_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UnknownKvFormat):
        run(llama(), kv_cache_dtype="fp7")
    with pytest.raises(UnknownEngine):
        run(llama(), engine="sglang@0.3.0")


def test_the_fraction_sets_the_budget() -> None:
    """0.85 of what is free before weights, less the weights."""
    found = run(llama(), kv_cache_memory_bytes=None, weights_gb=16.06, card="rtx-3090", mem_fraction_static=0.85)
    weights = next(t.bytes for t in found.terms if t.name == "weights")
    assert found.cache.pool.tokens == (found.budget_bytes - weights) // 131072
    assert found.reserved_bytes <= found.budget_bytes < 0.85 * found.resolved.card.usable_bytes


# --- laws ---

HEADS = st.sampled_from([1, 2, 4, 8, 16, 32])
SIZES = st.integers(0, 200 * GIB)


@settings(max_examples=60, deadline=None)
@given(
    budget=SIZES,
    heads=HEADS,
    tp=st.sampled_from([1, 2, 4, 8]),
    page=st.sampled_from([1, 16, 64]),
    seqs=st.integers(1, 64),
)
def test_pools_stay_within_their_budget_and_terms_add_up(
    budget: int, heads: int, tp: int, page: int, seqs: int
) -> None:
    found = run(
        llama(kv_heads=heads), kv_cache_memory_bytes=budget, tensor_parallel_size=tp, page_size=page, max_num_seqs=seqs
    )
    assert found.cache.pool.bytes <= budget
    assert found.cache.pool.tokens % page == 0
    assert found.needed_bytes == sum(t.bytes for t in found.terms)
    parts = sum(t.bytes for t in found.terms if t.name in ("kv_growing", "kv_window", "state", "kv_padding"))
    assert parts == seqs * found.cache.one.total
    assert (found.verdict == "PASS") == (seqs * -(-131072 // page) * page <= found.cache.pool.tokens)


@settings(max_examples=60, deadline=None)
@given(budget=SIZES, ratio=st.floats(0.01, 1.0), page=st.sampled_from([1, 16, 64]), by_total=st.booleans())
def test_two_pools_share_one_budget(budget: int, ratio: float, page: int, by_total: bool) -> None:
    full, window = 8192, 163840
    tokens = pools.two_pools(budget, full, window, ratio, page, by_total=by_total, limit=None)
    assert tokens.full * full + tokens.window * window <= budget
    assert tokens.full % page == tokens.window % page == 0
    assert tokens.window <= (tokens.full + (page if by_total else 0)) * ratio


@settings(max_examples=100, deadline=None)
@given(
    budget=st.integers(10 * GIB, 200 * GIB),
    slot=st.integers(10**6, 10**9),
    ratio=st.floats(0.05, 5),
    draft=st.integers(0, 16),
)
def test_states_and_what_they_leave_make_the_budget(budget: int, slot: int, ratio: float, draft: int) -> None:
    ask = pools.StateAsk(slot_bytes=slot, ratio=ratio, slots_per_request=5, draft_tokens=draft, requests=48)
    found = pools.state_pool(budget, ask)
    spent = found.charged_bytes + found.speculative_bytes
    assert abs(budget - spent - found.rest_gib * GIB) < 1024
    if found.slots > 0:
        assert spent <= budget * ratio / (1 + ratio) + slot * (1 + draft)
