"""A profile and a plan -> bytes per card. `from calc import Plan, predict, raw_verdict, solve`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calc.plan import Plan as Plan
    from calc.predict import predict as predict
    from calc.predict import raw_verdict as raw_verdict
    from calc.solve import solve as solve

_HOMES = {"Plan": "calc.plan", "predict": "calc.predict", "raw_verdict": "calc.predict", "solve": "calc.solve"}


def __getattr__(name: str) -> Any:
    """Names are imported when asked for, so that `calc --help` loads nothing."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'calc' has no attribute {name!r}")


class _Package(ModuleType):
    """Importing `calc.predict` would bind the module over the function of that name; the function keeps it."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
