"""The `calc` command: a group whose commands are imported only when called. Errors become exit codes in `console`."""

from __future__ import annotations

from onboard.console import LazyGroup, run

COMMANDS = {
    "predict": "calc.commands.predict",
    "solve": "calc.commands.solve",
    "table": "calc.commands.table",
    "calibration": "calc.commands.calibration",
    "bootlog": "calc.commands.bootlog",
}

group = LazyGroup(
    name="calc", commands_at=COMMANDS, help="What a model will take of your cards, before anything is downloaded."
)


def main() -> None:
    """Entry point of the console script."""
    run(group)
