"""The `calc` command: a group whose commands are imported only when called. Errors become exit codes in `console`.

Importing this module loads nothing, so that Ctrl-C during the start ends the process without a traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onboard.console import LazyGroup

HELP = "What a model will take of your cards, before anything is downloaded."
COMMANDS = {
    "predict": "calc.commands.predict",
    "solve": "calc.commands.solve",
    "table": "calc.commands.table",
    "calibration": "calc.commands.calibration",
    "bootlog": "calc.commands.bootlog",
}


def group() -> LazyGroup:
    """The command line as click sees it."""
    from onboard.console import LazyGroup

    return LazyGroup(
        name="calc", commands_at=COMMANDS, help="What a model will take of your cards, before anything is downloaded."
    )


def main() -> None:
    """Entry point of the console script."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # files are written by renaming, so there is nothing to clean up
    from onboard.console import run

    run(group())
