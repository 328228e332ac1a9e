"""Whole numbers inside nested mappings of a config, checked as the flat ones are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.errors import FieldInvalid, FieldMissing
from onboard.facts import Facts


def nested_int(
    facts: Facts, config: Mapping[str, Any], path: str, key: str, fallback: str = "", default: int | None = None
) -> int:
    """A whole number inside a nested mapping, else the flat field `fallback`, else `default`. Raises where none is."""
    value = config.get(key)
    if value is None and fallback:
        value = facts.get(fallback)
    if value is None:
        value = default
    where = f"{facts.prefix}{path}.{key}"
    if value is None:
        raise FieldMissing(f"{path} states no {key}", path=where, hint="state it in the config or in an override")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**24:
        raise FieldInvalid(f"{where} must be a positive integer", path=where, value=repr(value))
    return value
