"""A repository's config -> a profile someone can review. `from onboard import inspect, load_profile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onboard.open import inspect as inspect
    from onboard.open import load_profile as load_profile

_HOMES = {"inspect": "onboard.open", "load_profile": "onboard.open"}


def __getattr__(name: str) -> Any:
    """Names are imported when asked for, so that a start loads nothing it does not use."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'onboard' has no attribute {name!r}")
