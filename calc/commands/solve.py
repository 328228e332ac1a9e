"""`calc solve`: the largest or smallest value that still fits."""

from __future__ import annotations

import json
from typing import Any

import click

from calc.plan_options import plan_options


@click.command("solve")
@click.argument("source")
@click.option(
    "--for", "quantity", required=True,
    type=click.Choice(["max-model-len", "max-num-seqs", "tp", "vram", "kv-cache-dtype"]), help="What to solve for.",
)  # fmt: skip
@click.option("--require", type=click.Choice(["start", "pass"]), default="start", help="start: not FAIL. pass: PASS.")
@plan_options
@click.option("--json", "as_json", is_flag=True, help="The contract's JSON on standard output.")
def command(source: str, quantity: str, require: str, as_json: bool, **options: Any) -> int:
    """Solve SOURCE for one knob: the answer fits, one step more does not.

    Exit code 1 where no value fits.
    """
    from calc.commands.request import request
    from calc.solve import solve
    from calc.unused import unused

    profile, plan = request(source, options)
    solution = solve(profile, plan, quantity, require)
    if as_json:
        click.echo(json.dumps(solution.to_json(), indent=1))
    else:
        from calc.report import print_prediction

        shown = f"{solution.value:,}" if isinstance(solution.value, int) else solution.value or "nothing fits"
        unit = {"max-model-len": " tokens", "max-num-seqs": " sequences", "vram": " GiB a card"}.get(quantity, "")
        click.echo(
            f"{quantity}: {shown}{unit if solution.value is not None else ''}"
            + (f" ({solution.bound})" if solution.bound else "")
        )
        if quantity == "vram" and isinstance(solution.value, int):
            click.echo(_smallest_card(solution.value))
        if solution.value is None and solution.tried is not None:
            click.echo(f"below: the last that was tried, {quantity} {solution.tried}")
        for note in unused(quantity, plan):
            click.echo(f"{note.kind}: {note.message}")
        click.echo()
        print_prediction(solution.prediction)
    return 0 if solution.value is not None else 1


def _smallest_card(gib: int) -> str:
    from calc.cards import card_names, load_card
    from calc.units import GIB

    cards = sorted((load_card(n) for n in card_names()), key=lambda c: (c.usable_bytes, c.name))
    large = [c.name for c in cards if c.usable_bytes >= gib * GIB]
    return f"smallest cards that have it: {', '.join(large[:4])}" if large else "no single card of the database has it"
