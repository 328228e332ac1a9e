"""What one card holds: vLLM's own numbers on a fresh machine, boot logs, and laws of the split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.plan import Plan
from calc.shard import RULES, Split, card_bytes, fullest_stage, served, split_of, stage_layers
from calc.totals import total_term
from calc.weights import variant_term, weights_term
from onboard.errors import WeightsUnknown
from onboard.profile import Profile, TensorGroup
from onboard.values import replace
from onboard.yamlio import load_text
from tests.redo import redone
from tests.shared import SHARED, needs_shared
from tests.test_weights_cases import resolved
from tests.weights_rule import by_rule, on_card, profile_of, read_config

RANK_0: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data/weights/vllm_rank0.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", RANK_0)
def test_vllm_rank_0(name: str) -> None:
    profile = profile_of(RANK_0[name]["config"], name)
    for tp, want in RANK_0[name]["bytes"].items():
        assert on_card(profile, int(tp)) == pytest.approx(want, rel=0.01)


def test_a_tied_k_fills_the_v_slot_too() -> None:
    """vLLM holds 110,100,480 elements more of Gemma 4 31B than one K=V matrix a global layer would take."""
    profile = profile_of(RANK_0["google__gemma-4-31B-it"]["config"])
    tied = [g for g in by_rule(profile).groups if g.kind == "kv_tied"]
    stored = sum(g.num_bytes * g.copies for g in tied)
    assert stored == 2 * 110_100_480
    assert sum(card_bytes(g, Split()) * g.copies for g in tied) - stored == 2 * 110_100_480
    assert sum(card_bytes(g, Split(keeps_tied_k=True)) * g.copies for g in tied) == stored


# --- boots ----------------------------------------------------------------------------------------------------

LLAMA_3 = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "head_dim": 128,
           "num_key_value_heads": 8, "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}  # fmt: skip
GEMMA_27B = {"hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 16,
             "num_hidden_layers": 62, "head_dim": 128}  # fmt: skip
# Row -> a corpus config, and what its text model has otherwise (published geometry of the sibling that booted).
BOOTS: dict[str, tuple[str | dict[str, Any], dict[str, Any]]] = {
    **dict.fromkeys(("v01", "v02", "v03"), (LLAMA_3, {"hidden_size": 4096, "num_hidden_layers": 32,
                    "num_attention_heads": 32, "intermediate_size": 14336})),
    "v06": (LLAMA_3, {"hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24,
                      "intermediate_size": 8192, "tie_word_embeddings": True}),
    "v10": ("Qwen__Qwen3-8B", {}),
    "v12": ("Qwen__Qwen3-8B", {"hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 40,
                               "intermediate_size": 17408}),
    "v27": ("Qwen__Qwen2.5-0.5B", {}),
    "v28": ("MiniMaxAI__MiniMax-M2.5", {}),
    **dict.fromkeys(("m03", "m04", "m05", "m08"), ("nvidia__GLM-5.1-NVFP4", {})),
    "s02": ("google__gemma-3-12b-it", {"text_config": GEMMA_27B}),
    **dict.fromkeys(("s11", "s12"), ("google__gemma-4-26B-A4B-it", {})),
    "h17": ("Qwen__Qwen3.6-35B-A3B", {}),
}  # fmt: skip
UNTESTED = {
    "v30": "the logged load is an eighth of the model, the row says four cards",
    "s03": "a third party's int4 whose groups and ignored modules are not stated",
    "s04": "as s03",
    "s10": "no config of this model in the corpus",
    "h01": "as s10", "h04": "the format is not stated", "h07": "the format is not stated",
    "h28": "as s10, and a drafter",
    **dict.fromkeys(("h19", "h21", "h22", "h23"), "a third party's NVFP4, ignored modules not stated, and a drafter"),
}  # fmt: skip


@needs_shared
@pytest.mark.wide
def test_loads_that_boots_printed() -> None:
    rows = load_text((SHARED / "evidence/boot_logs.yml").read_text(encoding="utf-8"), "boot_logs.yml")["rows"]
    loads = {r["id"]: r for r in rows if "load_gib" in (r.get("logged") or {}) and r["engine"].startswith("vllm")}
    assert set(loads) == set(BOOTS) | set(UNTESTED)
    for row, (base, changes) in BOOTS.items():
        config = dict(base) if isinstance(base, dict) else read_config(SHARED / "corpus" / base / "config.json")
        for key, value in changes.items():
            config[key] = {**config[key], **value} if isinstance(value, dict) else value
        profile, tp = profile_of(config, row), loads[row]["tp"]
        got = on_card(profile, tp)
        if str(loads[row].get("spec", "")).startswith("mtp"):
            draft = [g for g in by_rule(profile).groups if g.part == "mtp" and served(g, drafts=True)]
            got += sum(card_bytes(g, Split(tp=tp)) * g.copies for g in draft)
        assert got / 2**30 == pytest.approx(loads[row]["logged"]["load_gib"], rel=0.03), row


# --- laws ----------------------------------------------------------------------------------------------------

groups = st.builds(
    TensorGroup,
    role=st.sampled_from(sorted(RULES)),
    num_bytes=st.integers(1, 10**9),
    num_elements=st.just(0),
    dtype=st.sampled_from(["bf16", "u8"]),
    layers=st.sampled_from([(), (0,), (0, 1, 2, 3)]),
    num_units=st.integers(0, 300),
)


@given(groups, st.integers(1, 64))
def test_no_card_holds_less_than_its_part_or_more_than_the_whole(group: TensorGroup, tp: int) -> None:
    held = card_bytes(group, Split(tp=tp))
    whole = card_bytes(group, Split())
    if group.kind == "tied_copy":
        assert held == 0
    else:
        assert whole / tp <= held + 1
        assert held <= whole + 1


@given(st.lists(groups, min_size=1, max_size=8), st.integers(1, 4))
def test_stages_hold_everything(made: list[TensorGroup], pp: int) -> None:
    whole = fullest_stage(tuple(made), Split(), 4)
    fullest = fullest_stage(tuple(made), Split(pp=pp), 4)
    assert fullest <= 2 * whole and fullest * pp >= whole


@given(st.integers(1, 200), st.integers(1, 16))
def test_every_layer_has_one_stage(count: int, pp: int) -> None:
    stages = stage_layers(count, pp)
    assert [i for s in stages for i in s] == list(range(count))
    assert max(map(len, stages)) - min(map(len, stages)) <= 1


def test_stages_leave_the_rest_before_the_last() -> None:
    assert [len(s) for s in stage_layers(61, 4)] == [15, 15, 16, 15]
    assert [len(s) for s in stage_layers(62, 4)] == [15, 16, 16, 15]


def test_towers_are_dropped_when_told() -> None:
    profile = profile_of(RANK_0["Qwen__Qwen3.6-35B-A3B"]["config"])
    text = on_card(profile, 1, language_model_only=True)
    tower = sum(g.num_bytes * g.copies for g in by_rule(profile).groups if g.part == "vision")
    assert 800 * 10**6 < tower < 10**9
    assert on_card(profile, 1) - text == tower


def test_kv_heads_are_replicated_beyond_their_number() -> None:
    group = TensorGroup(role="kv_proj", num_bytes=8000, num_elements=4000, dtype="bf16", num_units=8)
    assert [card_bytes(group, Split(tp=tp)) for tp in (1, 4, 8, 16, 64)] == [8000, 2000, 1000, 1000, 1000]


def test_vocabulary_is_padded_to_64() -> None:
    group = TensorGroup(
        role="embedding", num_bytes=51865 * 2560, num_elements=51865 * 1280, dtype="bf16", num_units=51865
    )
    assert card_bytes(group, Split()) == 51904 * 2560
    assert card_bytes(group, Split(tp=2)) == 51904 // 2 * 2560


def test_the_rule_can_be_redone_by_hand() -> None:
    profile = profile_of(RANK_0["Qwen__Qwen3-8B"]["config"])
    term = weights_term(profile, resolved(Plan(tensor_parallel_size=2)))
    assert redone(term.rule.partition("; ")[0]) == term.bytes
    assert term.origin == "parameters" and term.low < term.bytes < term.high


def test_a_total_from_the_user_is_divided() -> None:
    profile = profile_of(RANK_0["Qwen__Qwen3-8B"]["config"])
    plan = Plan(weights_gb=17.5, tensor_parallel_size=2, pipeline_parallel_size=2)
    assert weights_term(profile, resolved(plan)).bytes == 4_375_000_000


def test_nothing_known_is_refused() -> None:
    known = profile_of(RANK_0["Qwen__Qwen3-8B"]["config"])
    unknown = Profile(
        id="m", source=known.source, model_type="x", architectures=(), layers=known.layers, facts=known.facts
    )
    with pytest.raises(WeightsUnknown, match="not known") as refused:
        weights_term(unknown, resolved(Plan()))
    assert "--weights-gb" in refused.value.hint and refused.value.exit_code == 3
    with pytest.raises(WeightsUnknown, match="int2"):
        weights_term(known, resolved(Plan(weights="int2")))


def test_a_total_is_divided_with_what_stays_whole() -> None:
    """Gemma 4's tower is whole on every card; a total alone is split around it, and says so."""
    profile = profile_of(RANK_0["google__gemma-4-31B-it"]["config"])
    tower = sum(g.num_bytes * g.copies for g in by_rule(profile).groups if g.part == "vision")
    terms = {
        tp: total_term(profile, 22 * 10**9, Split(tp=tp), origin="listing", where="files", error_ppm=1000)
        for tp in (1, 2, 4)
    }
    assert terms[1].bytes == 22 * 10**9
    assert (22 * 10**9 - tower) / 2 + tower == pytest.approx(terms[2].bytes, rel=1e-3)
    assert terms[2].low < terms[2].bytes < terms[2].high
    assert abs(redone(terms[4].rule.partition("; ")[0]) - terms[4].bytes) < 1
    text = total_term(profile, 22 * 10**9, Split(tp=2), origin="listing", where="files", text_only=True)
    assert terms[2].bytes - text.bytes == tower


