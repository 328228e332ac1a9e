"""`onboard inspect`: derive and print; nothing is written."""

from __future__ import annotations

import json

import click

from onboard.commands.options import catalog_option, json_option


@click.command("inspect")
@click.argument("source")
@json_option
@click.option("--facts", is_flag=True, help="Every fact with its origin, too.")
@catalog_option
def command(source: str, as_json: bool, facts: bool, catalog: str | None) -> None:
    """Say what SOURCE keeps in memory, layer by layer. Writes nothing.

    SOURCE is a catalogue id, org/name[@revision] or its URL on the Hub, a folder, a config.json, a params.json or a
    .gguf file (local, or org/name:file.gguf).
    """
    from onboard.open import inspect

    profile = inspect(source, catalog=catalog)
    if as_json:
        click.echo(json.dumps(profile.to_json(), indent=1))
        return
    from onboard.report import print_profile

    print_profile(profile, facts=facts)
