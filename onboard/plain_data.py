"""Checked access to plain data (what YAML and JSON parse to): the wrong type is a refusal that names its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from onboard.errors import BadProfile
from onboard.values import fields

T = TypeVar("T")
PACK_FROM = 8
MAX_UNPACKED = 100_000


def build(cls: type[T], given: Mapping[str, Any], path: str, **ready: Any) -> T:
    """A dataclass of checked fields: int, float and str by their annotations, None where it is allowed."""
    known = {f.name: str(f.type) for f in fields(cls)}  # type: ignore[arg-type]
    for key, value in given.items():
        if key not in known or key in ready:
            raise BadProfile(f"{key!r} does not belong here", path=f"{path}.{key}", hint="known: " + ", ".join(known))
        wants = known[key]
        if value is None and "None" in wants:
            continue
        good = (
            isinstance(value, str)
            if wants.startswith("str")
            else isinstance(value, int) and not isinstance(value, bool)
        )
        if not good:
            raise BadProfile(
                f"{key} must be {'text' if wants.startswith('str') else 'an integer'}",
                path=f"{path}.{key}",
                value=value,
            )
        sane(value, f"{path}.{key}")
    try:
        return cls(**given, **ready)
    except TypeError as error:
        raise BadProfile(
            str(error).partition(" ")[2] or "incomplete", path=path, hint="needed: " + ", ".join(known)
        ) from None


def sane(value: Any, path: str) -> Any:
    """No number beyond 64 bits and none below zero, no non-finite float: nothing real is."""
    if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value < 2**63:
        raise BadProfile("an integer must lie from 0 to 2^63", path=path, value=value)
    if isinstance(value, float) and not -1e300 < value < 1e300:
        raise BadProfile("a number must be finite", path=path, value=str(value))
    if isinstance(value, tuple):
        for i, one in enumerate(value):
            sane(one, f"{path}[{i}]")
    return value


def mapping(value: Any, path: str) -> Mapping[str, Any]:
    """`value` as a mapping. Raises BadProfile, naming `path`, where it is none."""
    if not isinstance(value, Mapping):
        raise BadProfile(f"{path} must be a mapping", path=path, value=brief(value))
    return value


def sequence(value: Any, path: str) -> Sequence[Any]:
    """`value` as a list. Raises BadProfile, naming `path`, where it is none."""
    if not isinstance(value, (list, tuple)):
        raise BadProfile(f"{path} must be a list", path=path, value=brief(value))
    return value


def text(value: Any, path: str) -> str:
    """`value` as text. Raises BadProfile, naming `path`, where it is none."""
    if not isinstance(value, str):
        raise BadProfile(f"{path} must be text", path=path, value=brief(value))
    return value


def brief(value: Any) -> str:
    """A value for an error message, cut to 80 characters."""
    return "nothing" if value is None else repr(value)[:80]


def listed(value: Any) -> Any:
    """Tuples as lists, all the way down."""
    if isinstance(value, (tuple, list)):
        return [listed(v) for v in value]
    return {k: listed(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    if isinstance(value, (tuple, list)):
        return tuple(frozen(v) for v in value)
    return {k: frozen(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def packed(value: Any) -> Any:
    """`listed`, with a long list that repeats itself written once: {repeat: 10, of: [a, a, b]}."""
    plain = listed(value)
    if not isinstance(plain, list) or len(plain) < PACK_FROM:
        return plain
    for period in range(1, len(plain) // 2 + 1):
        if len(plain) % period == 0 and plain == plain[:period] * (len(plain) // period):
            return {"repeat": len(plain) // period, "of": plain[:period]}
    return plain


def unpacked(value: Any, path: str) -> Any:
    """The inverse of `packed`, frozen. Raises BadProfile where the list would be absurdly long."""
    if isinstance(value, Mapping) and set(value) == {"repeat", "of"}:
        times, part = value["repeat"], sequence(value["of"], f"{path}.of")
        if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times * len(part) <= MAX_UNPACKED:
            raise BadProfile("repeats too often", path=f"{path}.repeat", value=times)
        return frozen(list(part) * times)
    return frozen(value)


def named_once(path: str, inside: str) -> str:
    """Where a value stands: a reader that was given a field's own path names that field again."""
    return path if inside == f"{path}.{path.rpartition('.')[2]}" else inside
