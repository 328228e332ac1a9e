"""The floor plan, kept by machine: which way imports point, how large modules are, that every data file loads."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onboard import cli as onboard_cli
from onboard.yamlio import load
from tests.commands import ROOT
from tests.floor_plan import LAWS, OPTIONS, imports_of, within

MODULES = sorted(p for package in ("onboard", "calc") for p in (ROOT / package).rglob("*.py"))
MAX_LINES = 300


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {name_of(p): p.read_text(encoding="utf-8") for p in MODULES}
HOUSE = {name: imports_of(source) for name, source in SOURCES.items()}


@pytest.mark.parametrize("law", LAWS)
def test_imports_point_the_way_of_the_floor_plan(law: str) -> None:
    assert LAWS[law].broken(HOUSE) == set()


@pytest.mark.parametrize("law", LAWS)
def test_a_planted_violation_is_found(law: str) -> None:
    module, source = LAWS[law].planted
    planted = {**HOUSE, module: HOUSE.get(module, frozenset()) | imports_of(source)}
    assert module in {name for pair in LAWS[law].broken(planted) for name in pair}


def test_no_module_calls_what_prints_asks_or_runs_text() -> None:
    for name, source in SOURCES.items():
        calls = {
            n.func.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        assert not calls & {"print", "eval", "exec", "compile", "__import__", "input"}, name


def test_click_only_parses_where_nothing_is_printed() -> None:
    assert [name for name in OPTIONS if "echo" in SOURCES[name] or "sys.std" in SOURCES[name]] == []


HEAVY = ("huggingface_hub", "transformers", "ruamel", "rich", "jsonschema", "hypothesis", "platformdirs")


def test_no_module_imports_anything_heavy_when_it_is_imported() -> None:
    wrong = {(m, i) for m, s in SOURCES.items() for i in imports_of(s, lazy=False) if i.split(".")[0] in HEAVY}
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
    assert {name for name in broad if not within(name, "onboard.class_defaults")} == set()


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


def test_what_is_public_says_what_it_is() -> None:
    silent = []
    for name, source in SOURCES.items():
        tree = ast.parse(source)
        public = (n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name[0] != "_")
        silent += [name] * (ast.get_docstring(tree) is None)
        silent += [f"{name}.{n.name}" for n in public if ast.get_docstring(n) is None]
    assert silent == []


def test_modules_are_small() -> None:
    sizes = {name_of(p): len(p.read_text().splitlines()) for p in MODULES}
    large = {n: s for n, s in sizes.items() if s > MAX_LINES}
    assert large == {}
    assert sorted(sizes.values())[len(sizes) // 2] < 160, "the median module is small"


def test_every_room_is_on_the_floor_plan_and_nothing_else() -> None:
    named = set(re.findall(r"`([\w/]+)`", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")))
    rooms = {p.stem for package in ("onboard", "calc") for p in (ROOT / package).glob("*.py")} - {"__init__"}
    rooms |= {f"{p.parent.name}/" for package in ("onboard", "calc") for p in (ROOT / package).glob("*/__init__.py")}
    assert rooms - named == set()
    inner = {p.stem for p in MODULES} | {"data/", "engines/__init__"}
    assert {n for n in named - rooms - inner if not (ROOT / n).exists()} == set()


def test_every_page_is_linked_and_every_link_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
    readme = pages[0].read_text(encoding="utf-8")
    assert [p.name for p in (ROOT / "docs").glob("*.md") if f"(docs/{p.name})" not in readme] == []


@pytest.mark.parametrize("folder", ["profiles", "overrides", "cards", "calibration"])
def test_every_data_file_loads(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.yaml"))
    assert files
    for path in files:
        assert isinstance(load(path), dict), path.name


def test_every_command_has_help_and_is_documented() -> None:
    from calc import cli as calc_cli

    text = "\n".join(p.read_text(encoding="utf-8") for p in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    for program, group in (("onboard", onboard_cli.group()), ("calc", calc_cli.group())):
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
