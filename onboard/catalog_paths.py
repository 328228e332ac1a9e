"""Where data lies: the user's catalogue over the shipped one (beside the packages in a checkout, inside the wheel)."""

from __future__ import annotations

import os
from pathlib import Path

from onboard.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """The shipped folder `profiles`, `overrides`, `calibration`, `cards` or `schema`."""
    inside = _PACKAGE / "_catalog" / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def user_catalog(explicit: str | None = None) -> Path:
    """The user's catalogue: `--catalog`, else ONBOARD_CATALOG, else the current folder. Raises UsageError where the
    option is given as nothing, as by a shell variable that is not set.
    """
    if explicit is not None and not explicit.strip():
        raise UsageError(
            "the catalogue's folder is empty", path="--catalog", hint="give a folder, or leave the option out"
        )
    return Path(explicit or os.environ.get("ONBOARD_CATALOG") or ".")


def layers_of(folder: str, explicit: str | None = None) -> tuple[Path, ...]:
    """`folder` in the shipped catalogue and then in the user's, lowest first; one of them where they are the same."""
    lower, upper = shipped(folder), user_catalog(explicit) / folder
    try:
        same = upper.samefile(lower)
    except OSError:
        same = False
    return (lower,) if same else (lower, upper)
