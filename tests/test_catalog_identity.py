"""Whose is an id? Overrides, anchors and schemas of a user's catalogue that stands over the shipped one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import call
from tiny_model import CONFIG

from onboard import catalog
from onboard.anchors import Reference, anchors_of
from onboard.catalog_paths import shipped
from onboard.profile import Profile, SourceRef
from onboard.values import replace

ID = "qwen3.6-27b"


def folder(root: Path, name: str, **changes: Any) -> Path:
    made = root / name
    made.mkdir(parents=True)
    (made / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return tmp_path


def test_a_shipped_override_speaks_of_the_shipped_source_only(home: Path) -> None:
    assert call("add", str(folder(home, "other")), "--id", ID, cwd=home).code == 0
    loaded = catalog.load(ID, str(home))
    assert loaded.outcomes == () and loaded.effective.drafters == () and loaded.effective.deployments == ()
    assert catalog.effective(ID, str(home)).deployments == ()
    assert call("check", ID, cwd=home).code == 0
    listed = call("list", "--json", cwd=home).json["models"]
    assert next(e for e in listed if e["id"] == ID)["num_anchors"] == 0
    (home / "overrides").mkdir()
    (home / "overrides" / f"{ID}.yaml").write_text(
        f"model: {ID}\noverrides:\n- {{path: facts.max_model_len, was: 4096, to: 2048, why: mine}}\n"
    )
    assert catalog.effective(ID, str(home)).fact("max_model_len") == 2048, "the user's own still applies"


@pytest.mark.parametrize("how", ["repository", "config"])
def test_the_shipped_override_goes_with_its_model(how: str, home: Path) -> None:
    text = (shipped("profiles") / f"{ID}.yaml").read_text()
    source = catalog.shipped_source(ID)
    assert source is not None and source.config_sha256 is not None
    if how == "repository":
        text = text.replace(source.config_sha256, "a1" * 32).replace("name: Qwen/Qwen3.6-27B", "name: qwen/QWEN3.6-27b")
    else:
        text = text.replace("name: Qwen/Qwen3.6-27B", "name: copy")
    (home / "profiles").mkdir()
    (home / "profiles" / f"{ID}.yaml").write_text(text)
    assert catalog.effective(ID, str(home)).deployments


def named(name: str, source: str) -> Profile:
    known = catalog.read_profile(shipped("profiles") / f"{ID}.yaml")
    return replace(known, id=name, source=SourceRef(kind="hub", name=source))


@pytest.mark.parametrize(
    ("model", "beneath", "profile", "is_its"),
    [
        (ID, True, (ID, "Qwen/Qwen3.6-27B"), True),
        (ID, True, ("mine", "qwen/qwen3.6-27b"), True),
        (ID, True, (ID, "Qwen/Qwen3-32B"), False),
        ("Qwen/Qwen3.6-27B", True, ("mine", "Qwen/qwen3.6-27B"), True),
        ("Qwen/Qwen3.6-27B", True, (ID, "Qwen/Qwen3-32B"), False),
        ("Qwen3-14B", True, ("mine", "Qwen/Qwen3-14B"), True),
        ("mine", True, ("mine", "Qwen/Qwen3-14B"), False),
        ("mine", False, ("mine", "Qwen/Qwen3-14B"), True),
        ("mine", False, ("other", "Qwen/Qwen3-14B"), False),
    ],
)
def test_an_anchor_counts_for_the_model_it_names(
    model: str, beneath: bool, profile: tuple[str, str], is_its: bool
) -> None:
    assert anchors_of(named(*profile), {Reference(model, beneath): 5}) == 5 * is_its


def test_an_id_is_not_written_over_by_another_model(home: Path) -> None:
    first, second = folder(home, "first"), folder(home, "second", num_hidden_layers=6)
    assert call("add", str(first), "--id", "x", cwd=home).code == 0
    before = (home / "profiles" / "x.yaml").read_bytes()
    refused = call("add", str(second), "--id", "x", cwd=home)
    assert refused.code == 2
    assert all(word in refused.err for word in ("UsageError", "first", "second", "--replace"))
    assert (home / "profiles" / "x.yaml").read_bytes() == before
    (first / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 5}))
    assert call("add", str(first), "--id", "x", cwd=home).code == 0, "a newer revision of the same source"
    assert call("add", str(second), "--id", "x", "--replace", cwd=home).code == 0
    assert len(catalog.effective("x", str(home)).layers) == 6


def test_refresh_all_is_the_users_and_goes_on_after_a_source_that_is_gone(home: Path) -> None:
    assert call("refresh", "--all", "--check", cwd=home).code == 0, "nothing of the user's"
    for name in ("a", "b"):
        assert call("add", str(folder(home, name)), cwd=home).code == 0
    assert call("refresh", "--all", "--check", cwd=home).code == 0
    (home / "a" / "config.json").unlink()
    (home / "b" / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 5}))
    done = call("refresh", "--all", "--check", cwd=home)
    assert done.code == 3 and "ConfigMissing" in done.err and "b: " in done.out and "drifted" in done.out
    found = call("refresh", "--all", "--json", cwd=home)
    assert found.code == 3
    assert [set(m) for m in found.json["models"]] == [{"id", "error"}, {"id", "changes"}]
    assert len(catalog.effective("b", str(home)).layers) == 5


def test_the_schema_that_line_1_names_is_there(home: Path) -> None:
    assert call("add", str(folder(home, "model")), "--catalog", "cat", cwd=home).code == 0
    profile = home / "cat" / "profiles" / "model.yaml"
    line = profile.read_text().splitlines()[0]
    schema = profile.parent / line.partition("$schema=")[2]
    assert schema.read_text() == (shipped("schema") / "profile.schema.json").read_text()
    schema.write_text("{}")
    assert call("add", str(home / "model"), "--catalog", "cat", cwd=home).code == 0
    assert len(schema.read_text()) > 2, "brought up to date"
    beside = {p.name for p in (home / "cat" / "schema").iterdir()}
    assert beside == {p.name for p in shipped("schema").iterdir()}


def test_a_prediction_says_which_override_has_gone_stale(home: Path) -> None:
    assert call("add", str(folder(home, "x")), cwd=home).code == 0
    (home / "overrides").mkdir()
    file = home / "overrides" / "x.yaml"
    asked = ("predict", "x", "--card", "rtx-3090", "--json")
    text = "model: x\noverrides:\n- {path: facts.max_model_len, was: %d, to: 2048, why: w}\n"
    for was, told in ((4096, []), (8192, ["stale-override"])):
        file.write_text(text % was)
        notes = call(*asked, cwd=home, program="calc").json["notes"]
        found = [n for n in notes if n["kind"] == "stale-override"]
        assert [n["kind"] for n in found] == told
        assert all("facts.max_model_len" in n["message"] and "onboard diff x" in n["message"] for n in found)


def test_an_override_file_without_anything_is_a_problem(home: Path) -> None:
    assert call("add", str(folder(home, "x")), cwd=home).code == 0
    (home / "overrides").mkdir()
    (home / "overrides" / "x.yaml").write_text("# nothing yet\n")
    found = call("check", "x", "--json", cwd=home)
    assert found.code == 1 and [p["kind"] for p in found.json["problems"]] == ["empty"]


def test_a_link_to_itself_does_not_hide_the_model_beside_it(home: Path) -> None:
    made = folder(home, "x")
    (made / "loop.json").symlink_to(made / "loop.json")
    (made / "gone.safetensors").symlink_to(made / "nowhere")
    assert call("inspect", str(made), cwd=home).code == 0


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("onboard", ("inspect", "")),
        ("onboard", ("add", "x", "--catalog", "")),
        ("calc", ("predict", "", "--card", "rtx-3090")),
        ("calc", ("predict", "x", "--card", "rtx-3090", "--catalog", "")),
    ],
)
def test_nothing_is_not_the_current_folder(program: str, arguments: tuple[str, ...], home: Path) -> None:
    folder(home, "x")
    done = call(*arguments, cwd=home, program=program)
    assert done.code == 2 and "empty" in done.err
    assert not (home / "profiles").exists()


def test_a_number_in_quotes_is_told_apart(home: Path) -> None:
    done = call("inspect", str(folder(home, "x", hidden_size="64")), cwd=home)
    assert done.code == 3 and '(value: "64")' in done.err and "write 64 without quotes" in done.err


def test_a_name_cannot_break_the_title(home: Path) -> None:
    done = call("inspect", str(folder(home, "x", model_type="a\nb\u202ec")), cwd=home)
    assert done.code == 0
    title = done.out.splitlines()[0]
    assert title.startswith("x: a b\\x202ec")


@pytest.mark.parametrize(
    ("path", "was", "to"),
    [("layers.full.k_dim", 16, "wide"), ("weights.config.num_bytes", 1, -4)],
)
def test_a_refused_override_names_its_field_once(path: str, was: int, to: object, home: Path) -> None:
    assert call("add", str(folder(home, "x")), cwd=home).code == 0
    (home / "overrides").mkdir()
    (home / "overrides" / "x.yaml").write_text(
        f"model: x\noverrides:\n- {{path: {path}, was: {was}, to: {json.dumps(to)}, why: w}}\n"
    )
    assert call("inspect", "x", "--json", cwd=home).json["error"]["path"] == path


def test_messages_name_the_folder_and_print_no_escapes(home: Path) -> None:
    assert call("add", str(folder(home, "x")), cwd=home).code == 0
    (home / "overrides").mkdir()
    (home / "overrides" / "x.yaml").write_text("a: &a 1\nb: *a\n")
    assert "overrides/x.yaml uses anchors" in call("inspect", "x", cwd=home).err
    assert "\\x09" not in call("solve", "x", cwd=home, program="calc").err
    unread = call("bootlog", "no.log", "--model", "x", "--json", cwd=home, program="calc")
    assert (unread.code, unread.json["error"]["kind"]) == (3, "BadLog")


def test_a_prediction_of_another_model_takes_no_credit_for_the_ids_anchors(home: Path) -> None:
    assert call("add", str(folder(home, "other")), "--id", ID, cwd=home).code == 0
    done = call("predict", ID, "--card", "rtx-3090", "--json", cwd=home, program="calc")
    assert done.json["calibration"]["num_anchors"] == 0
    (home / "profiles" / f"{ID}.yaml").unlink()
    shipped_one = call("predict", ID, "--card", "rtx-3090", "--tp", "2", "--json", cwd=home, program="calc")
    assert shipped_one.json["calibration"]["num_anchors"] > 0
