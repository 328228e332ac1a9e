"""The GGUF header reader: what it reads, and that every hostile file is refused in bounded memory."""

from __future__ import annotations

import tracemalloc
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.errors import BadGguf, MissingShard
from onboard.gguf import LongArray, read_header, read_split, split_files
from tests.gguf_bytes import ARRAY, STRING, UINT32, header, pair, reader, tensor, text

META = {
    "general.architecture": "gemma4",
    "gemma4.block_count": 6,
    "gemma4.attention.head_count_kv": (8, 8, 8, 8, 8, 1),
    "gemma4.attention.causal": True,
    "gemma4.rope.freq_base": 10000.0,
    "tokenizer.ggml.tokens": ("a", "b"),
}
TENSORS = (
    ("token_embd.weight", (64, 100), 8),
    ("blk.0.attn_q.weight", (256, 10), 12),
    ("output_norm.weight", (64,), 0),
)
GOOD = header(META, TENSORS)


def test_metadata_and_tensors_are_read() -> None:
    read = read_header(reader(GOOD))
    assert dict(read.metadata) == META
    assert [(t.name, t.shape, t.ggml_type, t.num_bytes) for t in read.tensors] == [
        ("token_embd.weight", (64, 100), "q8_0", 100 * 2 * 34),
        ("blk.0.attn_q.weight", (256, 10), "q4_k", 10 * 144),
        ("output_norm.weight", (64,), "f32", 256),
    ]
    assert read.header_bytes == len(GOOD)


def test_a_local_file_is_read(tmp_path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(GOOD + b"\0" * 999)
    assert dict(read_header(path).metadata) == META


@given(st.integers(0, len(GOOD) - 1))
def test_a_file_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(BadGguf):
        read_header(reader(GOOD[:length]))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read_but_never_raise_otherwise(junk: bytes) -> None:
    for raw in (junk, b"GGUF" + pack("<I", 3) + junk):
        try:
            read_header(reader(raw))
        except BadGguf:
            continue


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b"GGML" + GOOD[4:], "magic"),
        (header(META, version=1), "version"),
        (header(META, version=2), "version"),
        (header(META, version=4), "version"),
        (b"GGUF" + pack(">I", 3) + GOOD[8:], "version"),
        (header(META, num_keys=10**9), "metadata_kv_count"),
        (header(META, num_tensors=10**18), "tensor_count"),
        (header({}, num_keys=1) + text("k") + pack("<IIQ", ARRAY, UINT32, 10**9), "k"),
        (header({}, num_keys=1) + text("k") + pack("<IIQ", ARRAY, STRING, 10**9), "k"),
        (header({}, num_keys=1) + text("k") + pack("<IIQ", ARRAY, ARRAY, 1), "k"),
        (header({}, num_keys=1) + text("k") + pack("<IQ", STRING, 10**18), "k"),
        (header({}, num_keys=1) + text("k") + pack("<I", 77), "k"),
        (header({}, num_keys=2) + pair("k", 1) + pair("k", 1), "k"),
        (header({}, num_tensors=1) + tensor("t", (1, 1, 1, 1, 1), 0), "t"),
        (header({}, num_tensors=1) + tensor("t", (2**40,), 0), "t"),
        (header({}, num_tensors=1) + tensor("t", (0,), 0), "t"),
        (header({}, num_tensors=1) + tensor("t", (33,), 8), "t"),
        (header({}, num_tensors=1) + tensor("t", (32,), 999), "t"),
        (header({}, num_tensors=2) + 2 * tensor("t", (32,), 0), "t"),
        (header({}, num_keys=1) + pack("<Q", 2) + b"\xff\xfe" + pack("<II", UINT32, 1), "key"),
    ],
)
def test_hostile_headers_are_refused_by_name(raw: bytes, where: str) -> None:
    with pytest.raises(BadGguf) as refusal:
        read_header(reader(raw))
    assert refusal.value.path == where


def test_a_claim_of_a_billion_entries_takes_no_memory() -> None:
    raw = header({}, num_keys=1) + text("k") + pack("<IIQ", ARRAY, UINT32, 2**26) + b"\0" * 4096
    tracemalloc.start()
    with pytest.raises(BadGguf):
        read_header(reader(raw))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 2**20


def test_a_tokenizer_is_walked_and_not_kept() -> None:
    words = tuple(f"token{i}" for i in range(100_000))
    raw = header({"tokenizer.ggml.tokens": words, "tokenizer.ggml.scores": (0.5,) * 100_000, "a.block_count": 3})
    read = reader(raw)
    metadata = read_header(read).metadata
    assert metadata["tokenizer.ggml.tokens"] == LongArray(100_000)
    assert metadata["a.block_count"] == 3
    assert read.given < len(raw)  # long arrays of numbers are stepped over


def test_an_88_layer_array_is_kept_whole() -> None:
    entries = tuple(range(88))
    assert read_header(reader(header({"a.attention.head_count_kv": entries}))).metadata == {
        "a.attention.head_count_kv": entries
    }


def test_split_files_are_one_model() -> None:
    names = split_files("org/m-00002-of-00003.gguf")
    assert names == tuple(f"org/m-0000{i}-of-00003.gguf" for i in (1, 2, 3))
    parts = {
        name: reader(header({"split.no": i, "split.count": 3, "split.tensors.count": 3}, [TENSORS[i]]))
        for i, name in enumerate(names)
    }
    whole = read_split(names[0], parts.get)
    assert whole.tensor_bytes == sum(t.num_bytes for t in read_header(reader(GOOD)).tensors)
    with pytest.raises(MissingShard):
        read_split(names[0], {k: v for k, v in parts.items() if k != names[1]}.get)
    swapped = {names[0]: parts[names[1]], names[1]: parts[names[0]], names[2]: parts[names[2]]}
    with pytest.raises(BadGguf):
        read_split(names[0], swapped.get)
    with pytest.raises(BadGguf):
        read_split("m.gguf", {"m.gguf": parts[names[0]]}.get)
