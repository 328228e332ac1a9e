"""Where data lies: the shipped catalogue (beside the packages in a checkout, inside the wheel when installed)."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """The shipped folder `profiles`, `overrides`, `calibration`, `cards` or `schema`."""
    inside = _PACKAGE / "_catalog" / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def user_catalog(explicit: str | None = None) -> Path | None:
    """The user's catalogue: `--catalog`, else ONBOARD_CATALOG, else none."""
    chosen = explicit or os.environ.get("ONBOARD_CATALOG")
    return Path(chosen) if chosen else None
