"""Quantisation while loading, and every set of weights side by side."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from calc.in_flight import LINEAR, RULES, quantised
from calc.plan import Plan
from calc.predict import predict
from onboard.errors import UnknownKnob, UsageError
from onboard.open import load_profile
from onboard.profile import Profile
from onboard.values import replace
from tests.commands import call
from tests.weights_rule import by_rule, profile_of

QWEN = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 36, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
    "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
EMBEDDINGS = 2 * 151936 * 4096
LINEARS = 36 * (4096 * 128 * (32 + 8 + 8 + 32) + 3 * 4096 * 12288)


def weights(profile: Profile, **knobs: Any) -> tuple[int, int, int]:
    plan = Plan(card="h100-80gb", max_model_len=4096, **knobs)
    (term,) = [t for t in predict(profile, plan).terms if t.name == "weights"]
    return term.low, term.bytes, term.high


@pytest.mark.parametrize(
    ("method", "bits"), [("bitsandbytes", Fraction(9, 2)), ("fp8", Fraction(8)), ("mxfp8", Fraction(33, 4))]
)
def test_linear_layers_shrink_and_nothing_else(method: str, bits: Fraction) -> None:
    low, size, high = weights(profile_of(QWEN), quantization=method)
    expected = 2 * EMBEDDINGS + LINEARS * bits / 8
    assert abs(size / expected - 1) < 0.001
    assert low < expected < high


def test_no_method_makes_a_group_larger_or_touches_what_is_not_linear() -> None:
    profile = profile_of({**QWEN, "model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 768})
    before = by_rule(profile)
    for method in RULES:
        after = quantised(profile, before, method)
        for old, new in zip(before.groups, after.groups, strict=True):
            assert new.num_bytes <= old.num_bytes and new.num_elements == old.num_elements
            assert new == old or old.kind in LINEAR
        assert after.num_bytes < before.num_bytes


def test_a_packed_checkpoint_is_left_as_it_is_or_refused() -> None:
    profile = load_profile("qwen3.6-27b")
    plan = Plan(card="h100-80gb", max_model_len=4096)
    assert predict(profile, replace(plan, quantization="compressed-tensors")).terms == predict(profile, plan).terms
    packed = profile_of({**QWEN, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}})
    refused = predict(packed, replace(plan, quantization="bitsandbytes"))
    assert refused.verdict == "FAIL" and refused.reasons[0].kind == "quantization"


def test_unknown_methods_and_engines_without_the_knob() -> None:
    profile = profile_of(QWEN)
    with pytest.raises(UsageError, match="no rule for --quantization q9"):
        weights(profile, quantization="q9")
    with pytest.raises(UnknownKnob):
        weights(profile, quantization="fp8", engine="llamacpp")


def test_every_set_of_weights_side_by_side(tmp_path: Path) -> None:
    line = ["table", "qwen3.6-27b", "--all-weights", "--card", "rtx-3090", "--tp", "2", "--max-ctx", "32768"]
    rows = call(*line, "--json", cwd=tmp_path, program="calc").json["rows"]
    profile = load_profile("qwen3.6-27b")
    assert [r["weights"] for r in rows] == [v.name for v in profile.weights]
    for row in rows:
        longest = row["max_model_len_that_fits"]
        assert (row["verdict"] == "FAIL") == (longest < 32768)
    assert "longest context" in call(*line, cwd=tmp_path, program="calc").out


def test_what_fits_instead_is_named(tmp_path: Path) -> None:
    profile = load_profile("qwen3.6-27b")
    rows = {v.name: v.num_bytes for v in profile.weights}
    heaviest = max(rows, key=lambda n: rows[n])
    line = ["predict", profile.id, "--weights", heaviest, "--card", "rtx-3090", "--tp", "2", "--max-ctx", "8192"]
    done = call(*line, cwd=tmp_path, program="calc")
    assert done.code == 1
    assert f"--weights {profile.default_weights}" in done.out
