"""`onboard add`: derive, write the profile, and say what is new and what is still not known."""

from __future__ import annotations

import json

import click

from onboard.commands.options import catalog_option, json_option


@click.command("add")
@click.argument("source")
@click.option("--id", "model_id", help="The catalogue id (default: the repository's name in lower case).")
@click.option("--replace", "over", is_flag=True, help="Write over an id that is another source's.")
@json_option
@catalog_option
def command(source: str, model_id: str | None, over: bool, as_json: bool, catalog: str | None) -> None:
    """Derive SOURCE and write profiles/<id>.yaml in the user's catalogue.

    Run again after a hand edit or for a newer revision: comments and notes stay, and a value changed by hand is kept as
    an override. An id that another source has is refused.
    """
    from onboard import catalog as catalogue
    from onboard.onboarding import add

    added = add(source, model_id, catalog, over=over)
    loaded = catalogue.load(added.profile.id, catalog)
    if as_json:
        answer = {
            "id": added.profile.id,
            "path": str(added.path),
            "created": added.created,
            "changes": [c.to_json() for c in added.changes],
            "moved_to_overrides": [m.to_json() for m in added.moved],
            "fields": [o.to_json() for o in loaded.outcomes],
            "unknowns": [u.to_json() for u in added.profile.unknowns],
        }
        click.echo(json.dumps(answer, indent=1))
        return
    from onboard.report import print_added, print_cautions

    print_added(added, loaded.outcomes)
    print_cautions("warnings", loaded.effective.warnings)
    print_cautions("not known", added.profile.unknowns)
