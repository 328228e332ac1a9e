"""Laws of deriving: order of keys, lost and nulled keys, hostile input, and what it may cost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.errors import Refusal
from onboard.fields import FIELDS
from onboard.profile import Profile
from tests.deriving import caution_kinds, profile_of
from tests.shared import SHARED, needs_shared

GOOD = json.loads((Path(__file__).parent / "data" / "good_configs.json").read_text())


def _paths(config: Mapping[str, Any], depth: int = 2) -> Iterator[tuple[str, ...]]:
    for key, value in config.items():
        yield (key,)
        if depth > 1 and isinstance(value, dict) and key.endswith("_config"):
            yield from ((key, *rest) for rest in _paths(value, depth - 1))


def _changed(config: Mapping[str, Any], path: tuple[str, ...], *, null: bool) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(config))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if null:
        inner[path[-1]] = None
    else:
        del inner[path[-1]]
    return copy


def _said(profile: Profile) -> set[tuple[str, str, str]]:
    return {(w.kind, w.where, w.message) for w in profile.warnings}


def _shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {k: _shuffled(value[k], rng) for k in keys}
    return value


def test_thirty_good_configs() -> None:
    assert len(GOOD) >= 30


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_lost_or_nulled_key_never_gives_other_layers_silently(name: str) -> None:
    whole = profile_of(GOOD[name])
    silent = []
    for path in _paths(GOOD[name]):
        for null in (False, True):
            try:
                part = profile_of(_changed(GOOD[name], path, null=null))
            except Refusal:
                continue
            same = (part.layers, part.mtp_layers) == (whole.layers, whole.mtp_layers)
            if not same and _said(part) <= _said(whole):
                silent.append((path, "null" if null else "removed"))
    assert silent == []


@pytest.mark.parametrize("name", sorted(GOOD))
def test_the_order_of_keys_does_not_matter(name: str) -> None:
    assert profile_of(GOOD[name]) == profile_of(_shuffled(GOOD[name], random.Random(name)))


SPELLINGS = sorted({s for f in FIELDS.values() for s in f.spellings if "." not in s})
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=8),
    st.lists(st.one_of(st.integers(-3, 9), st.text(max_size=4)), max_size=4),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=3),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.dictionaries(st.sampled_from(SPELLINGS), JUNK, min_size=1, max_size=4))
def test_junk_in_any_field_refuses_or_derives(name: str, junk: dict[str, Any]) -> None:
    """Nothing but a Refusal leaves deriving, and a derived stack is bounded."""
    config = json.loads(json.dumps(GOOD[name]))
    target = next((config[k] for k in ("text_config", "thinker_config") if isinstance(config.get(k), dict)), config)
    target.update(junk)
    try:
        profile = profile_of(config)
    except Refusal as refusal:
        assert refusal.message
        return
    assert profile.growing_elements_per_token >= 0
    assert len(profile.layers) <= 200_000


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "llama", "num_hidden_layers": -1},
        {"model_type": "llama", "num_hidden_layers": 10**6},
        {"model_type": "llama", "num_hidden_layers": "12"},
        {"model_type": "llama", "num_attention_heads": 10**30},
        {"model_type": ["llama"], "num_hidden_layers": 2},
        {"model_type": "gpt_oss", "layer_types": ["full_attention"]},
        {"model_type": "llama", "layer_types": [None] * 32},
        {"num_transformer_layers": 4, "head_dim": 8, "num_kv_heads": [1, 2], "num_query_heads": [4] * 4},
        {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "block_configs": [3]},
    ],
)  # fmt: skip
def test_what_cannot_be_a_model_is_refused_by_name(config: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        profile_of(config)
    assert refused.value.path


def test_a_config_nested_without_end_neither_recurses_nor_passes_for_a_model() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"text_config": deep}
    assert "geometry-from-defaults" in caution_kinds(profile_of({"model_type": "llava", **deep}))


@needs_shared
@pytest.mark.wide
def test_every_published_config_derives_without_transformers() -> None:
    script = (
        "import json, pathlib, sys\n"
        "from tests.deriving import profile_of\n"
        f"for path in sorted(pathlib.Path({str(SHARED)!r}, 'corpus').glob('*/config.json')):\n"
        "    profile_of(json.loads(path.read_text()))\n"
        "assert 'transformers' not in sys.modules\n"
    )
    root = Path(__file__).resolve().parent.parent
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root)
