"""Overrides that have gone stale: a prediction says that it was made without them."""

from __future__ import annotations

from calc.prediction import Note
from onboard.profile import Profile


def stale_notes(profile: Profile) -> tuple[Note, ...]:
    """One note that names every stale override of the profile; none where all take effect."""
    paths = [w.where for w in profile.warnings if w.kind == "stale-override"]
    if not paths:
        return ()
    named = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
    said = f"the generated value has changed under the override of {named}, so it has no effect"
    return (Note("stale-override", f"{said}; see `onboard diff {profile.id}`"),)
