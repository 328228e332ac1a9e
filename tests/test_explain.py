"""Every line of --explain can be redone from its text: exact integers or constants in full, units stated."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from calc.arithmetic import line_of
from calc.plan import Plan
from calc.predict import predict
from calc.report import rule_line
from onboard.open import load_profile
from onboard.profile import Profile
from tests.redo import redone
from tests.tiny_model import CONFIG

MODELS = ("qwen3.6-27b", "qwen3.6-35b-a3b", "gemma-4-31b", "gemma-4-26b-a4b")
PLANS = {
    "vllm": Plan(card="rtx-3090", tensor_parallel_size=2),
    "vllm one card, three sequences": Plan(card="h100-80gb", max_num_seqs=3, max_model_len=50_001),
    "vllm fp8, drafts, adapters": Plan(
        card="h100-80gb", tensor_parallel_size=2, kv_cache_dtype="fp8", max_loras=2, num_speculative_tokens=2
    ),
    "vllm 0.19": Plan(engine="vllm@0.19", card="rtx-3090", tensor_parallel_size=2, pipeline_parallel_size=2),
    "vllm, a total given": Plan(card="rtx-3090", weights_gb=17.3, tensor_parallel_size=2, language_model_only=True),
    "sglang": Plan(engine="sglang", card="h100-80gb"),
    "sglang TP 2, two sequences": Plan(engine="sglang", card="rtx-3090", tensor_parallel_size=2, max_num_seqs=2),
    "llamacpp": Plan(engine="llamacpp", card="rtx-3090", max_model_len=10_000),
    "llamacpp, two cards, three slots, q8_0": Plan(
        engine="llamacpp", card="rtx-3090", gpus=2, max_num_seqs=3, max_model_len=100_000, cache_type_k="q8_0",
        weights_gb=17.5,
    ),
}  # fmt: skip
LINE = re.compile(r"(?P<estimate>estimate: )?(?:(?P<left>.+) = )?(?P<size>[\d,]+) B(?:; (?P<remark>.+))?")
#: A graph replayed through an allocator has no line of arithmetic; its line says so.
REPLAYED = "no line of arithmetic"


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
@pytest.mark.parametrize("model", MODELS)
def test_lines_can_be_redone_by_hand(model: str, plan: Plan) -> None:
    check(load_profile(model), plan)


def check(profile: Profile, plan: Plan) -> None:
    """Every line that would be printed gives its term from its text; the sum of several sequences rounds once each."""
    for term in predict(profile, plan).terms:
        if not term.bytes and term.low == term.high:
            continue  # not printed
        found = LINE.fullmatch(rule_line(term))
        assert found, (term.name, term.rule)
        assert int(found["size"].replace(",", "")) == term.bytes
        assert bool(found["estimate"]) == (term.low != term.high), (term.name, term.rule)
        if not found["left"]:
            assert REPLAYED in (found["remark"] or ""), (term.name, term.rule)
            continue
        assert abs(redone(found["left"]) - term.bytes) < (plan.max_num_seqs or 1), (term.name, term.rule)


BERT: dict[str, Any] = {
    "model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": 4, "hidden_size": 64,
    "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}  # fmt: skip
EXPERTS: dict[str, Any] = {
    **CONFIG, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 64,
}  # fmt: skip


@pytest.mark.parametrize("engine", ["vllm", "vllm@0.11", "sglang", "llamacpp", "llamacpp without flash attention"])
@pytest.mark.parametrize("config", [CONFIG, EXPERTS, BERT], ids=lambda c: c["model_type"])
def test_lines_of_weights_by_rule_can_be_redone(config: dict[str, Any], engine: str, tmp_path: Path) -> None:
    """Weights counted tensor by tensor, whatever divides, replicates or places them."""
    (tmp_path / "config.json").write_text(json.dumps(config))
    profile = load_profile(str(tmp_path / "config.json"))
    name, _, off = engine.partition(" without ")
    spread: dict[str, Any] = {"gpus": 2} if name == "llamacpp" else {"tensor_parallel_size": 2}
    spread |= {"flash_attn": "off"} if off else {}
    check(profile, Plan(engine=name, card="rtx-3090", max_model_len=500, max_num_seqs=2, **spread))


def test_a_wrong_line_is_found() -> None:
    assert redone("(0.05 + 2 layers x 0.5) GiB") == 1.05 * 2**30
    assert redone("16 full layers x 2,048 B a token [of K and V] x min(3 + 4, 5) tokens / TP 2") == 16 * 2048 * 5 / 2
    assert redone("ceil(10 tokens / 4) x q8_0 34 B") == 102
    with pytest.raises((AssertionError, SyntaxError, KeyError)):
        redone("30 MiB and 2 layers")


def test_a_result_stands_behind_its_arithmetic_and_before_remarks() -> None:
    assert line_of("2 x 4 B; two", 8) == "2 x 4 B = 8 B; two"
    assert line_of("; replayed", 8) == "8 B; replayed"
