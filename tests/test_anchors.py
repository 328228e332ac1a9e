"""Anchors: every shipped file is sound, and a wrong one is told apart with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from onboard.anchor_checks import check_anchor
from onboard.anchor_file import Anchor, anchor_of, append_anchor, dump_anchors, load_anchors, read_anchors
from onboard.anchors import anchor_files
from onboard.errors import BadAnchor
from onboard.open import load_profile
from onboard.values import replace
from onboard.yamlio import load
from tests.commands import ROOT, run
from tests.shared import SHARED, needs_shared

ANCHORS = load_anchors()
BY_ID = {a.id: a for a in ANCHORS}
LLAMA = BY_ID["a081"]
GEMMA = BY_ID["s07"]


def problems(anchor: Anchor, model: str | None = None) -> list[str]:
    return [f"{p.field}: {p.message}" for p in check_anchor(anchor, load_profile(model) if model else None)]


def printed(anchor: Anchor, **figures: Any) -> Anchor:
    return replace(anchor, printed={**anchor.printed, **figures})


def flags(anchor: Anchor, **values: Any) -> Anchor:
    return replace(anchor, flags={**anchor.flags, **values})


# --- the shipped ones -----------------------------------------------------------------------------------------------


def test_every_shipped_anchor_is_sound() -> None:
    assert len(ANCHORS) >= 240
    assert {a.id: problems(a) for a in ANCHORS if problems(a)} == {}


def test_ids_are_unique_over_files() -> None:
    ids = [a.id for path in anchor_files() for a in read_anchors(path)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", anchor_files(), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_files_follow_the_schema(path: Path) -> None:
    schema = json.loads((ROOT / "schema" / "anchor.schema.json").read_text())
    assert list(Draft202012Validator(schema).iter_errors(load(path))) == []


def test_nothing_derived_is_kept() -> None:
    """Residuals, deltas and predictions of the evidence stay out."""
    for anchor in ANCHORS:
        assert not [k for k in anchor.printed if any(w in k for w in ("residual", "delta", "predicted", "analysis"))]


def test_the_specifications_17_rows_are_there() -> None:
    assert len([a for a in ANCHORS if a.set == "specification"]) == 17


@needs_shared
def test_the_shipped_files_are_what_the_evidence_gives(tmp_path: Path) -> None:
    from tools.import_anchors import main

    main(str(SHARED / "evidence"), str(tmp_path))
    written = {p.relative_to(tmp_path): p.read_text() for p in tmp_path.glob("*/*.yaml")}
    assert written == {p.relative_to(ROOT / "calibration"): p.read_text() for p in anchor_files()}


# --- wrong ones -----------------------------------------------------------------------------------------------------


def test_bytes_for_gib() -> None:
    wrong = printed(LLAMA, available_gib=55_168_000_000)
    assert problems(wrong) == ["printed.available_gib: 5.5168e+10 GiB cannot be: that many bytes are 51.38 GiB"]


def test_mib_for_gib() -> None:
    assert "as MiB it is 14.99 GiB" in problems(printed(LLAMA, weights_gib=15350))[0]


@pytest.mark.parametrize("name", ["tensor_parallel_size", "max_num_seqs", "gpu_memory_utilization", "max_model_len"])
def test_a_missing_flag(name: str) -> None:
    wrong = replace(LLAMA, flags={k: v for k, v in LLAMA.flags.items() if k != name})
    assert [p for p in problems(wrong) if p.startswith(f"flags.{name}: missing")]
    assert problems(replace(wrong, how={**LLAMA.how, name: "not printed"})) == []


def test_a_missing_version() -> None:
    assert problems(replace(LLAMA, version=""))[0].startswith("version: ")


def test_swapped_batch_flags() -> None:
    assert "swapped" in problems(flags(LLAMA, max_num_seqs=8192, max_num_batched_tokens=1024))[0]


def test_a_percentage_for_a_share() -> None:
    assert problems(flags(LLAMA, gpu_memory_utilization=90))[0].startswith("flags.gpu_memory_utilization")


def test_another_boots_utilisation() -> None:
    assert "add up to" in problems(flags(LLAMA, gpu_memory_utilization=0.95))[0]


def test_another_boots_context() -> None:
    boot = BY_ID["h14"]
    boot = replace(boot, version="0.24.0")
    assert problems(boot) == []
    assert "contradict each other" in problems(flags(boot, max_model_len=32768))[0]


def test_the_length_the_log_speaks_of() -> None:
    boot = BY_ID["v19"]
    assert "the log speaks of 32768" in problems(flags(boot, max_model_len=8192))[0]


def test_another_models_log() -> None:
    """Qwen3-14B's log under the name of models whose caches take less a token."""
    log = BY_ID["v12"]  # Qwen3-14B: 163,840 B a token
    wrong = replace(log, version="0.24.0")
    assert [p for p in problems(wrong, "qwen3.6-35b-a3b") if "another model's log" in p]
    assert [p for p in problems(flags(wrong, tensor_parallel_size=4), "gemma-4-26b-a4b") if "another model's log" in p]


