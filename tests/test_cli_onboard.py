"""The `onboard` command line, run as a user runs it: answers, exit codes, and bad input of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ROOT, call, run
from tests.shared import SHARED, needs_shared
from tests.tiny_model import CONFIG


def model(root: Path, text: str | bytes | None = None, **changes: Any) -> Path:
    made = root / "model"
    made.mkdir(exist_ok=True)
    data = json.dumps({**CONFIG, **changes}) if text is None else text
    (made / "config.json").write_bytes(data if isinstance(data, bytes) else data.encode())
    return made


def test_the_main_job(tmp_path: Path) -> None:
    source = str(model(tmp_path))
    assert run("inspect", source, cwd=tmp_path).code == 0
    assert not (tmp_path / "profiles").exists(), "inspect writes nothing"
    added = run("add", source, "--id", "x", cwd=tmp_path)
    assert added.code == 0
    assert "profiles/x.yaml" in added.out
    (tmp_path / "overrides").mkdir()
    (tmp_path / "overrides" / "x.yaml").write_text(
        "model: x\noverrides:\n- path: facts.max_model_len\n  was: 4096\n  to: 2048\n  why: served so\n  link: https://example.org\n"
    )
    diff = run("diff", "x", "--json", cwd=tmp_path)
    assert diff.code == 0
    assert diff.json == {
        "fields": [
            {
                "path": "facts.max_model_len",
                "generated": 4096,
                "override": 2048,
                "effective": 2048,
                "status": "active",
                "why": "served so",
                "link": "https://example.org",
            }
        ]
    }
    assert run("diff", "x", "--format", "json", cwd=tmp_path).out == diff.out
    assert (
        "| facts.max_model_len | 4096 | 2048 | 2048 | active |"
        in run("diff", "x", "--format", "markdown", cwd=tmp_path).out
    )
    shown = run("show", "x", cwd=tmp_path).out
    assert "max_model_len" in shown and "override" in shown and "overrides/x.yaml" in shown
    assert run("show", "x", "--json", cwd=tmp_path).json["facts"]["max_model_len"]["origin"] == "override"
    assert run("inspect", "x", "--json", cwd=tmp_path).json["max_model_len"] == 2048
    assert run("check", "x", cwd=tmp_path).code == 0
    assert run("refresh", "x", "--check", cwd=tmp_path).code == 0
    assert "x" in run("list", cwd=tmp_path).out
    model(tmp_path, num_hidden_layers=5, max_position_embeddings=8192)
    drift = run("refresh", "x", "--check", cwd=tmp_path)
    assert drift.code == 1 and "drifted" in drift.out
    assert run("refresh", "x", cwd=tmp_path).code == 0
    stale = run("diff", "x", cwd=tmp_path)
    assert stale.code == 1 and "stale" in stale.out
    assert run("check", "x", "--json", cwd=tmp_path).json["problems"][0]["kind"] == "stale"


def test_the_catalogue_may_be_named(tmp_path: Path) -> None:
    source = str(model(tmp_path))
    there = tmp_path / "there"
    assert run("add", source, "--id", "x", "--catalog", str(there), cwd=tmp_path).code == 0
    assert (there / "profiles" / "x.yaml").is_file()
    assert run("show", "x", cwd=tmp_path).code == 3
    env = {**os.environ, "ONBOARD_CATALOG": str(there), "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path / "c")}
    assert run("show", "x", cwd=tmp_path, env=env).code == 0
    assert run("refresh", "x", "--check", cwd=tmp_path, env=env).code == 0, "its location is relative to the catalogue"


def test_piped_output_has_no_colour_codes_and_imports_no_rich(tmp_path: Path) -> None:
    done = run("list", cwd=tmp_path)
    assert "\x1b" not in done.out
    code = (
        "import sys; sys.argv[:] = ['onboard', 'show', 'qwen3.6-27b']; from onboard.cli import main\n"
        "try: main()\nexcept SystemExit as e: assert not e.code\n"
        "bad = {'rich', 'ruamel', 'jsonschema', 'huggingface_hub', 'transformers'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    for attempt in ("cold", "warm"):
        if attempt == "cold":
            subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, check=False)
            continue
        done_again = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done_again.returncode == 0, done_again.stderr


def deep(text: str) -> bytes:
    return ("{" + f'"a": {text}' + "}").encode()


BAD: dict[str, tuple[str | bytes | None, dict[str, Any], str, str]] = {
    "cut off": (json.dumps(CONFIG)[:60], {}, "NotJson", "cut off"),
    "a list": ("[]", {}, "NotAMapping", "object"),
    "empty": ("", {}, "NotJson", "empty"),
    "binary": (bytes(range(256)), {}, "NotJson", "UTF-8"),
    "another encoding": (json.dumps(CONFIG).encode("utf-16"), {}, "NotJson", "UTF-8"),
    "a key twice": ('{"num_hidden_layers": 1, "num_hidden_layers": 2}', {}, "DuplicateKey", "num_hidden_layers"),
    "deep": (deep("[" * 100_000), {}, "TooLarge", "nests"),
    "a long integer": (deep("9" * 5000), {}, "TooLarge", "5000 digits"),
    "negative layers": (None, {"num_hidden_layers": -4}, "FieldInvalid", "num_hidden_layers"),
    "no layers": (None, {"num_hidden_layers": 0}, "FieldInvalid", "num_hidden_layers"),
    "half a layer": (None, {"num_hidden_layers": 2.5}, "FieldInvalid", "num_hidden_layers"),
    "layers in words": (None, {"num_hidden_layers": "four"}, "FieldInvalid", "num_hidden_layers"),
    "endless layers": (None, {"num_hidden_layers": float("inf")}, "FieldInvalid", "num_hidden_layers"),
    "too many heads": (None, {"num_key_value_heads": 10**30}, "FieldInvalid", "num_key_value_heads"),
    "a short list": (None, {"layer_types": ["full_attention"] * 3}, "LayerCountMismatch", "layer_types"),
    "an unknown kind": (None, {"layer_types": ["full_attention"] * 3 + ["magic"]}, "UnknownLayerKind", "magic"),
    "a window nowhere": (
        None,
        {"layer_types": ["sliding_attention"] * 4, "sliding_window": None},
        "WindowMissing",
        "sliding_window",
    ),
    "nothing at all": ("{}", {}, "FieldMissing", "num_hidden_layers"),
    "control characters": (None, {"layer_types": ["\x1b[31mred\x07"] * 4}, "UnknownLayerKind", "red"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_config_is_one_paragraph_and_exit_3(name: str, tmp_path: Path) -> None:
    text, changes, kind, says = BAD[name]
    source = str(model(tmp_path, text, **changes))
    done = call("add", source, cwd=tmp_path)
    assert done.code == 3
    assert done.out == ""
    assert done.err.startswith(f"{kind}: ")
    assert says in done.err
    assert 1 <= len(done.err.splitlines()) <= 3
    assert "\x1b" not in done.err
    assert not (tmp_path / "profiles").exists()
    as_json = call("inspect", source, "--json", cwd=tmp_path)
    assert as_json.code == 3
    assert set(as_json.json["error"]) == {"kind", "path", "value", "message", "hint"}
    assert as_json.json["error"]["kind"] == kind


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["inspect"], 2, "SOURCE"),
        (["inspect", "a", "b"], 2, "unexpected"),
        (["inspect", "--nonsense", "x"], 2, "--nonsense"),
        (["frobnicate"], 2, "frobnicate"),
        ([], 2, "Commands"),
        (["diff", "x", "--format", "xml"], 2, "xml"),
        (["refresh"], 2, "--all"),
        (["refresh", "x", "--all"], 2, "--all"),
        (["inspect", "no-such-model"], 3, "onboard list"),
        (["inspect", "./nowhere"], 3, "neither"),
        (["inspect", "a/b/c"], 3, "neither"),
        (["inspect", "\x00"], 3, ""),
        (["inspect", "x" * 5000], 3, ""),
        (["inspect", "https://example.org/org/name"], 3, "not the Hub"),
        (["inspect", "org/name"], 4, "HF_HUB_OFFLINE"),
        (["inspect", "org/name:model.gguf"], 4, "HF_HUB_OFFLINE"),
        (["show", "qwen3.6-72b"], 3, "qwen3.6-27b"),
        (["diff", "../x"], 3, "no profile"),
        (["check", "nothing-here"], 3, "no profile"),
        (["add", "empty"], 3, "config.json"),
        (["inspect", "empty"], 3, "config.json"),
        (["inspect", "file.gguf"], 3, "BadGguf"),
        (["inspect", "secret.json"], 3, ""),
        (["inspect", "pipe"], 3, "regular file"),
        (["inspect", "/dev/zero"], 3, "regular file"),
        (["add", "good", "--id", "../../x"], 2, "cannot be an id"),
        (["add", "good", "--catalog", "file.gguf"], 3, "NotWritable"),
        (["add", "good", "--catalog", "/proc/none"], 3, "NotWritable"),
    ],
    ids=lambda v: " ".join(v)[:40] if isinstance(v, list) else None,
)
def test_bad_usage(arguments: list[str], code: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "file.gguf").write_bytes(b"not a gguf file at all")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "secret.json").chmod(0)
    if any("\x00" in a for a in arguments):
        arguments = [
            a.replace("\x00", "\udcff") for a in arguments
        ]  # a process cannot be given a NUL; bad UTF-8 it can
    done = call(*arguments, cwd=tmp_path)
    assert done.code == code, done.err
    assert says in done.err
    if arguments and code != 2:
        in_json = call(*arguments, "--json", cwd=tmp_path)
        assert in_json.code == code
        assert set(in_json.json) == {"error"}


BAD_FILES: dict[str, tuple[str, str, str]] = {
    "an override that is a bomb": ("overrides/x.yaml", "a: &a [1]\nb: *a\n", "BadYaml"),
    "an override with a key twice": ("overrides/x.yaml", "model: x\nmodel: x\n", "DuplicateKey"),
    "an override of nothing": (
        "overrides/x.yaml",
        "model: x\noverrides:\n- {path: facts.nope, was: 1, to: 2, why: w}\n",
        "BadOverride",
    ),
    "an override of another model": ("overrides/x.yaml", "model: y\noverrides: []\n", "BadOverride"),
    "an override that is a list": ("overrides/x.yaml", "- 1\n", "BadOverride"),
    "two claims on one value": (
        "overrides/x.yaml",
        "model: x\noverrides:\n- {path: facts.vocab_size, was: 256, to: 1, why: a}\n"
        "- {path: facts.vocab_size, was: 256, to: 2, why: b}\n",
        "BadOverride",
    ),
    "a profile that is not YAML": ("profiles/x.yaml", "a: [\n", "BadYaml"),
    "a profile of another version": ("profiles/x.yaml", "schema_version: 9\n", "BadProfile"),
    "a profile under another name": ("profiles/x.yaml", "", "BadProfile"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_of_the_catalogue_is_named(name: str, tmp_path: Path) -> None:
    assert call("add", str(model(tmp_path)), "--id", "x", cwd=tmp_path).code == 0
    (tmp_path / "overrides").mkdir()
    place, text, kind = BAD_FILES[name]
    text = text or (tmp_path / "profiles" / "x.yaml").read_text().replace("id: x\n", "id: z\n")
    (tmp_path / place).write_text(text)
    done = call("inspect", "x", "--json", cwd=tmp_path)
    assert (done.code, done.json["error"]["kind"]) == (3, kind)
    checked = call("check", "x", "--json", cwd=tmp_path)
    assert checked.code == 1
    assert kind in {p["kind"] for p in checked.json["problems"]} | (
        {"BadOverride"} if "conflict" in checked.out else set()
    )
    assert (tmp_path / place).read_text() == text


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv[:] = ['onboard', 'show', 'gemma-4-31b', '--json']; from onboard.cli import main; main()"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    piped = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{code}" | head -c 10; echo ${{PIPESTATUS[0]}}'],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert piped.stderr == ""
    assert piped.stdout.endswith("0\n")


def test_a_terminal_without_utf8_still_gets_an_answer(tmp_path: Path) -> None:
    source = str(model(tmp_path, model_type="llama\u2028é\u4e2d"))
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path)}
    assert run("inspect", source, cwd=tmp_path, env=env).code == 0


def test_every_command_has_help(tmp_path: Path) -> None:
    from onboard.cli import COMMANDS

    for name in COMMANDS:
        done = call(name, "--help", cwd=tmp_path)
        assert done.code == 0
        assert "Usage: onboard" in done.out


@needs_shared
def test_the_specifications_models(tmp_path: Path) -> None:
    """Issue 2's figures, from the configs themselves and from the shipped profiles."""
    expected = {
        "google__gemma-4-31B-it": ("gemma-4-31b", 40_960, {"full": 10, "window": 50}, 0),
        "Qwen__Qwen3.6-27B": ("qwen3.6-27b", 32_768, {"full": 16, "state": 48}, 39_223_296),
        "Qwen__Qwen3.6-35B-A3B": ("qwen3.6-35b-a3b", 10_240, {"full": 10, "state": 30}, None),
        "google__gemma-4-26B-A4B-it": ("gemma-4-26b-a4b", 10_240, {"full": 5, "window": 25}, 0),
    }
    for folder, (model_id, growing, kinds, state) in expected.items():
        for source in (str(SHARED / "corpus" / folder), model_id):
            shown = call("inspect", source, "--json", cwd=tmp_path).json
            assert shown["cache"]["growing_elements_per_token"] == growing
            assert {k: n for k, n in shown["num_layers"].items() if n and k != "total"} == kinds
            if state is not None:
                assert shown["cache"]["state_elements_per_sequence"] == state
