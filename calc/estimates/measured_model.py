"""The name by which anchors and the specification know a profile's model, which is not whoever has its id."""

from __future__ import annotations

from functools import lru_cache

from onboard.catalog import shipped_source
from onboard.profile import Profile, SourceRef


def measured_name(profile: Profile) -> str:
    """The profile's id, or its repository's own name where the id is a shipped model's and this is another."""
    known = _shipped(profile.id)
    if known is None or profile.source.same_model_as(known):
        return profile.id
    return profile.source.name.rpartition("/")[2].lower()


@lru_cache(maxsize=64)
def _shipped(model_id: str) -> SourceRef | None:
    return shipped_source(model_id)
