"""Every shipped deployment is usable as `--compose`: its options are plan options and its names exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import call

from calc.plan import Plan
from onboard import catalog
from onboard.catalog_paths import shipped
from onboard.values import fields

MODELS = sorted(p.stem for p in shipped("profiles").glob("*.yaml"))
KNOBS = {f.name for f in fields(Plan)}
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
    assert found == {name: round(size * 10**9) for name, size in SIZES[model_id].items()}


@pytest.mark.parametrize("model_id", MODELS)
def test_each_is_answered(model_id: str, tmp_path: Path) -> None:
    for one in catalog.effective(model_id).deployments:
        done = call(
            "predict", model_id, "--compose", one.name, "--card", "rtx-3090", "--json", cwd=tmp_path, program="calc"
        )
        assert done.code in (0, 1), (one.name, done.out, done.err)
        answer = done.json
        for name, value in one.options.items():
            if name not in ("drafter", "weights", "kv_cache_dtype"):
                assert answer["plan"][name] == value, (one.name, name)
