"""Options that several `onboard` commands share."""

from __future__ import annotations

import click

catalog_option = click.option(
    "--catalog", metavar="DIR", help="The user's catalogue (else ONBOARD_CATALOG, else the current folder)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