def test_another_models_weights() -> None:
    boot = printed(BY_ID["a169"], weights_gib=120.0, total_gib=140.0)
    assert [p for p in problems(boot, "qwen3.6-27b") if p.startswith("printed.weights_gib")]
    assert problems(BY_ID["a169"], "qwen3.6-27b") == []


def test_another_tensor_parallel_size() -> None:
    assert "tensor_parallel_size is another boot's" in problems(flags(LLAMA, tensor_parallel_size=2))[0]


@pytest.mark.parametrize("seqs", [16, 4096])
def test_another_number_of_sequences(seqs: int) -> None:
    wrong = flags(LLAMA, max_num_seqs=seqs)
    assert [p for p in problems(wrong) if "max_num_seqs or max_num_batched_tokens is another boot's" in p]


# --- files ----------------------------------------------------------------------------------------------------------


def anchor_data(**changes: Any) -> dict[str, Any]:
    return {
        "id": "mine", "thread": "local", "engine": "vllm", "version": "0.24.0", "model": "qwen3.6-27b",
        "flags": {
            "tensor_parallel_size": 2, "max_model_len": 32768, "gpu_memory_utilization": 0.9, "max_num_seqs": 4,
            "max_num_batched_tokens": 2048, "kv_cache_dtype": "auto",
        },
        "printed": {"available_gib": 11.2}, "source": "my machine", **changes,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["id", "thread", "engine", "model", "flags", "printed", "source"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    data = {k: v for k, v in anchor_data().items() if k != name}
    with pytest.raises(BadAnchor, match=name):
        anchor_of(data)


def test_a_field_that_is_unknown_or_mistyped_is_named() -> None:
    with pytest.raises(BadAnchor, match="no field 'residual_gib'"):
        anchor_of(anchor_data(residual_gib=3.0))
    with pytest.raises(BadAnchor, match="flags must be a mapping"):
        anchor_of(anchor_data(flags=[1]))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"flags": {"tensor_parallel_size": "two"}}, "flags.tensor_parallel_size"),
        ({"flags": {"max_num_seqs": 2**60}}, "flags.max_num_seqs"),
        ({"flags": {"gpu_memory_utilization": True}}, "flags.gpu_memory_utilization"),
        ({"printed": {"available_gib": float("nan")}}, "printed.available_gib"),
        ({"printed": {"available_gib": "about eleven"}}, "printed.available_gib"),
        ({"geometry": {"hidden": -5}}, "geometry.hidden"),
        ({"geometry": {"delta": [1, 2]}}, "geometry.delta"),
    ],
)
def test_a_value_that_is_no_such_number_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadAnchor, match=field):
        anchor_of(anchor_data(**changes))


def test_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    dump_anchors(path, [anchor_data(note='a "quoted" – note'), anchor_data(id="other")])
    assert [a.id for a in read_anchors(path)] == ["mine", "other"]
    assert read_anchors(path)[0] == anchor_of(anchor_data(note='a "quoted" – note'))


def test_appending_replaces_the_same_id(tmp_path: Path) -> None:
    append_anchor(tmp_path, anchor_data())
    append_anchor(tmp_path, anchor_data(id="second"))
    path = append_anchor(tmp_path, anchor_data(printed={"available_gib": 11.5}))
    assert path.parent == tmp_path / "calibration" / "vllm"
    assert sorted(a.id for a in read_anchors(path)) == ["mine", "second"]
    assert {a.printed["available_gib"] for a in read_anchors(path) if a.id == "mine"} == {11.5}


def test_onboard_check_refuses_a_wrong_anchor(tmp_path: Path) -> None:
    append_anchor(tmp_path, anchor_data(printed={"available_gib": 12_000_000_000}))
    done = run("check", "--catalog", str(tmp_path), cwd=tmp_path)
    assert done.code == 1
    assert "mine.printed.available_gib" in done.out
    assert "11.18 GiB" in done.out
