"""A table for people: drawn by rich on a terminal, plain columns without colour codes when piped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click

from onboard.console import clean


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> None:
    """Print rows under a header; columns in `right` are set to the right."""
    body = [[clean(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(header, body, right)
        return
    widths = [max(len(row[i]) for row in [list(header), *body]) for i in range(len(header))]
    for row in [list(header), *body]:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        click.echo("  ".join(cells).rstrip())


def _draw(header: Sequence[str], body: list[list[str]], right: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i in right else "left", overflow="fold")
    for row in body:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table, cells escaped, to paste in a review."""

    def line(cells: Iterable[object]) -> str:
        return "| " + " | ".join(clean(str(c)).replace("|", "\\|").replace("\n", " ") for c in cells) + " |"

    return "\n".join([line(header), line("---" for _ in header), *(line(row) for row in rows)])
