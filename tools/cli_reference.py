"""Write docs/cli.md from `--help`, so that the reference cannot drift; a test compares them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def reference() -> str:
    """Every command of both groups with its help text."""
    from calc.cli import group as calc_group
    from onboard.cli import group as onboard_group

    parts = ["# Command reference", "", "Written by `make docs` from `--help`.", ""]
    for group in (onboard_group(), calc_group()):
        parts += [f"## {group.name}", "", group.help or "", ""]
        with click.Context(group, info_name=group.name) as context:
            for name in group.list_commands(context):
                command = group.get_command(context, name)
                assert command is not None
                title = f"{group.name} {name}"
                with click.Context(command, info_name=title, max_content_width=110, terminal_width=110) as inner:
                    parts += [f"### {title}", "", "```text", command.get_help(inner), "```", ""]
    return "\n".join(parts)


if __name__ == "__main__":
    (ROOT / "docs" / "cli.md").write_text(reference(), encoding="utf-8")
