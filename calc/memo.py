"""What was worked out of a profile once, kept as long as the profile lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from onboard.profile import Profile

T = TypeVar("T")

MOST_REMEMBERED = 4096
_MEMO: dict[int, tuple[weakref.ref[Profile], dict[Any, Any]]] = {}


def memo(profile: Profile) -> dict[Any, Any]:
    """A dictionary that lives as long as the profile does: profiles are frozen but not hashable."""
    found = _MEMO.get(id(profile))
    if found is not None and found[0]() is profile:
        return found[1]
    key = id(profile)
    entry = (weakref.ref(profile, lambda _: _MEMO.pop(key, None)), dict[Any, Any]())
    _MEMO[key] = entry
    return entry[1]


def remembered(profile: Profile, key: Any, make: Callable[[], T]) -> T:
    """`make()`, once for this profile and key."""
    store = memo(profile)
    try:
        value: T = store[key]
    except KeyError:
        if len(store) >= MOST_REMEMBERED:
            store.clear()
        value = store[key] = make()
    return value
