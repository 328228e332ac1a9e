"""Every shipped deployment is usable as `--compose`: its options are plan options and its names exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from calc.plan import Plan
from calc.predict import predict
from onboard import catalog
from onboard.catalog_paths import shipped
from onboard.values import fields
from tests.commands import call

MODELS = sorted(p.stem for p in shipped("profiles").glob("*.yaml"))
KNOBS = {f.name for f in fields(Plan)}
MEASURED = {  # bytes where an engine or a listing contradicts the specification's 18 and 17 GB (docs/differences.md)
    "gemma-4-31b": {"autoround-int4": 21_200_000_000, "awq": 24_223_615_549},
}
SIZES = {  # the specification's, in 10^9 bytes
    "qwen3.6-27b": {"autoround-int4": 17.5},
    "qwen3.6-35b-a3b": {"autoround-int4": 20, "gptq-int4": 22, "bf16": 70},
    "gemma-4-31b": {"autoround-int4": 18, "awq": 17, "bf16": 58},
    "gemma-4-26b-a4b": {"autoround-int4-mixed": 14.5, "autoround-int4": 13, "awq": 13.5, "bf16": 52},
}


@pytest.mark.parametrize("model_id", MODELS)
def test_deployments_name_what_exists(model_id: str) -> None:
    profile = catalog.effective(model_id)
    assert profile.deployments
    variants = {w.name for w in profile.weights}
    drafters = {d.name for d in profile.drafters} | {"mtp"}
    for one in profile.deployments:
        assert set(one.options) <= KNOBS, one.name
        assert one.options["weights"] in variants, one.name
        assert one.options.get("drafter", "mtp") in drafters, one.name
    assert profile.default_weights in variants


@pytest.mark.parametrize("model_id", MODELS)
def test_the_specifications_sizes(model_id: str) -> None:
    found = {w.name: w.num_bytes for w in catalog.effective(model_id).weights if w.origin == "override"}
    stated = {name: round(size * 10**9) for name, size in SIZES[model_id].items()}
    assert found == {**stated, **MEASURED.get(model_id, {})}


def test_a_measured_load_is_what_the_engine_logged() -> None:
    """vLLM 0.19.1 logged 22.56 GiB for this checkpoint on one card; the document's figure stays in the reason."""
    outcome = next(o for o in catalog.load("gemma-4-31b").outcomes if o.path == "weights.awq")
    assert "17 GB" in outcome.why and "22.56 GiB" in outcome.why
    plan = Plan(card="a100-80gb", max_model_len=8192, weights="awq")
    term = next(t for t in predict(catalog.effective("gemma-4-31b"), plan).terms if t.name == "weights")
    assert round(term.bytes / 2**30, 2) == 22.56


@pytest.mark.parametrize("model_id", MODELS)
def test_each_is_answered(model_id: str, tmp_path: Path) -> None:
    for one in catalog.effective(model_id).deployments:
        done = call(
            "predict", model_id, "--compose", one.name, "--card", "rtx-3090", "--json", cwd=tmp_path, program="calc"
        )
        assert done.code in (0, 1), (one.name, done.out, done.err)
        answer = done.json
        named = one.options.get("engine", "vllm@").partition("@")
        assert answer["engine"]["name"] == named[0] and answer["engine"]["version"].startswith(named[2])
        assert any(n["kind"] == "compose" and n["message"].startswith(one.name) for n in answer["notes"])
        for name, value in one.options.items():
            if name not in ("drafter", "weights", "kv_cache_dtype", "engine"):
                assert answer["plan"][name] == value, (one.name, name)


def test_a_diff_pastes_well(tmp_path: Path) -> None:
    """Sizes in GB and plain words in the cells, links that a browser opens."""
    text = call("diff", "gemma-4-31b", "--format", "markdown", cwd=tmp_path).out
    rows = text.splitlines()
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
    assert "| weights.awq | - | 24.22 GB, awq-int4 | 24.22 GB, awq-int4 | active |" in text and "{" not in text
    for target in (part.split(")")[0] for part in text.split("([link](")[1:]):
        assert target.startswith("https://") and " " not in target, target
