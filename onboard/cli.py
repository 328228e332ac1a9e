"""The `onboard` command: a group whose commands are imported only when called. Errors become exit codes in `console`.

Importing this module loads nothing, so that Ctrl-C during the start ends the process without a traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onboard.console import LazyGroup

HELP = "A model's config -> a profile that a person can review."
COMMANDS = {
    "inspect": "onboard.commands.inspect",
    "add": "onboard.commands.add",
    "diff": "onboard.commands.diff",
    "check": "onboard.commands.check",
    "refresh": "onboard.commands.refresh",
    "list": "onboard.commands.list",
    "show": "onboard.commands.show",
}


def group() -> LazyGroup:
    """The command line as click sees it."""
    from onboard.console import LazyGroup

    return LazyGroup(
        name="onboard", commands_at=COMMANDS, help="A model's config -> a profile that a person can review."
    )


def main() -> None:
    """Entry point of the console script."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # files are written by renaming, so there is nothing to clean up
    from onboard.console import run

    run(group())
