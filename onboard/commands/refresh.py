"""`onboard refresh`: derive again from the recorded source and show what drifted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from onboard.commands.options import catalog_option, json_option
from onboard.console import clean, complain

if TYPE_CHECKING:
    from onboard.onboarding import Change


@click.command("refresh")
@click.argument("model_ids", metavar="ID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every profile of the user's catalogue.")
@click.option("--check", "check_only", is_flag=True, help="Write nothing; exit code 1 where anything drifted.")
@json_option
@catalog_option
def command(model_ids: tuple[str, ...], everything: bool, check_only: bool, as_json: bool, catalog: str | None) -> int:
    """Derive profiles again from their recorded sources, show drift, and write it (unless --check).

    --all goes through the user's own catalogue. A source that cannot be read does not keep the others from being
    looked at; the exit code is then the refusal's.
    """
    from onboard import catalog as catalogue
    from onboard.catalog_paths import user_catalog
    from onboard.errors import Refusal, UsageError

    if bool(model_ids) == everything:
        raise UsageError("name profiles, or give --all", path="ID", hint="onboard refresh qwen3.6-27b, or --all")
    wanted = catalogue.own_ids(catalog) if everything else list(dict.fromkeys(model_ids))
    answers: list[dict[str, Any]] = []
    code = 0
    for model_id in wanted:
        try:
            changes = _refresh(model_id, catalog, check_only)
        except Refusal as refusal:
            if len(wanted) == 1:
                raise
            code = max(code, refusal.exit_code)
            answers.append({"id": model_id, "error": refusal.to_json()})
            if not as_json:
                click.echo(clean(f"{model_id}: not looked at"))
                complain(refusal.to_json(), as_json=False)
            continue
        answers.append({"id": model_id, "changes": [c.to_json() for c in changes]})
        if not as_json:
            _say(model_id, changes)
    if as_json:
        click.echo(json.dumps({"models": answers}, indent=1))
    elif not wanted:
        click.echo(clean(f"no profiles in {user_catalog(catalog)}"))
    return code or int(check_only and any(a["changes"] for a in answers))


def _refresh(model_id: str, catalog: str | None, check_only: bool) -> tuple[Change, ...]:
    from onboard.onboarding import rederive, write

    profile, changes = rederive(model_id, catalog)
    if changes and not check_only:
        write(profile, catalog)
    return changes


def _say(model_id: str, changes: tuple[Change, ...]) -> None:
    from onboard.report import print_changes

    click.echo(f"{model_id}: " + (f"{len(changes)} value(s) drifted" if changes else "no drift"))
    print_changes(changes)
