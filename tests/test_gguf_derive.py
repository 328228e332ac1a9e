"""GGUF metadata to profile: public bug reports of the area, damaged files, and what differs from a config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.engines.llamacpp.cache import caches_of
from calc.engines.llamacpp.model import model_of
from calc.engines.llamacpp.settings import settings_of
from calc.plan import Plan
from onboard.errors import BadGguf, FieldInvalid, FieldMissing, LayerCountMismatch, MissingShard, Refusal
from onboard.gguf.derive import derive_gguf
from onboard.gguf.reader import LongArray
from onboard.inspection import to_json
from onboard.open import inspect
from onboard.profile import Profile, SourceRef
from tests.gguf_bytes import header
from tests.llamacpp_cases import evidence, metadata


def derived(raw: dict[str, Any]) -> Profile:
    return derive_gguf(raw, model_id="m", source=SourceRef(kind="gguf", name="m.gguf"))


def kv_bytes(profile: Profile, **knobs: Any) -> int:
    plan = Plan(engine="llamacpp", max_num_seqs=1, **knobs)
    caches = caches_of(model_of(profile), settings_of(plan, n_ctx_train=0))
    return sum(c.bytes for c in caches if not c.slots)


GEMMA_4_12B = {
    "general.architecture": "gemma4",
    "gemma4.block_count": 48,
    "gemma4.embedding_length": 3840,
    "gemma4.attention.head_count": 16,
    "gemma4.attention.head_count_kv": (8, 8, 8, 8, 8, 1) * 8,
    "gemma4.attention.key_length": 512,
    "gemma4.attention.value_length": 512,
    "gemma4.attention.key_length_swa": 256,
    "gemma4.attention.value_length_swa": 256,
    "gemma4.attention.sliding_window": 1024,
}
PATTERN = "gemma4.attention.sliding_window_pattern"
NEMOTRON = {
    "general.architecture": "nemotron_h_moe",
    "nemotron_h_moe.block_count": 88,
    "nemotron_h_moe.attention.key_length": 128,
    "nemotron_h_moe.attention.value_length": 128,
    "nemotron_h_moe.attention.head_count_kv": tuple(2 if i % 11 == 5 else 0 for i in range(88)),
}
GLM = {
    "general.architecture": "glm4moe",
    "glm4moe.block_count": 47,
    "glm4moe.nextn_predict_layers": 1,
    "glm4moe.attention.head_count_kv": 8,
    "glm4moe.attention.key_length": 128,
    "glm4moe.attention.value_length": 128,
}


def test_an_array_longer_than_a_sample_is_read_whole() -> None:
    profile = derived(NEMOTRON)
    assert profile.growing_elements_per_token * 2 == 8192
    assert kv_bytes(profile, max_model_len=32768) == 268435456
    assert "state-unknown" in {w.kind for w in profile.warnings}  # the reports' file states no ssm keys


def test_a_short_array_is_refused_and_not_stretched() -> None:
    short = {**NEMOTRON, "nemotron_h_moe.attention.head_count_kv": (2,) * 64}
    with pytest.raises(LayerCountMismatch) as refusal:
        derived(short)
    assert refusal.value.path == "nemotron_h_moe.attention.head_count_kv"
    assert refusal.value.value == 64


def test_heads_and_widths_by_kind_of_layer() -> None:
    profile = derived(GEMMA_4_12B)
    kinds = [layer.kinds()[0] for layer in profile.layers]
    assert (kinds.count("full"), kinds.count("window")) == (8, 40)
    assert profile.growing_elements_per_token * 2 == 16384
    assert kv_bytes(profile, max_model_len=131072) == 2650800128


def test_draft_blocks_are_part_of_block_count() -> None:
    profile = derived(GLM)
    assert (len(profile.layers), len(profile.mtp_layers)) == (46, 1)
    assert profile.growing_elements_per_token * 2 == 188416


def test_facts_come_from_the_header() -> None:
    profile = derived(GEMMA_4_12B)
    assert profile.facts["hidden_size"].to_json() == {
        "value": 3840, "origin": "header", "where": "gemma4.embedding_length",
    }  # fmt: skip
    assert to_json(profile)["num_layers"]["window"] == 40


@pytest.mark.parametrize(
    ("change", "error", "path"),
    [
        ({"general.architecture": None}, BadGguf, "general.architecture"),
        ({"gemma4.block_count": None}, FieldMissing, "gemma4.block_count"),
        ({"gemma4.block_count": 0}, FieldInvalid, "gemma4.block_count"),
        ({"gemma4.block_count": "48"}, FieldInvalid, "gemma4.block_count"),
        ({"gemma4.block_count": 10**9}, FieldInvalid, "gemma4.block_count"),
        ({"gemma4.attention.key_length": -1}, FieldInvalid, "gemma4.attention.key_length"),
        ({PATTERN: (True,) * 6}, LayerCountMismatch, PATTERN),
        ({"gemma4.nextn_predict_layers": 49}, FieldInvalid, "gemma4.nextn_predict_layers"),
        ({"gemma4.attention.shared_kv_layers": 47}, FieldInvalid, "gemma4.attention.shared_kv_layers"),
    ],
)  # fmt: skip
def test_impossible_metadata_is_refused_by_key(change: dict[str, Any], error: type[Exception], path: str) -> None:
    raw = {k: v for k, v in {**GEMMA_4_12B, **change}.items() if v is not None}
    with pytest.raises(error) as refusal:
        derived(raw)
    assert refusal.value.path == path  # type: ignore[attr-defined]


def test_an_unknown_architecture_is_said_and_read_in_full() -> None:
    raw = {k.replace("glm4moe", "quux"): ("quux" if v == "glm4moe" else v) for k, v in GLM.items()}
    profile = derived(raw)
    assert "unknown-architecture" in {w.kind for w in profile.warnings}


def test_files_from_before_absorption_keep_full_heads() -> None:
    old = {
        "general.architecture": "deepseek2", "deepseek2.block_count": 61, "deepseek2.attention.head_count": 128,
        "deepseek2.attention.head_count_kv": 128, "deepseek2.attention.key_length": 192,
        "deepseek2.attention.value_length": 128, "deepseek2.attention.kv_lora_rank": 512,
    }  # fmt: skip
    absorbed = {
        **old, "deepseek2.attention.head_count_kv": 1, "deepseek2.attention.key_length": 576,
        "deepseek2.attention.value_length": 512, "deepseek2.attention.key_length_mla": 192,
        "deepseek2.attention.value_length_mla": 128,
    }  # fmt: skip
    assert kv_bytes(derived(old), max_model_len=4096) == 19520 * 2**20
    assert kv_bytes(derived(absorbed), max_model_len=4096) == round(274.5 * 2**20)


def test_a_file_on_disk_gives_layers_and_weights(tmp_path: Path) -> None:
    tensors = [
        ("token_embd.weight", (3840, 1000), 1),
        ("blk.0.attn_q.weight", (3840, 4096), 12),
        ("blk.0.ffn_up_exps.weight", (3840, 704, 8), 12),
        ("blk.1.ffn_up_exps.weight", (3840, 704, 8), 12),
        ("output_norm.weight", (3840,), 0),
    ]
    path = tmp_path / "gemma-Q4_K_M.gguf"
    path.write_bytes(header(GEMMA_4_12B, tensors))
    profile = inspect(str(path))
    (variant,) = profile.weights
    expert = 3840 // 256 * 144 * 704 * 8
    assert variant.num_bytes == 3840 * 1000 * 2 + 3840 // 256 * 144 * 4096 + 2 * expert + 3840 * 4
    assert variant.quantization == "q4_k"
    experts = [g for g in variant.groups if g.kind == "experts"]
    assert [(g.layers, g.num_bytes) for g in experts] == [((0, 1), expert)]
    assert len(profile.layers) == 48


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**12), st.floats(allow_nan=True), st.text(max_size=3),
    st.lists(st.integers(-1, 300), max_size=60).map(tuple), st.just(LongArray(10**6)),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_metadata_is_refused_or_read_and_never_raises_otherwise(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(evidence(small=True)["models"])))
    raw = metadata(evidence(small=True)["models"][name])
    for key in data.draw(st.lists(st.sampled_from(sorted(raw)), min_size=1, max_size=3)):
        raw[key] = data.draw(VALUES)
    raw = {k: v for k, v in raw.items() if v is not None}
    try:
        profile = derived(raw)
    except Refusal as refusal:
        assert refusal.path or refusal.message
        return
    to_json(profile)
    model_of(profile)


def test_the_parts_of_a_split_file_are_found_beside_it(tmp_path: Path) -> None:
    for index, tensors in enumerate(([("token_embd.weight", (3840, 100), 1)], [("output_norm.weight", (3840,), 0)])):
        split = {"split.no": index, "split.count": 2, "split.tensors.count": 2}
        raw = header({**(GEMMA_4_12B if index == 0 else {}), **split}, tensors)
        (tmp_path / f"m-0000{index + 1}-of-00002.gguf").write_bytes(raw)
    for source in (tmp_path, tmp_path / "m-00001-of-00002.gguf", tmp_path / "m-00002-of-00002.gguf"):
        (variant,) = inspect(str(source)).weights
        assert variant.num_bytes == 3840 * 100 * 2 + 3840 * 4
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(MissingShard):
        inspect(str(tmp_path))
