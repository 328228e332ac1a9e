"""Every example in README and docs is executed and its printed output compared, whole.

An example is a `console` block: `$ command` lines, each followed by what it prints. `make golden` rewrites the output.
A command may read files of this repository; it runs in a scratch copy of the folder names it uses, never in the tree.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if p.is_file()]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)


def run(line: str, folder: Path) -> str:
    """The output of one command line, run by this interpreter's console scripts, with its exit code where not 0."""
    shims = folder.parent / "bin"
    if not shims.is_dir():
        shims.mkdir()
        for name in ("onboard", "calc"):
            shim = shims / name
            shim.write_text(
                f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
                f"sys.argv[0] = {name!r}\nfrom {name}.cli import main\nmain()\n"
            )
            shim.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("ONBOARD_CATALOG", None)
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    tail = f"[exit code {done.returncode}]\n" if done.returncode else ""
    return done.stdout + done.stderr + tail


def executed(block: str, folder: Path) -> str:
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{run(command, folder)}" for command in commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_print_what_the_page_says(page: Path, tmp_path: Path, rewrite_goldens: bool) -> None:
    text = page.read_text(encoding="utf-8")
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
    actual = BLOCK.sub(lambda m: f"```console\n{executed(m[1], folder)}```", text)
    if rewrite_goldens:
        page.write_text(actual, encoding="utf-8")
    assert text == actual or rewrite_goldens


def test_the_command_reference_is_the_help_text() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from cli_reference import reference
    finally:
        sys.path.pop(0)
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference()
