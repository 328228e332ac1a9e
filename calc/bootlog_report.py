"""The text of `calc bootlog`. Nothing is computed here."""

from __future__ import annotations

import click

from calc.bootlog import BootReport, LineReport
from calc.units import gib

_SIZES = frozenset(
    {
        "weights", "kv_available", "kv_needed", "kv_left", "oom", "oom_free", "card_total", "cuda_graphs",
        "cuda_graphs_taken", "runtime", "activation", "free_at_start", "wanted_at_start", "kv_size", "state_size",
        "compute", "compute_host", "weights_host", "fit_used", "fit_free", "failed_size",
    }
)  # fmt: skip


def print_report(report: BootReport) -> None:
    """One line a figure, then what a difference points at, then the flags that would help."""
    click.echo(f"engine {report.engine}, {len(report.lines)} figures")
    if report.num_boots > 1:
        click.echo(f"{report.num_boots} boots in this file: the last, from line {report.first_line:,}")
    click.echo(f"{'line':>7}  {'quantity':<26}{'printed':>18}{'predicted':>18}  ")
    for line in report.lines:
        rank = "" if line.printed.rank is None else f"  rank {line.printed.rank}"
        click.echo(
            f"{line.printed.line:>7}  {line.printed.quantity:<26}{_shown(line, line.printed.value):>18}"
            f"{_shown(line, line.predicted):>18}  {_verdict(line)}{rank}"
        )
    for finding in report.diagnosis:
        click.echo(f"{finding.kind}: {finding.message}")
    for flag in report.flags:
        click.echo(f"would start with {flag}")


def _shown(line: LineReport, value: float | None) -> str:
    if value is None:
        return "-"
    quantity = line.printed.quantity.partition("#")[0]  # several caches are numbered
    if quantity in _SIZES or quantity.endswith("_bytes"):
        return gib(value)
    return f"{value:,}" if isinstance(value, int) or float(value).is_integer() else f"{value:,.2f}"


def _verdict(line: LineReport) -> str:
    """A figure that follows from the pool agrees or differs; an estimate lies within its interval or not."""
    words = (
        ("estimate, within its interval", "estimate, OUTSIDE its interval") if line.estimated else ("agrees", "DIFFERS")
    )
    return {True: words[0], False: words[1], None: ""}[line.within_rounding]
