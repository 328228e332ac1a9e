"""Public bug reports about layers, from ../shared/evidence/bug_cases.yml: the right layout for each input config."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from ruamel.yaml import YAML

from onboard.errors import Refusal
from onboard.layers import FullAttention, Heads, LatentAttention, Layer
from onboard.profile import Profile
from onboard.states import StateCache
from tests.deriving import profile_of
from tests.shared import SHARED, needs_shared

pytestmark = needs_shared
AREAS = (
    "layer-kinds",
    "per-layer-geometry",
    "kv-sharing",
    "mla",
    "indexer",
    "speculative",
    "tensor-parallel",
    "recurrent-state",
)
BYTES = {"bf16": 2, "f16": 2, "fp16": 2}
INDEXER_BYTES = 132  # 128 fp8 keys and one fp32 scale (vLLM 0.33, SGLang 0.5)


@lru_cache(maxsize=1)
def cases() -> dict[str, dict[str, Any]]:
    path = SHARED / "evidence" / "bug_cases.yml"
    if not path.is_file():
        return {}
    listed = YAML(typ="safe", pure=True).load(path.read_text())["cases"]
    return {case["id"]: case for case in listed if case["area"] in AREAS}


def pairs() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every config with its own answer: a case, or one of its variants."""
    found = []
    for name, case in cases().items():
        inputs = case["input"].get("variants") or [case["input"]]
        answers = case["expected"].get("variants") or [case["expected"]]
        found += [(f"{name}[{i}]", *pair) for i, pair in enumerate(zip(inputs, answers, strict=True))]
    return found


def growing_bytes(profile: Profile, ask: dict[str, Any], tp: int = 1) -> int:
    size = BYTES[ask["kv_dtype"]]
    layers = profile.layers + (profile.mtp_layers if ask.get("speculative") == "mtp" else ())
    total = 0
    for layer in layers:
        for cache in layer.caches:
            if isinstance(cache, FullAttention):
                total += max(1, cache.num_kv_heads // tp) * (cache.k_dim + cache.v_dim) * size
            elif isinstance(cache, LatentAttention):
                total += cache.elements_per_token() * size
    return total


def owners(layers: tuple[Layer, ...], *kinds: str) -> list[int]:
    return [i for i, layer in enumerate(layers) if set(kinds) & set(layer.kinds())]


def indices_of_kv(profile: Profile, ask: dict[str, Any]) -> list[int]:
    layers = profile.layers + (profile.mtp_layers if ask.get("speculative") == "mtp" else ())
    return owners(layers, "full", "window", "chunked", "latent")


def state_bytes(profile: Profile, _: dict[str, Any]) -> int:
    """llama.cpp keeps every state in float32."""
    states = (cache for layer in profile.layers for cache in layer.caches if isinstance(cache, StateCache))
    return 4 * sum(state.state_elements() for state in states)


def per_token(profile: Profile, ask: dict[str, Any]) -> int:
    if ask.get("kv_dtype") == "fp8_e4m3":  # plain fp8 latents, and the indexer's keys with their scale
        latents = sum(
            c.elements_per_token() for x in profile.layers for c in x.caches if isinstance(c, LatentAttention)
        )
        return latents + INDEXER_BYTES * len(owners(profile.layers, "indexer"))
    return growing_bytes(profile, ask)


CHECKS: dict[str, Callable[[Profile, dict[str, Any]], Any]] = {
    "kv_layers": lambda p, a: len(indices_of_kv(p, a)),
    "kv_layer_indices": indices_of_kv,
    "state_layers": lambda p, a: len(owners(p.layers, "state")),
    "indexer_layers": lambda p, a: len(owners(p.layers, "indexer")),
    "layers_owning_kv": lambda p, a: len(indices_of_kv(p, a)),
    "full_layers_owning_kv": lambda p, a: len(owners(p.layers, "full")),
    "window_layers_owning_kv": lambda p, a: len(owners(p.layers, "window")),
    "kv_bytes_per_token": per_token,
    "kv_bytes_per_token_per_card": lambda p, a: (
        {tp: growing_bytes(p, a, tp) for tp in a["tp_values"]} if "tp_values" in a else growing_bytes(p, a, a["tp"])
    ),
    "kv_bytes_per_token_all_cards": lambda p, a: {tp: tp * growing_bytes(p, a, tp) for tp in a["tp_values"]},
    "kv_bytes": lambda p, a: growing_bytes(p, a) * a["max_model_len"],
    "kv_bytes_floor": lambda p, a: growing_bytes(p, a) * a["max_model_len"] + BYTES[a["kv_dtype"]] * p.window_elements,
    "state_bytes_per_seq": state_bytes,
    "kv_plus_state_mib_rounded": lambda p, a: round(
        (growing_bytes(p, a) * a["max_model_len"] + state_bytes(p, a)) / 2**20
    ),
    "latent_width": lambda p, a: p.layers[0].caches[0].elements_per_token(),  # type: ignore[attr-defined]
    "divided_by_tp": lambda p, a: isinstance(p.layers[0].caches[0], Heads),
}
ELSEWHERE = {"layer_count_same_for_every_kv_dtype": "no KV dtype enters here: layers are one tuple of the profile"}
REFUSALS = {
    "layer-count-mismatch": "LayerCountMismatch",
    "window-missing": "WindowMissing",
    "unknown-layer-kind": "UnknownLayerKind",
}


@pytest.mark.parametrize("number", range(len(pairs())))
def test_a_reported_input_has_the_right_layers(number: int) -> None:
    name, given, answer = pairs()[number]
    if "config" not in given:
        pytest.skip(f"{name} is a GGUF file's metadata: test_gguf")
    if "refuse" in answer:
        with pytest.raises(Refusal) as caught:
            profile_of(given["config"])
        assert caught.value.kind == REFUSALS[answer["refuse"]]
        assert all(word in str(caught.value) for word in answer.get("names", ()))
        return
    profile = profile_of(given["config"])
    for key, want in answer.items():
        if key not in ELSEWHERE:
            assert CHECKS[key](profile, given["ask"]) == want, (name, key)


def test_the_cases_are_there() -> None:
    assert len(cases()) >= 10
