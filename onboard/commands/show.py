"""`onboard show`: one profile as it takes effect, each value with its origin."""

from __future__ import annotations

import json

import click

from onboard.commands.options import catalog_option, json_option


@click.command("show")
@click.argument("model_id", metavar="ID")
@json_option
@catalog_option
def command(model_id: str, as_json: bool, catalog: str | None) -> None:
    """Show the profile of ID with its overrides merged, each value with its origin."""
    from onboard import catalog as catalogue
    from onboard.anchors import anchors_of, count_anchors
    from onboard.status import status_of

    loaded = catalogue.load(model_id, catalog)
    status = status_of(loaded.generated, anchors_of(loaded.generated, count_anchors(catalog, loaded.generated)))
    if as_json:
        from onboard.profile_yaml import to_data

        answer = {
            **loaded.effective.to_json(),
            "status": status.to_json(),
            "profile": to_data(loaded.effective),
            "fields": [o.to_json() for o in loaded.outcomes],
        }
        click.echo(json.dumps(answer, indent=1))
        return
    from onboard.report import print_extras, print_outcomes, print_profile

    print_profile(loaded.effective, status, facts=True)
    print_extras(loaded.effective)
    if loaded.outcomes:
        click.echo("\noverrides:")
        print_outcomes(loaded.outcomes, "table")
