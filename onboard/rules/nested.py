"""Whole numbers inside nested mappings of a config, checked as the flat ones are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.errors import FieldInvalid, FieldMissing
from onboard.facts import Facts

MAX_FACTOR = 10_000  # published ones are 0.5 to 16


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


def scaled(facts: Facts, name: str, size: int) -> int:
    """`size` times the factor `name`, in whole numbers. Raises FieldInvalid where no model has such a factor."""
    factor = facts.need(name)
    if isinstance(factor, bool) or not 0 < factor <= MAX_FACTOR or int(size * factor) < 1:
        raise FieldInvalid(f"{facts.path(name)} is no factor of a size", path=facts.path(name), value=repr(factor))
    return int(size * factor)


def single(facts: Facts, name: str, why: str = "") -> int:
    """A field that may be a list, one entry a layer, where only one number can be meant. A list is refused."""
    value = facts.need(name, why)
    if not isinstance(value, int):
        raise FieldInvalid(
            f"{facts.path(name)} must be one number here", path=facts.path(name), value=repr(value)[:200]
        )
    return value
