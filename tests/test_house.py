"""The floor plan, kept by machine: which way imports point, how large modules are, that every data file loads."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT

from onboard import cli as onboard_cli
from onboard.yamlio import load

MODULES = sorted(p for package in ("onboard", "calc") for p in (ROOT / package).rglob("*.py"))
MAX_LINES = 300
LARGER = {
    "onboard.gguf.converter": "one table: llama.cpp's converter classes by architecture",
    "calc.engines.llamacpp.model": "one reading of a profile as llama.cpp sees it",
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, lazy: bool = True) -> Iterator[str]:
    """Absolute names that a module imports; without `lazy` only those at import time (TYPE_CHECKING left out)."""

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if not lazy and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            yield child
            yield from walk(child)

    for node in walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


ALL = {name_of(p): (set(imports(p)), set(imports(p, lazy=False))) for p in MODULES}


def importers(target: str) -> set[str]:
    """Modules that import `target` or anything below it."""
    return {name for name, (found, _) in ALL.items() if any(i == target or i.startswith(target + ".") for i in found)}


def allowed(found: set[str], *prefixes: str) -> set[str]:
    return {name for name in found if not any(name == p or name.startswith(p + ".") for p in prefixes)}


READS_OPTIONS = ("calc.commandline",)  # reads an engine's command line with the very options of the commands


def test_onboard_never_imports_calc() -> None:
    assert {n for n in importers("calc") if n.startswith("onboard")} == set()


def test_nothing_imports_a_command_or_a_cli() -> None:
    assert allowed(importers("onboard.cli") | importers("onboard.commands"), "onboard.commands") == set()
    assert allowed(importers("calc.cli") | importers("calc.commands"), "calc.commands", *READS_OPTIONS) == set()


@pytest.mark.parametrize("library", ["huggingface_hub", "httpx", "requests", "urllib.request", "socket", "http"])
def test_only_the_sources_touch_the_network(library: str) -> None:
    assert allowed(importers(library), "onboard.sources") == set()


def test_only_yamlio_touches_yaml() -> None:
    assert importers("ruamel") | importers("yaml") == {"onboard.yamlio"}


def test_only_one_place_reads_transformers_and_nothing_knows_torch() -> None:
    readers = importers("transformers")
    assert len(readers) <= 1 and all(r.startswith("onboard.class_") for r in readers), readers
    assert importers("torch") == set()


def test_only_tables_import_rich() -> None:
    assert allowed(importers("rich"), "onboard.text_table", "calc.report", "onboard.progress", "calc.plot") == set()


def test_what_is_architecture_knows_no_reader_and_no_text() -> None:
    """layers, states, profile and the rules see no file, no YAML, no network and no command line."""
    low = ("onboard.layers", "onboard.states", "onboard.profile", "onboard.facts", "onboard.fields", "onboard.rules")
    high = (
        "onboard.sources",
        "onboard.yamlio",
        "onboard.catalog",
        "onboard.onboarding",
        "onboard.report",
        "onboard.console",
        "onboard.read",
        "click",
    )
    wrong = {
        (m, h) for m in ALL for h in high if any(m == p or m.startswith(p + ".") for p in low) and m in importers(h)
    }
    assert wrong == set()


def test_only_commands_reports_and_the_console_print() -> None:
    """click is the command line's; the engines, the rules and the terms only return values."""
    may = (
        *READS_OPTIONS,
        "onboard.commands",
        "calc.commands",
        "onboard.console",
        "onboard.report",
        "calc.report",
        "onboard.text_table",
        "onboard.progress",
        "onboard.cli",
        "calc.cli",
    )
    assert {m for m in allowed(importers("click"), *may) if "report" not in m} == set()
    for path in MODULES:
        calls = {
            n.func.id
            for n in ast.walk(ast.parse(path.read_text()))
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        assert not calls & {"print", "eval", "exec", "compile", "__import__", "input"}, name_of(path)


HEAVY = ("huggingface_hub", "transformers", "ruamel", "rich", "jsonschema", "hypothesis", "platformdirs")


def test_no_module_imports_anything_heavy_when_it_is_imported() -> None:
    wrong = {(m, i) for m, (_, eager) in ALL.items() for i in eager if i.split(".")[0] in HEAVY}
    assert wrong == set()


def test_nothing_is_caught_broadly_but_at_the_very_top() -> None:
    broad = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.ExceptHandler) and (
                node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            )
            if named and not any(isinstance(n, ast.Raise) and n.exc is None for n in ast.walk(node)):
                broad.add(name_of(path))
    assert allowed(broad, "onboard.class_defaults", "onboard.class_reading") == set()


def test_no_rule_asks_for_a_family_by_name() -> None:
    """`model_type == "x"` or `architecture in {...}` in code: such knowledge is a table entry."""
    wrong = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Compare):
                continue
            left = ast.unparse(node.left)
            literal = any(
                isinstance(c, (ast.Constant, ast.Set, ast.Tuple, ast.List)) and "'" in ast.unparse(c)
                for c in node.comparators
            )
            if (
                literal
                and any(word in left for word in ("model_type", "architecture"))
                and not isinstance(node.left, ast.Constant)
            ):
                wrong.append(f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def test_modules_are_small() -> None:
    sizes = {name_of(p): len(p.read_text().splitlines()) for p in MODULES}
    large = {n: s for n, s in sizes.items() if s > MAX_LINES and n not in LARGER}
    assert large == {}
    assert sorted(sizes.values())[len(sizes) // 2] < 160, "the median module is small"


@pytest.mark.parametrize("folder", ["profiles", "overrides", "cards", "calibration"])
def test_every_data_file_loads(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.yaml"))
    assert files
    for path in files:
        assert isinstance(load(path), dict), path.name


def test_every_command_has_help_and_is_documented() -> None:
    from calc import cli as calc_cli

    text = "\n".join(p.read_text(encoding="utf-8") for p in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    for program, group in (("onboard", onboard_cli.group), ("calc", calc_cli.group)):
        for name in group.list_commands(None):  # type: ignore[arg-type]
            try:
                command = group.get_command(None, name)  # type: ignore[arg-type]
            except ModuleNotFoundError:
                pytest.skip(f"{program} {name} is not there yet")
            assert command is not None and command.help, f"{program} {name}"
            assert f"{program} {name}" in text, f"{program} {name} is not documented"


def test_nothing_private_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if not path.is_file() or path.suffix not in (".py", ".md", ".yaml", ".toml", ".json", ""):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for secret in (os.sep + "work" + os.sep, os.sep + "opt" + os.sep + "venv", "hf_" + "token="):
            assert secret not in text, f"{name} holds {secret}"


def test_importing_costs_little() -> None:
    code = "import sys, onboard, calc, onboard.cli, calc.cli; print(len(sys.modules))"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; print(len(sys.modules))"],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    ours = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert int(ours.stdout) - int(done.stdout) < 400
