"""Cache specs <-> plain data, for profile files and overrides: the class under `type`, its fields beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.errors import BadProfile
from onboard.layers import (
    CacheSpec,
    ChunkedAttention,
    Compressed,
    CrossAttention,
    FullAttention,
    Indexer,
    LatentAttention,
    SharedWith,
    WindowAttention,
    WindowLatent,
)
from onboard.states import STATE_CLASSES
from onboard.values import fields

_CLASSES: tuple[type[CacheSpec], ...] = (
    FullAttention,
    WindowAttention,
    ChunkedAttention,
    LatentAttention,
    WindowLatent,
    Compressed,
    Indexer,
    CrossAttention,
    SharedWith,
    *STATE_CLASSES.values(),
)
CACHE_CLASSES: dict[str, type[CacheSpec]] = {c.__name__: c for c in _CLASSES}


def spec_to_dict(spec: CacheSpec) -> dict[str, Any]:
    """The fields that rebuild `spec`, with its class under `type` (what a profile file holds)."""
    return {"type": type(spec).__name__, **{f.name: getattr(spec, f.name) for f in fields(spec)}}


def spec_from_dict(data: Mapping[str, Any], path: str = "layers") -> CacheSpec:
    """Rebuild a spec. Raises BadProfile, naming the class, field and value, where the mapping is not one."""
    name = data.get("type")
    cls = CACHE_CLASSES.get(name if isinstance(name, str) else "")
    if cls is None:
        raise BadProfile(
            f"no layer class is called {name!r}",
            path=f"{path}.type",
            value=name,
            hint="one of " + ", ".join(sorted(CACHE_CLASSES)),
        )
    known = {f.name: f for f in fields(cls)}
    given = {k: v for k, v in data.items() if k != "type"}
    for key, value in given.items():
        if key not in known:
            raise BadProfile(
                f"{name} has no field {key!r}", path=f"{path}.{key}", value=value, hint=f"it has {', '.join(known)}"
            )
        wants = str(known[key].type)
        if value is None and "None" in wants:
            continue
        if wants.startswith("int") and (
            isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**40
        ):
            raise BadProfile(f"{name}.{key} must be an integer from 0 to 2^40", path=f"{path}.{key}", value=value)
        if wants == "bool" and not isinstance(value, bool):
            raise BadProfile(f"{name}.{key} must be true or false", path=f"{path}.{key}", value=value)
        if wants == "str" and not isinstance(value, str):
            raise BadProfile(f"{name}.{key} must be text", path=f"{path}.{key}", value=value)
    try:
        return cls(**given)
    except TypeError as error:
        raise BadProfile(f"{name}: {error}", path=path, value=dict(data)) from None
