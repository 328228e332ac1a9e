"""`calc bootlog`: an engine's boot log beside the prediction, line by line."""

from __future__ import annotations

import json
from typing import Any

import click

from calc.plan_options import plan_options


@click.command("bootlog")
@click.argument("log", type=click.Path(dir_okay=False))
@click.option("--model", "source", required=True, help="The model that booted: anything SOURCE can be.")
@plan_options
@click.option("--save", is_flag=True, help="Append what was printed to the catalogue's anchors.")
@click.option("--json", "as_json", is_flag=True, help="The contract's JSON on standard output.")
def command(log: str, source: str, save: bool, as_json: bool, **options: Any) -> int:
    """Read the boot LOG of an engine, set each printed figure beside the prediction, and say what a difference means.

    Flags and version are taken from the log where it states them; options given here win. Exit code 0 where the
    cache's figures agree within their rounding, 1 where one differs, 3 where the file is no such log.
    """
    from calc.bootlog import compare, read_log
    from calc.commands.request import request

    engine_log, facts = read_log(log)
    profile, plan = request(source, options, writes=save)
    report = compare(profile, plan, engine_log, facts)
    saved = None
    if save:
        from calc.bootlog_anchor import save_anchor

        saved = save_anchor(options.get("catalog"), profile, report, facts, log)
    if as_json:
        answer = report.to_json()
        if saved:
            answer["saved"] = saved.name
        click.echo(json.dumps(answer, indent=1))
    else:
        from calc.bootlog_report import print_report

        print_report(report)
        if saved:
            click.echo(f"saved in {saved.name}")
    return 0 if report.agrees else 1
