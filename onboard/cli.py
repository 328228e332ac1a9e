"""The `onboard` command: a group whose commands are imported when called. Errors become exit codes in `console`."""

from __future__ import annotations

from onboard.console import LazyGroup, run

COMMANDS = {
    "inspect": "onboard.commands.inspect",
    "add": "onboard.commands.add",
    "diff": "onboard.commands.diff",
    "check": "onboard.commands.check",
    "refresh": "onboard.commands.refresh",
    "list": "onboard.commands.list",
    "show": "onboard.commands.show",
}

group = LazyGroup(name="onboard", commands_at=COMMANDS, help="A model's config -> a profile that a person can review.")


def main() -> None:
    """Entry point of the console script."""
    run(group)
