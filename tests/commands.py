"""Run a console script as a user does: another process, another folder, and what it printed."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Done:
    """Exit code and both streams; a traceback in either fails at once."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def call(*arguments: str, cwd: Path, program: str = "onboard") -> Done:
    """As `run`, in this process: for the many cases that differ in their input only. No network, no catalogue named."""
    from onboard import console

    group = importlib.import_module(f"{program}.cli").group()
    out, err = io.StringIO(), io.StringIO()
    before, kept, argv = Path.cwd(), dict(os.environ), sys.argv
    try:
        os.chdir(cwd)
        os.environ.update(
            HF_HUB_OFFLINE="1", XDG_CACHE_HOME=str(cwd / ".cache"), ONBOARD_CATALOG="", ONBOARD_TRACEBACK="1"
        )
        sys.argv = [program, *arguments]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = console._run(group)
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)
        sys.argv = argv
    return Done(code, out.getvalue(), err.getvalue())


def run(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, program: str = "onboard", stdin: str | None = None
) -> Done:
    """`onboard ...` (or `calc ...`) in `cwd`, without the network unless `env` says otherwise."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "ONBOARD"))}
    environment = {**base, "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(cwd / ".cache")} if env is None else env
    environment = {**environment, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::DeprecationWarning:onboard"}
    start = f"import sys; sys.argv[0]={program!r}; from {program}.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        input=stdin,
        errors="replace",
    )
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    assert "Defect:" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
