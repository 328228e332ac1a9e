"""`onboard diff`: generated, overridden and effective values, field by field."""

from __future__ import annotations

import click

from onboard.commands.options import catalog_option, json_option


@click.command("diff")
@click.argument("model_id", metavar="ID")
@click.option("--format", "form", type=click.Choice(["table", "json", "markdown"]), default="table")
@json_option
@catalog_option
def command(model_id: str, form: str, as_json: bool, catalog: str | None) -> int:
    """Show what the overrides of ID change, with the reason; stale, redundant and conflicting ones are marked.

    Exit code 1 where an override is stale or conflicts.
    """
    from onboard import catalog as catalogue
    from onboard.report import print_outcomes

    loaded = catalogue.load(model_id, catalog)
    print_outcomes(loaded.outcomes, "json" if as_json else form)
    return 1 if any(o.status in ("stale", "conflict") for o in loaded.outcomes) else 0
