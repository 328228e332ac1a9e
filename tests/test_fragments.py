"""Fragments of configs in the many spellings of published models (tests/data/fragment_cases.json), by hand arithmetic.

Most leave out what a whole file has: the type, widths, a vocabulary, a list of kinds. Expected figures are elements,
or counts of layers by kind; `refuse` means that no layout may be given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calc import Plan, predict
from onboard.errors import Refusal
from tests.deriving import profile_of

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "fragment_cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_a_fragment(case: dict[str, Any]) -> None:
    expected = case["expected"]
    if "refuse" in expected:
        with pytest.raises(Refusal):
            profile_of(case["config"])
        return
    profile = profile_of(case["config"])
    said = profile.to_json()
    found = {**said["num_layers"], **said["cache"]}
    assert {key: found[key] for key in expected} == expected
    if not (case["config"].get("model_type") or case["config"].get("architectures")):
        assert any(w.kind == "no-model-type" or "model_type" in w.where for w in profile.warnings)
    if said["cache"]["state_elements_per_sequence"] is None:
        return
    for engine in ("vllm", "sglang", "llamacpp"):  # an answer, whatever the verdict
        prediction = predict(profile, Plan(engine=engine, vram_gib=9000, weights_gb=1, max_model_len=256))
        assert prediction.needed_bytes >= 10**9


def test_what_no_field_says_is_said() -> None:
    """A window without a pattern, a typeless family, and widths that estimates need."""
    windowed = profile_of({"num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 64, "sliding_window": 16})
    assert any("no field says which layers slide" in w.message for w in windowed.warnings)
    gemma = profile_of({"num_hidden_layers": 6, "num_key_value_heads": 2, "head_dim": 64, "sliding_window": 16,
                        "num_global_key_value_heads": 1})  # fmt: skip
    assert any(w.kind == "no-model-type" and "gemma4_text" in w.message for w in gemma.warnings)
    assert gemma.fact("hidden_size") is None
    assert gemma.weights == ()
    prediction = predict(windowed, Plan(engine="vllm", vram_gib=80, weights_gb=1, max_model_len=256))
    assert any(n.kind == "not-stated" and "hidden_size and vocab_size" in n.message for n in prediction.notes)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1, True, "32", [1], 1e300])
def test_a_towers_size_that_is_none(bad: object) -> None:
    """Weights are then counted without it, or unknown; nothing raises."""
    config = {"model_type": "qwen2_vl", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 4,
              "vocab_size": 1000, "vision_config": {"depth": bad, "embed_dim": bad, "hidden_size": bad}}  # fmt: skip
    assert len(profile_of(config).layers) == 4


def test_a_dense_model_of_a_class_with_experts_has_none() -> None:
    dense = {"model_type": "nemotron_h", "num_hidden_layers": 4, "hybrid_override_pattern": "M-*-"}
    assert profile_of(dense).to_json()["num_experts"] is None
    assert profile_of({**dense, "hybrid_override_pattern": "MEM*"}).to_json()["num_experts"] == 8
    listed = {**dense, "hybrid_override_pattern": None, "layers_block_type": ["mamba", "mlp", "attention", "mlp"]}
    assert profile_of(listed).to_json()["num_experts"] is None
    even = {"num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 64, "num_experts": 4, "moe_topk": [2, 2]}
    assert profile_of(even).to_json()["num_experts_per_token"] == 2


def test_lists_that_hold_no_numbers() -> None:
    """Found by fuzzing: an unhashable entry of an indexer's list, and no number of query heads."""
    sparse = {"num_hidden_layers": 2, "kv_lora_rank": 64, "qk_rope_head_dim": 16, "index_head_dim": 16}
    with pytest.raises(Refusal, match="indexer_types"):
        profile_of({**sparse, "indexer_types": [{}, {}]})
    step = {"model_type": "laguna", "num_hidden_layers": 2, "num_attention_heads_per_layer": [None, 4]}
    assert len(profile_of(step).layers) == 2
