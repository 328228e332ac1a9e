"""The JSON schemas: valid, closed, the same as the classes that read the files, and kept by every shipped file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from onboard.errors import Refusal
from onboard.profile_yaml import from_data, to_data
from onboard.read import read_source
from onboard.yamlio import load
from tests.commands import ROOT
from tests.shared import SHARED, needs_shared

SCHEMAS = sorted((ROOT / "schema").glob("*.schema.json"))
FOLDERS = {"profile": "profiles", "override": "overrides", "card": "cards", "anchor": "calibration"}


def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads((ROOT / "schema" / f"{name}.schema.json").read_text()))


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda p: p.name)
def test_a_schema_is_a_schema_and_lets_no_unknown_key_pass(path: Path) -> None:
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False


def test_the_schemas_are_what_the_classes_say() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import write_schemas
    finally:
        sys.path.pop(0)
    for name, build in write_schemas.SCHEMAS.items():
        on_disk = (ROOT / "schema" / name).read_text()
        assert on_disk == write_schemas.text(build()), f"{name}: run tools/write_schemas.py"


FILES = [(kind, p) for kind, folder in FOLDERS.items() for p in sorted((ROOT / folder).rglob("*.yaml"))]


@pytest.mark.parametrize(
    ("kind", "path"), [f for f in FILES if f[0] != "card"], ids=lambda v: v.name if isinstance(v, Path) else v
)
def test_every_data_file_names_its_schema_on_line_1_and_keeps_it(kind: str, path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    up = "../" * (len(path.relative_to(ROOT).parts) - 1)
    assert first == f"# yaml-language-server: $schema={up}schema/{kind}.schema.json"
    errors = [f"{e.json_path}: {e.message[:200]}" for e in validator(kind).iter_errors(load(path))]
    assert errors == []


def test_a_broken_profile_is_refused_by_schema_and_reader_alike() -> None:
    data = load(ROOT / "profiles" / "gemma-4-31b.yaml")

    def broken(change: Any) -> Any:
        copy = json.loads(json.dumps(data))
        change(copy)
        return copy

    for change in (
        lambda d: d.update(extra=1),
        lambda d: d.pop("layers"),
        lambda d: d["layers"][0].update(kind="full"),
        lambda d: d["layers"][0]["caches"][0].update(type="Magic"),
        lambda d: d["layers"][0]["caches"][0].update(num_kv_heads="four"),
        lambda d: d["layers"][0]["caches"][0].pop("k_dim"),
        lambda d: d["facts"]["dtype"].update(origin="guess"),
        lambda d: d["source"].update(kind=3),
    ):
        damaged = broken(change)
        assert list(validator("profile").iter_errors(damaged))
        with pytest.raises(Refusal):
            from_data(damaged)


@needs_shared
def test_every_corpus_profile_keeps_the_schema() -> None:
    check = validator("profile")
    seen = 0
    for folder in sorted((SHARED / "corpus").iterdir())[::4]:
        if not folder.is_dir():
            continue
        try:
            data = json.loads(json.dumps(to_data(read_source(str(folder)))))
        except Refusal:
            continue
        assert [f"{e.json_path}: {e.message[:200]}" for e in check.iter_errors(data)] == [], folder.name
        seen += 1
    assert seen > 40
