"""Headers and indexes that lie: refused with a name, in bounded memory, whatever they claim."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from deriving import profile_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import CONFIG

from onboard.errors import BadHeader, FieldInvalid, MissingShard, NotJson, Refusal, TooLarge, UnsafePath, WeightsUnknown
from onboard.profile import Profile
from onboard.weights.choose import choose, weight_sets
from onboard.weights.safetensors_header import read_header, read_headers


def reader(data: bytes) -> Callable[[str, int, int], bytes]:
    return lambda path, start, length: data[start : start + length]


def file_with(header: Any, data: int = 0) -> bytes:
    body = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(body)) + body + bytes(data)


def entry(begin: int, end: int, shape: list[Any] | None = None, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": [(end - begin) // 4] if shape is None else shape, "data_offsets": [begin, end]}


GOOD = {"a": entry(0, 8), "b": entry(8, 16)}
LIES: dict[str, bytes] = {
    "claims-10^18": struct.pack("<Q", 10**18) + b"{}",
    "claims-2^64-1": b"\xff" * 8 + b"{}",
    "empty": b"",
    "seven-bytes": b"\0" * 7,
    "stops-half-way": file_with(GOOD, 16)[:40],
    "data-cut-off": file_with(GOOD, 12),
    "data-appended": file_with(GOOD, 17),
    "overlap": file_with({"a": entry(0, 8), "b": entry(4, 12)}, 12),
    "gap": file_with({"a": entry(0, 8), "b": entry(12, 16)}, 16),
    "backwards": file_with({"a": entry(8, 0, [2])}, 8),
    "beyond-the-file": file_with({"a": entry(0, 2**40)}, 8),
    "negative": file_with({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [-8, 0]}}),
    "float-offsets": file_with({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0.0, 8.0]}}, 8),
    "true-for-one": file_with({"a": {"dtype": "U8", "shape": [True], "data_offsets": [False, True]}}, 1),
    "shape-too-large": file_with({"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 8]}}, 8),
    "shape-does-not-fit": file_with({"a": entry(0, 8, [3])}, 8),
    "nests-100,000": file_with(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nests-objects": file_with(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "duplicate-names": file_with(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                 b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
    "list": file_with([1, 2]),
    "not-json": file_with(b"{'a': 1}"),
    "not-utf8": file_with(b'{"\xff\xfe": 1}'),
    "nan": file_with(b'{"a": {"dtype": "U8", "shape": [NaN], "data_offsets": [0, 1]}}', 1),
    "unknown-dtype": file_with({"a": entry(0, 8, [2], "F33")}, 8),
    "entry-is-text": file_with({"a": "F32"}),
    "no-offsets": file_with({"a": {"dtype": "F32", "shape": [2]}}, 8),
    "offsets-of-three": file_with({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}}, 8),
}  # fmt: skip


def test_a_true_header() -> None:
    (a, b) = read_header("m.safetensors", 0 + len(file_with(GOOD, 16)), reader(file_with(GOOD, 16)))
    assert (a.name, b.num_bytes, b.shape) == ("a", 8, (2,))


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused(name: str) -> None:
    data = LIES[name]
    with pytest.raises(BadHeader) as refused:
        read_header("m.safetensors", len(data), reader(data))
    assert "m.safetensors" in refused.value.message


def test_a_long_claim_is_not_fetched() -> None:
    asked: list[int] = []

    def fetch(path: str, start: int, length: int) -> bytes:
        asked.append(length)
        return struct.pack("<Q", 10**18)[start : start + length]

    tracemalloc.start()
    with pytest.raises(BadHeader):
        read_header("m.safetensors", None, fetch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(asked) <= 2**20 and peak < 2**20


def test_one_bad_file_of_many_stops_the_read() -> None:
    good, bad = file_with(GOOD, 16), LIES["overlap"]
    files = {f"{i}.safetensors": bad if i == 37 else good for i in range(60)}
    with pytest.raises(BadHeader, match="37"):
        read_headers([(p, len(d)) for p, d in files.items()], lambda p, s, n: files[p][s : s + n])


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        tensors = read_header("m", len(data), reader(data))
    except BadHeader:
        return
    assert 8 + sum(t.num_bytes for t in tensors) <= len(data)


# --- indexes and listings ---------------------------------------------------------------------------------------------


def index(weight_map: Any, **metadata: Any) -> str:
    return json.dumps({"metadata": metadata, "weight_map": weight_map})


BAD_INDEXES: dict[str, tuple[str, type[Refusal]]] = {
    "not-json": ("{", NotJson),
    "nests": ("[" * 100_000, NotJson),
    "no-map": ("{}", NotJson),
    "map-of-numbers": (index({"a": 1}), NotJson),
    "up": (index({"a": "../../etc/passwd"}), UnsafePath),
    "absolute": (index({"a": "/etc/passwd"}), UnsafePath),
    "backslash": (index({"a": "..\\x.safetensors"}), UnsafePath),
    "missing": (index({"a": "gone.safetensors"}), MissingShard),
}


@pytest.mark.parametrize("name", BAD_INDEXES)
def test_indexes_that_lie(name: str) -> None:
    text, refusal = BAD_INDEXES[name]
    listing = {"model.safetensors.index.json": len(text), "model-00001-of-00001.safetensors": 8}
    with pytest.raises(refusal):
        choose(listing.items(), lambda path: text)


def test_an_index_of_a_gigabyte_is_not_read() -> None:
    with pytest.raises(TooLarge):
        choose(
            [("model.safetensors.index.json", 2**30), ("model.safetensors", 1)], lambda path: pytest.fail("was read")
        )


def test_a_listing_of_fifty_thousand_files_is_quick() -> None:
    listing = {f"run-{i % 100}/shard_{i}.safetensors": i for i in range(50_000)}
    listing |= {f"model-{i:05d}-of-00300.safetensors": 10 for i in range(1, 301)}
    sets, _ = weight_sets(listing, lambda path: "")
    assert sets[0].name == "model" and len(sets[0].files) == 300


def test_nothing_to_load() -> None:
    with pytest.raises(WeightsUnknown, match="no file"):
        choose([("config.json", 10), ("adapter_model.safetensors", 10), ("model.onnx", 10)], lambda path: "")


def test_a_set_can_be_forced() -> None:
    listing = [("model.safetensors", 30), ("consolidated.safetensors", 31), ("fp8/model.safetensors", 16)]
    assert choose(listing, lambda path: "").chosen.num_bytes == 30
    assert choose(listing, lambda path: "", "fp8").chosen.num_bytes == 16
    with pytest.raises(WeightsUnknown, match="int2"):
        choose(listing, lambda path: "", "int2")


def derived(quantization: Any) -> Profile:
    return profile_of({**CONFIG, "quantization_config": quantization})


QUANTISED: dict[str, tuple[Any, str]] = {
    "negative-bits": ({"quant_method": "gptq", "bits": -4}, "quantization_config.bits"),
    "no-bits": ({"quant_method": "gptq", "bits": 0}, "quantization_config.bits"),
    "1000-bits": ({"quant_method": "gptq", "bits": 1000}, "quantization_config.bits"),
    "bits-in-words": ({"quant_method": "gptq", "bits": "four"}, "quantization_config.bits"),
    "bits-nan": ({"quant_method": "awq", "bits": float("nan")}, "quantization_config.bits"),
    "bits-true": ({"quant_method": "awq", "w_bit": True}, "quantization_config.w_bit"),
    "negative-group": ({"quant_method": "awq", "bits": 4, "group_size": -5}, "quantization_config.group_size"),
    "no-group": ({"quant_method": "awq", "bits": 4, "group_size": 0}, "quantization_config.group_size"),
    "list-for-group": ({"quant_method": "gptq", "group_size": [1]}, "quantization_config.group_size"),
    "block-of-0": ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "quantization_config.weight_block_size[0]"),
    "packed-negative": (
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": -4}}}},
        "quantization_config.config_groups.num_bits",
    ),
    "named-negative": (
        {"quant_method": "modelopt", "config_groups": {"a": {"targets": ["a.b"], "weights": {"num_bits": "x"}}}},
        "quantization_config.config_groups.num_bits",
    ),
    "a-list": ([1], "quantization_config"),
    "text": ("gptq", "quantization_config"),
    "method-is-a-number": ({"quant_method": 7}, "quantization_config.quant_method"),
}


@pytest.mark.parametrize("name", QUANTISED)
def test_a_quantisation_that_cannot_be_is_refused_by_its_path(name: str) -> None:
    stated, path = QUANTISED[name]
    with pytest.raises(FieldInvalid) as refused:
        derived(stated)
    assert refused.value.path == path


@pytest.mark.parametrize("group", [-1, 1, 128, None])
def test_groups_that_files_state_are_read(group: int | None) -> None:
    stated = {"quant_method": "gptq", "bits": 4, "sym": True, "group_size": group}
    sizes = [w.num_bytes for w in derived(stated).weights]
    assert len(sizes) == 1 and sizes[0] > 0


def test_a_method_that_no_rule_packs_has_no_weights_rather_than_plain_ones() -> None:
    profile = derived({"quant_method": "zorp"})
    assert profile.weights == ()
    assert any(w.kind == "weights-unknown" and "zorp" in w.message for w in profile.warnings)
