"""`onboard check`: the whole catalogue, for CI."""

from __future__ import annotations

import json

import click

from onboard.commands.options import catalog_option, json_option


@click.command("check")
@click.argument("model_ids", metavar="[ID...]", nargs=-1)
@json_option
@catalog_option
def command(model_ids: tuple[str, ...], as_json: bool, catalog: str | None) -> int:
    """Check profiles, overrides, anchors and statuses; exit code 1 where anything is wrong."""
    from onboard.check import check
    from onboard.text_table import print_table

    checked, problems = check(model_ids, catalog)
    if as_json:
        click.echo(json.dumps({"checked": checked, "problems": [p.to_json() for p in problems]}, indent=1))
    elif problems:
        print_table(("file", "problem", "path", "message"), [(p.file, p.kind, p.path, p.message) for p in problems])
    else:
        click.echo(f"{len(checked)} profile(s): nothing wrong")
    return 1 if problems else 0
