"""Real-world JSON: what is read as it is meant, and what is refused with its place named."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard import rawjson
from onboard.derive import derive
from onboard.errors import DuplicateKey, FieldInvalid, NotAMapping, NotJson, Refusal, TooLarge
from onboard.profile import SourceRef
from onboard.profile_yaml import to_data

HERE = SourceRef(kind="file", name="test")
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def load(text: str | bytes) -> dict[str, Any]:
    return rawjson.load_mapping(text, "config.json")


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    assert load(bytes.fromhex("efbbbf7b226e756d5f68696464656e5f6c6179657273223a20347d")) == {"num_hidden_layers": 4}


def test_text_that_is_not_utf8_is_refused_with_the_offset_in_the_file() -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(NotJson) as refused:
            load(mark + b'{"a": "\xff"}')
        assert str(len(mark) + 7) in refused.value.message
        assert refused.value.value == "0xff"


def test_non_finite_literals_are_values_and_strings_are_never_edited() -> None:
    text = '{"model_type": "mamba2", "time_step_limit": [0.0, Infinity], "bad": NaN, "note": "to Infinity and NaN"}'
    config = load(text)
    assert config["note"] == "to Infinity and NaN"
    assert config["time_step_limit"] == [0.0, math.inf]
    assert math.isnan(config["bad"])


def test_the_object_spelling_of_a_non_finite_number_means_the_same() -> None:
    config = load('{"a": {"__float__": "Infinity"}, "b": [{"__float__": "-Infinity"}], "c": {"__float__": "huge"}}')
    assert config == {"a": math.inf, "b": [-math.inf], "c": {"__float__": "huge"}}


def test_a_non_finite_number_in_a_field_that_is_not_read_never_reaches_a_profile() -> None:
    config = load(json.dumps({**LLAMA, "time_step_limit": [0.0, math.inf], "other": math.nan}))
    assert "Infinity" not in json.dumps(to_data(derive(config, model_id="x", source=HERE)))


@pytest.mark.parametrize("literal", ["Infinity", "NaN", "-Infinity", '{"__float__": "Infinity"}', "1e999"])
@pytest.mark.parametrize(
    "field", ["num_hidden_layers", "num_key_value_heads", "hidden_size", "max_position_embeddings"]
)
def test_a_non_finite_number_in_a_field_that_is_read_is_refused_by_name(field: str, literal: str) -> None:
    text = json.dumps({**LLAMA, field: "HERE"}).replace('"HERE"', literal)
    with pytest.raises(FieldInvalid) as refused:
        derive(load(text), model_id="x", source=HERE)
    assert field in refused.value.path


def test_a_key_that_stands_twice_is_refused_by_name_at_any_depth() -> None:
    for text in (
        '{"num_hidden_layers": 32, "h": 4096, "num_hidden_layers": 64}',
        '{"t": [{"num_hidden_layers": 1, "num_hidden_layers": 1}]}',
    ):
        with pytest.raises(DuplicateKey) as refused:
            load(text)
        assert refused.value.path == "num_hidden_layers"


def test_huge_integers_neither_hang_nor_pass() -> None:
    assert load('{"a": 1000000000000000000000000000000}') == {"a": 10**30}
    with pytest.raises(FieldInvalid, match="num_hidden_layers"):
        derive(load(json.dumps({**LLAMA, "num_hidden_layers": 10**30})), model_id="x", source=HERE)
    start = time.perf_counter()
    with pytest.raises(TooLarge) as refused:
        load('{"text_config": {"vocab_size": ' + "9" * 5000 + "}}")
    assert refused.value.path == "text_config.vocab_size"
    assert "5000" in refused.value.message
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("opener", ['{"a":', "["])
def test_deep_nesting_is_refused_quickly(opener: str) -> None:
    start = time.perf_counter()
    with pytest.raises(TooLarge):
        load('{"top": ' + opener * 100_000)
    with pytest.raises(TooLarge):
        load('{"top": ' + "[" * 150 + "]" * 150 + "}")
    assert time.perf_counter() - start < 2


def test_a_file_beyond_the_bound_is_refused() -> None:
    with pytest.raises(TooLarge):
        rawjson.load(b" " * 100, "config.json", max_bytes=99)


@pytest.mark.parametrize("text", ["[]", "3", '"config"', "null", "true"])
def test_a_top_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(NotAMapping, match=r"config\.json"):
        load(text)


def test_a_file_that_ends_early_says_so() -> None:
    whole = json.dumps({**LLAMA, "text": "some words", "list": [1, 2, {"a": None}]})
    for end in range(1, len(whole)):
        with pytest.raises(NotJson) as refused:
            load(whole[:end])
        assert "cut off" in refused.value.message or "is not JSON" in refused.value.message
    with pytest.raises(NotJson, match="cut off"):
        load(whole[: len(whole) // 2])
    with pytest.raises(NotJson, match="empty"):
        load(b"")


def test_half_a_surrogate_pair_is_refused_before_it_can_break_a_file() -> None:
    with pytest.raises(NotJson, match="surrogate"):
        load('{"architectures": ["\\ud800"]}')


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    try:
        load(data)
    except Refusal as refusal:
        assert refusal.message


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")).filter(lambda k: k != "__float__"), JSON, max_size=5))
def test_what_json_wrote_comes_back(value: dict[str, Any]) -> None:
    if "__float__" not in json.dumps(value):
        assert load(json.dumps(value)) == value
