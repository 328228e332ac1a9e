"""Recurrent, hybrid, compressed and looped models against what vLLM and transformers kept."""

from __future__ import annotations

import json
from collections import Counter
from math import prod
from typing import Any

import pytest

from onboard.derive import derive
from onboard.layers import CacheSpec
from onboard.profile import Profile, SourceRef
from onboard.states import CompressorOverlap, StateCache
from tests.shared import SHARED, needs_shared

pytestmark = [needs_shared, pytest.mark.wide]

# transformers' convolution states that already hold only what must be remembered, so k is not one too many.
NARROW_CONVOLUTIONS = {"zaya": "two stacked convolutions remember (t0 - 1) + (t1 - 1) columns, and that many are kept"}


def profile_of(config: dict[str, Any], name: str) -> Profile:
    return derive(config, model_id=name, source=SourceRef(kind="file", name=name))


# --- vLLM -----------------------------------------------------------------------------------------------------------


def printed_states(entry: dict[str, Any]) -> Counter[tuple[Any, Any]]:
    specs = (entry.get("kv_auto") or {}).get("spec_types") or []
    found: Counter[tuple[Any, Any]] = Counter()
    for spec in specs:
        if spec["type"] == "MambaSpec":
            found[(tuple(map(tuple, spec["shapes"])), tuple(spec["dtypes"]))] += spec["layers"]
    return found


def our_states(profile: Profile, tp: int, model_dtype: str) -> Counter[tuple[Any, Any]]:
    """As vLLM writes them: a convolution as columns x channels. V4's overlap is a tiny window there."""
    found: Counter[tuple[Any, Any]] = Counter()
    for layer in profile.layers:
        for cache in layer.caches:
            if isinstance(cache, StateCache) and not isinstance(cache, CompressorOverlap):
                tensors = cache.tensors(tp)
                shapes = tuple(t.shape[::-1] if t.name == "conv" else t.shape for t in tensors)
                found[(shapes, tuple(model_dtype if t.dtype == "model" else t.dtype for t in tensors))] += 1
    return found


def vllm_entries(version: str) -> list[tuple[str, dict[str, Any]]]:
    results = json.loads((SHARED / "conformance" / f"vllm_kv_spec{version}.json").read_text())["results"]
    return [(name, entry) for name, entry in results.items() if (entry.get("kv_auto") or {}).get("spec_types")]


# What an older release lays out otherwise, by release and model; the elements of a layer are the same.
OLDER = {
    ("_0.11.0", "nvidia__NVIDIA-Nemotron-Nano-9B-v2"): "keeps Nemotron-H's state in the model's dtype",
    ("_0.20.2", "moonshotai__Kimi-Linear-48B-A3B-Instruct"): "keeps the columns of q, k and v as three tensors",
}


def elements(states: Counter[tuple[Any, Any]]) -> Counter[int]:
    return Counter({sum(prod(shape) for shape in shapes): n for (shapes, _), n in states.items()})


@pytest.mark.parametrize("version", ["", "_0.25.1", "_0.20.2", "_0.11.0"])
def test_every_state_has_the_shape_and_dtype_that_vllm_printed(version: str) -> None:
    seen, wrong = 0, {}
    for key, entry in vllm_entries(version):
        name = key.split("@")[0]
        profile = profile_of(json.loads((SHARED / "corpus" / name / "config.json").read_text()), name)
        want = printed_states(entry)
        got = our_states(profile, entry["tp"], entry.get("model_dtype") or "bfloat16")
        seen += bool(want)
        same = elements(want) == elements(got) if (version, name) in OLDER else want == got
        if not same:
            wrong[key] = (dict(want), dict(got))
    assert not wrong
    assert seen >= {"": 70, "_0.25.1": 20, "_0.20.2": 20, "_0.11.0": 12}[version]


