"""Value types: frozen records on msgspec, which makes a class in microseconds (a start makes a hundred).

The helpers answer for records what `dataclasses` answers for dataclasses.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

# msgspec asks typing_extensions before typing where both are there. Records need nothing that typing lacks, and
# loading it costs a start more than msgspec itself, so it is not there for the length of this import.
_ABSENT = "typing_extensions" not in sys.modules
if _ABSENT:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
try:
    from msgspec import NODEFAULT, Struct, field
    from msgspec.structs import replace
finally:
    if _ABSENT:
        del sys.modules["typing_extensions"]

__all__ = ["NODEFAULT", "FieldInfo", "Struct", "asdict", "field", "fields", "replace"]

T = TypeVar("T")


class FieldInfo(NamedTuple):
    """A field's name, its annotation as written, and its default (NODEFAULT where it must be given)."""

    name: str
    type: str
    default: Any


def fields(record: Struct | type[Struct]) -> tuple[FieldInfo, ...]:
    """The fields of a record or its class, in order, base classes first."""
    return _fields(record if isinstance(record, type) else type(record))


@lru_cache(maxsize=256)
def _fields(cls: type[Struct]) -> tuple[FieldInfo, ...]:
    annotations: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        own = base.__dict__.get("__annotations__", {})  # noqa: RUF063  a class's own, as written
        annotations.update({k: str(v) for k, v in own.items()})
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    padded = (NODEFAULT,) * (len(names) - len(defaults)) + tuple(defaults)
    return tuple(FieldInfo(name, annotations[name], value) for name, value in zip(names, padded, strict=True))


def asdict(record: Any) -> Any:
    """Nested plain data: records as dictionaries, tuples and lists kept."""
    if isinstance(record, Struct):
        return {name: asdict(getattr(record, name)) for name in record.__struct_fields__}
    if isinstance(record, (list, tuple)):
        return type(record)(asdict(item) for item in record)
    if isinstance(record, dict):
        return {key: asdict(value) for key, value in record.items()}
    return record
