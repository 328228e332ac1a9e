"""`onboard refresh`: derive again from the recorded source and show what drifted."""

from __future__ import annotations

import json

import click

from onboard.commands.options import catalog_option, json_option


@click.command("refresh")
@click.argument("model_ids", metavar="ID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every profile of the catalogue.")
@click.option("--check", "check_only", is_flag=True, help="Write nothing; exit code 1 where anything drifted.")
@json_option
@catalog_option
def command(model_ids: tuple[str, ...], everything: bool, check_only: bool, as_json: bool, catalog: str | None) -> int:
    """Derive profiles again from their recorded sources, show drift, and write it (unless --check)."""
    from onboard import catalog as catalogue
    from onboard.errors import UsageError
    from onboard.onboarding import rederive, write
    from onboard.report import print_changes

    if bool(model_ids) == everything:
        raise UsageError("name profiles, or give --all", path="ID", hint="onboard refresh qwen3.6-27b, or --all")
    answers = []
    for model_id in catalogue.ids(catalog) if everything else dict.fromkeys(model_ids):
        profile, changes = rederive(model_id, catalog)
        answers.append({"id": model_id, "changes": [c.to_json() for c in changes]})
        if not as_json:
            click.echo(f"{model_id}: " + (f"{len(changes)} value(s) drifted" if changes else "no drift"))
            print_changes(changes)
        if changes and not check_only:
            write(profile, catalog)
    if as_json:
        click.echo(json.dumps({"models": answers}, indent=1))
    return 1 if check_only and any(a["changes"] for a in answers) else 0