def test_v4_keeps_what_vllm_prints_for_it() -> None:
    """Window on every layer, 21 compressed layers with an indexer at 4, 20 at 128 (bytes are vLLM's own packing)."""
    for key, entry in vllm_entries(""):
        if "DeepSeek-V4" not in key:
            continue
        specs: Counter[tuple[str, int, int]] = Counter()
        for spec in entry["kv_auto"]["spec_types"]:
            role = (
                "window" if spec["type"].startswith("Sliding") else "indexer" if spec["head_size"] == 132 else "entry"
            )
            if spec["dtype"] != "float32":  # float32: staging rings of the compressor, an engine's own
                specs[(role, spec.get("sliding_window", 0), spec["tokens_per_state"])] += spec["layers"]
        profile = profile_of(json.loads((SHARED / "corpus" / key.split("@")[0] / "config.json").read_text()), key)
        ours: Counter[tuple[str, int, int]] = Counter()
        for layer in profile.layers:
            for cache in layer.caches:
                data = cache.to_json()
                if cache.kind == "window":
                    assert (data["num_kv_heads"], data["k_dim"], data["v_dim"]) == (1, 512, 0)
                    ours[("window", data["window"], 1)] += 1
                if cache.kind in ("compressed", "indexer"):
                    role = "entry" if cache.kind == "compressed" else "indexer"
                    ours[(role, 0, data["tokens_per_entry"])] += 1
        assert ours == specs, key


# --- transformers -----------------------------------------------------------------------------------------------------


def recurrent_cases() -> list[dict[str, Any]]:
    cases = json.loads((SHARED / "conformance" / "transformers_cache.json").read_text())
    measured = [c for c in cases if not c.get("error") and c["layers"]]
    return [
        c
        for c in measured
        if c["n_recurrent"] or c["n_layers_config"] != c["n_layers_cache"] or "deepseek_v4" in c["case"]
    ]


def kept_state(case: dict[str, Any]) -> int:
    """Elements of the constant tensors, a convolution with one column less; counters (integers) left out."""
    total = 0
    for layer in case["layers"]:
        for tensor in layer["tensors"]:
            shape = tensor["shape_at_160"]
            if tensor["kind"] != "recurrent" or tensor["dtype"].startswith("int") or tensor.get("counted") is False:
                continue
            narrow = case["model_type"] in NARROW_CONVOLUTIONS or not tensor["name"].startswith("conv_state")
            total += prod(shape) if narrow else prod(shape[:-1]) * (shape[-1] - 1)
    return total


def kept_window(case: dict[str, Any]) -> int:
    """Elements of full windows: the file has w - 1 tokens of each."""
    total = 0
    for layer in case["layers"]:
        fixed = [t for t in layer["tensors"] if t["kind"] == "fixed" and t.get("counted") is not False]
        if case["model_type"] == "deepseek_v4":
            fixed = fixed[:1]  # K and V are one tensor there
        total += sum(prod(t["shape_at_160"]) // t["shape_at_160"][-2] * (t["shape_at_160"][-2] + 1) for t in fixed)
    return total


@pytest.mark.parametrize("which", ["config", "minimal_config"])
def test_recurrent_stacks_keep_what_transformers_kept(which: str) -> None:
    wrong = {}
    cases = recurrent_cases()
    for case in cases:
        profile = profile_of(case[which], case["case"])
        got = (
            float(profile.growing_elements_per_token),
            profile.window_elements,
            profile.state_elements_per_sequence,
            len(profile.layers),
        )
        want = (case["per_token_growing_bytes"] / 4, kept_window(case), kept_state(case), case["n_layers_cache"])
        if got != want:
            wrong[case["case"]] = (got, want)
    assert not wrong
    assert len(cases) >= 36


@pytest.mark.parametrize("which", ["config", "minimal_config"])
def test_each_layer_is_of_the_kind_that_transformers_kept(which: str) -> None:
    words = {
        "full": "growing",
        "latent": "growing",
        "compressed": "growing",
        "indexer": "growing",
        "window": "fixed",
        "state": "recurrent",
    }
    wrong = {}
    for case in recurrent_cases():
        profile = profile_of(case[which], case["case"])
        for index, (layer, kept) in enumerate(zip(profile.layers, case["layers"], strict=False)):
            got = {words.get(kind, kind) for kind in layer.kinds()}
            if got != set(kept["kind"].split("+")):
                wrong[f"{case['case']}[{index}]"] = (sorted(got), kept["kind"])
    assert not wrong


def all_specs(profile: Profile) -> list[CacheSpec]:
    return [cache for layer in profile.layers for cache in layer.caches]


def test_every_recurrent_config_of_the_corpus_says_its_family() -> None:
    families: Counter[str] = Counter()
    for path in sorted((SHARED / "corpus").glob("*/config.json")):
        profile = profile_of(json.loads(path.read_text()), path.parent.name)
        families.update({cache.family for cache in all_specs(profile) if isinstance(cache, StateCache)})
    assert set(families) == {
        "gated_delta_net", "mamba", "mamba2", "kda", "lightning", "short_conv", "rwkv4", "compressor",
    }  # fmt: skip
