"""What both command lines share: lazy commands, and the one place where an error becomes text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any

import click

from onboard.errors import Refusal
from onboard.progress import WATCHER

SHORTEST_BAR = 8  # files; fewer are read before a bar would be seen


class LazyGroup(click.Group):
    """A group that imports a command's module (which holds `command`) when that command is called."""

    def __init__(self, *, commands_at: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._at = commands_at
        click.version_option(package_name="kvfit", message="%(package)s %(version)s")(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = self._at.get(cmd_name)
        return None if where is None else import_module(where).command


def run(group: click.Group) -> None:
    """Run a group and exit with the contract's code. An error is one paragraph, or JSON; never a traceback."""
    sys.exit(_run(group))


def _run(group: click.Group) -> int:
    as_json = wants_json(sys.argv[1:])
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: answer into nothing, with the same exit code
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 still gets every answer
    if sys.stderr.isatty():
        WATCHER.set(_bar)
    try:
        code = group.main(prog_name=group.name, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except Refusal as refusal:
        complain(refusal.to_json(), as_json)
        return refusal.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"see {context.command_path} --help" if context is not None else "see --help"
        complain(_error("UsageError", " ".join(error.format_message().split()), hint), as_json)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # the reader went away; point the descriptor elsewhere so that the interpreter's own flush stays silent
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        message = error.strerror or str(error)
        complain(
            _error("Unreadable", message, "check the path and its permissions", str(error.filename or "")), as_json
        )
        return 3
    except Exception as error:
        if os.environ.get("ONBOARD_TRACEBACK"):
            raise
        complain(
            _error(
                "Defect",
                f"{type(error).__name__}: {error}"[:500],
                "a defect here, please report it; ONBOARD_TRACEBACK=1 shows where",
            ),
            as_json,
        )
        return 3


def _bar(done: int, total: int) -> None:
    """One line on a terminal while headers are read; it is wiped when the last is there."""
    if total < SHORTEST_BAR:
        return
    filled = 30 * done // total
    line = f"reading headers [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}"
    sys.stderr.write("\r" + (line if done < total else " " * len(line) + "\r"))
    sys.stderr.flush()


def wants_json(arguments: list[str]) -> bool:
    """Whether the command line asks for JSON, however far it got."""
    return "--json" in arguments or "--format=json" in arguments or ("--format", "json") in pairwise(arguments)


def complain(error: dict[str, Any], as_json: bool) -> None:
    """Print an error: JSON on standard output, or one paragraph on standard error."""
    if as_json:
        import json

        click.echo(json.dumps({"error": error}))
        return
    value = "" if error["value"] is None else f" (value: {_shown(error['value'])})"
    place = f"{error['path']}: " if error["path"] else ""
    hint = f"\n  {error['hint']}" if error["hint"] else ""
    click.echo(clean(f"{error['kind']}: {place}{error['message']}{value}{hint}"), err=True)


def _shown(value: object) -> object:
    """A value as a message shows it: text that would pass for a number keeps its quotes."""
    return f'"{value}"' if isinstance(value, str) and value.strip().lstrip("-").isdecimal() else value


def clean(text: str) -> str:
    """Text from a file, without characters that a terminal would act on."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def _error(kind: str, message: str, hint: str, path: str = "") -> dict[str, Any]:
    return {"kind": kind, "path": path, "value": None, "message": message, "hint": hint}