# --- data parallelism -----------------------------------------------------------------------------------------------

MOE = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 48, "hidden_size": 2048,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936,
    "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
Q_AND_O, K_AND_V = 48 * 2 * 2 * 2048 * 4096, 48 * 2 * 2 * 2048 * 512
EXPERTS, EMBEDDING = 48 * 128 * 3 * 2 * 2048 * 768, 2 * 151936 * 2048


def parts(**knobs: Any) -> int:
    """Bytes of weights on a card beyond the norms and routers."""
    profile = profile_of(MOE)
    plan = Plan(**knobs)
    split = split_of(replace(resolved(plan), engine=plan.engine))
    whole = sum(g.num_bytes * g.copies for g in by_rule(profile).groups if g.kind in ("norm", "router"))
    return variant_term(profile, by_rule(profile), split).bytes - whole


def test_dp_attention_divides_the_experts_but_not_the_attention() -> None:
    got = parts(engine="sglang", tensor_parallel_size=8, data_parallel_size=4)
    assert got == pytest.approx((Q_AND_O + K_AND_V) // 2 + EXPERTS // 8 + EMBEDDING + EMBEDDING // 8, rel=1e-6)


def test_data_parallel_ranks_share_the_experts() -> None:
    for ep in (False, True):
        got = parts(tensor_parallel_size=2, data_parallel_size=4, enable_expert_parallel=ep)
        assert got == pytest.approx((Q_AND_O + K_AND_V) // 2 + EXPERTS // 8 + EMBEDDING, rel=1e-6)
