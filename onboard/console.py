"""What both command lines share: lazy commands, and the one place where a Refusal becomes an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from onboard.errors import Refusal


class LazyGroup(click.Group):
    """A group that imports a command's module (which holds `command`) when that command is called."""

    def __init__(self, *, commands_at: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = self._at.get(cmd_name)
        return None if where is None else import_module(where).command


def run(group: click.Group) -> None:
    """Run a group; print refusals as one paragraph (JSON under --json) and exit with the contract's code."""
    as_json = "--json" in sys.argv
    try:
        code = group.main(standalone_mode=False)
    except Refusal as refusal:
        _complain(refusal.to_json(), as_json)
        sys.exit(refusal.exit_code)
    except click.ClickException as error:
        _complain(
            {"kind": "UsageError", "path": "", "value": None, "message": error.format_message(), "hint": "see --help"},
            as_json,
        )
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  the reader went away; nothing more to say
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(error: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"error": error}))
        return
    value = "" if error["value"] is None else f" (value: {error['value']})"
    place = f"{error['path']}: " if error["path"] else ""
    hint = f"\n  {error['hint']}" if error["hint"] else ""
    click.echo(f"{error['kind']}: {place}{error['message']}{value}{hint}", err=True)
