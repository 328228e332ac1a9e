"""`onboard list`: what the catalogue holds."""

from __future__ import annotations

import json

import click

from onboard.commands.options import catalog_option, json_option


@click.command("list")
@json_option
@catalog_option
def command(as_json: bool, catalog: str | None) -> None:
    """List every profile with its status. A file that cannot be read is listed as such."""
    from onboard.listing import entries
    from onboard.text_table import print_table

    found = entries(catalog)
    if as_json:
        click.echo(json.dumps({"models": [e.to_json() for e in found]}, indent=1))
        return
    rows = [(e.id, e.status, e.num_anchors, e.layers, e.source) for e in found]
    print_table(("id", "status", "anchors", "layers", "source"), rows, right=(2,))
