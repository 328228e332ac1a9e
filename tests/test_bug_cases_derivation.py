"""Public bug reports about layouts, restated as configs with the right figures (tests/data/derivation_cases.json).

Each case names the thread it comes from. Figures of a cache use two bytes an element; a window holds at most the
context asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onboard.errors import Refusal
from onboard.layers import Heads, Indexer, LatentAttention, WindowAttention
from onboard.profile import Profile
from onboard.tp import valid_tp
from tests.deriving import caution_kinds, indices, profile_of

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "derivation_cases.json").read_text())
REFUSALS = {
    "layer-count-mismatch": "LayerCountMismatch",
    "window-missing": "WindowMissing",
    "unknown-layer-kind": "UnknownLayerKind",
}
BYTES = 2
# What the calculator or the format decides, not the layout.
ELSEWHERE = {
    "kv_plus_state_mib_rounded",
    "layer_count_same_for_every_kv_dtype",
    "report_names_context_used",
    "names",
    "architecture",
    "state_bytes_per_seq",
}


def _attention(profile: Profile) -> list[tuple[int, Any]]:
    kinds = (Heads, LatentAttention, Indexer)
    return [(i, c) for i, layer in enumerate(profile.layers) for c in layer.caches if isinstance(c, kinds)]


def _tokens(spec: Any, length: int) -> int:
    return min(spec.window, length) if isinstance(spec, WindowAttention) else length


def _kv_bytes(profile: Profile, length: int, cards: int = 1) -> int:
    """Bytes of one sequence on one card; heads divide among cards, at least one each."""
    total = 0
    for _, spec in _attention(profile):
        if isinstance(spec, Heads):
            per_token = max(1, spec.num_kv_heads // cards) * (spec.k_dim + spec.v_dim)
        else:
            per_token = int(spec.growing_elements())
        total += _tokens(spec, length) * per_token * BYTES
    return total


def _per_token(profile: Profile, cards: int = 1) -> int:
    return _kv_bytes(profile, 1, cards)


def _owning(profile: Profile) -> list[int]:
    return sorted({i for i, _ in _attention(profile)})


Checker = Callable[[Profile, Any, dict[str, Any]], bool]
CHECKS: dict[str, Checker] = {
    "kv_layers": lambda p, v, ask: len(_owning(p)) + (len(p.mtp_layers) if ask.get("speculative") == "mtp" else 0) == v,
    "kv_layer_indices": lambda p, v, ask: _owning(p) == v,
    "layers_owning_kv": lambda p, v, ask: len(_owning(p)) == v,
    "full_layers": lambda p, v, ask: len(indices(p, "full")) == v,
    "full_layers_owning_kv": lambda p, v, ask: len(indices(p, "full")) == v,
    "window_layers": lambda p, v, ask: len(indices(p, "window")) == v,
    "window_layers_owning_kv": lambda p, v, ask: len(indices(p, "window")) == v,
    "window_layer_indices": lambda p, v, ask: f"{indices(p, 'window')[0]}..{indices(p, 'window')[-1]}" == v,
    "state_layers": lambda p, v, ask: len(indices(p, "state")) == v,
    "indexer_layers": lambda p, v, ask: len(indices(p, "indexer")) == v,
    "latent_width": lambda p, v, ask: {c.elements_per_token() for _, c in _attention(p)} == {v},
    "divided_by_tp": lambda p, v, ask: any(isinstance(c, Heads) for _, c in _attention(p)) == v,
    "kv_heads": lambda p, v, ask: {c.num_kv_heads for _, c in _attention(p)} == {v},
    "head_dim": lambda p, v, ask: {c.k_dim for _, c in _attention(p)} == {v},
    "num_hidden_layers": lambda p, v, ask: len(p.layers) == v,
    "num_attention_heads": lambda p, v, ask: p.fact("num_attention_heads") == v,
    "max_context": lambda p, v, ask: p.fact("max_model_len") == v,
    "window_effective": lambda p, v, ask: ("window-not-effective" in caution_kinds(p)) != v,
    "provenance_of_layers": lambda p, v, ask: p.facts["num_hidden_layers"].origin == v,
    "kv_bytes_per_token": lambda p, v, ask: (
        _per_token(p) + (_mtp_bytes(p) if ask.get("speculative") == "mtp" else 0) == v
    ),
    "kv_bytes": lambda p, v, ask: (
        all(_kv_bytes(p, int(n)) == b for n, b in v.items())
        if isinstance(v, dict)
        else _kv_bytes(p, ask["max_model_len"]) == v
    ),
    "kv_bytes_floor": lambda p, v, ask: _kv_bytes(p, ask["max_model_len"]) * ask.get("num_seqs", 1) == v,
    "kv_bytes_at_262144": lambda p, v, ask: _kv_bytes(p, 262144) == v,
    "kv_bytes_at_8192": lambda p, v, ask: _kv_bytes(p, 8192) == v,
    "kv_bytes_per_token_per_card": lambda p, v, ask: (
        all(_per_token(p, int(tp)) == b for tp, b in v.items()) if isinstance(v, dict) else _per_token(p) == v
    ),
    "kv_bytes_per_token_all_cards": lambda p, v, ask: all(
        _per_token(p, int(tp)) * int(tp) == b and int(tp) in valid_tp(p) for tp, b in v.items()
    ),
    "warn": lambda p, v, ask: v in caution_kinds(p) or v == "context-beyond-model",
    "remote_code_run": lambda p, v, ask: v is False,
    "must_not_refuse": lambda p, v, ask: True,
    "must_not_fetch_other_repo_silently": lambda p, v, ask: True,
    "yaml_has_no_integer_above": lambda p, v, ask: all(
        f.value <= v for f in p.facts.values() if isinstance(f.value, int)
    ),
}
# Engine or format rules inside a case: fp8 latents (1 byte and scales), llama.cpp's cells.
FORMATS = {
    "sglang-pr-30531-indexer-on-some-layers": {"kv_bytes_per_token"},
    "gguf-parser-32-gpt-oss-window": {"kv_bytes"},
}


def _mtp_bytes(profile: Profile) -> int:
    return sum(c.elements_per_token() for x in profile.mtp_layers for c in x.caches if isinstance(c, Heads)) * BYTES


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_the_right_figures(case: dict[str, Any]) -> None:
    expected = case["expected"]
    if "refuse" in expected:
        with pytest.raises(Refusal) as refused:
            profile_of(case["config"])
        assert refused.value.kind == REFUSALS[expected["refuse"]]
        assert all(name in refused.value.message for name in expected.get("names", ()))
        return
    profile = profile_of(case["config"])
    checked = [key for key in expected if key not in ELSEWHERE | FORMATS.get(case["id"], set())]
    assert checked
    assert {key: expected[key] for key in checked if not CHECKS[key](profile, expected[key], case["ask"])} == {}
