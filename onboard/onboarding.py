"""`onboard add` and `refresh` without the printing: derive, compare with what stands in the catalogue, write.

Nothing a person wrote is lost. Comments and `notes` stay in the profile file. A value changed by hand moves to the
override file, where it keeps its effect; what no override can say becomes a note.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onboard import catalog as catalogue
from onboard.anchors import anchors_of, count_anchors
from onboard.catalog_paths import user_catalog
from onboard.catalog_schemas import keep_schemas
from onboard.errors import BadProfile, Refusal, UsageError
from onboard.hand_edits import Proposal, proposals
from onboard.profile import Profile
from onboard.profile_text import render, rewrite
from onboard.profile_yaml import check_round_trip, from_data, to_data
from onboard.seal import hand_written, leaves
from onboard.status import status_of
from onboard.values import Struct, replace
from onboard.yamlio import load_text, read_text, write_atomic


class Change(Struct, frozen=True):
    """One value that differs between the catalogue's file and what was derived now (None where absent)."""

    path: str
    old: Any
    new: Any

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "old": self.old, "new": self.new}


class Added(Struct, frozen=True):
    """What `add` did: the profile, its file, what changed, what was moved to the override file, and notes kept."""

    profile: Profile
    path: Path
    created: bool
    changes: tuple[Change, ...]
    moved: tuple[Proposal, ...]
    override_path: Path


def choose_id(profile: Profile, wanted: str | None, catalog: str | None = None) -> str:
    """The id given, else the repository's name in lower case, else `org--name` where another model has that."""
    if wanted is not None:
        return catalogue.check_id(wanted)
    taken = catalogue.find(profile.id, catalog)
    if taken is None or _same_model(taken, profile):
        return catalogue.check_id(profile.id)
    org, _, _ = profile.source.name.rpartition("/")
    from onboard.read import proposed_id

    return catalogue.check_id(f"{proposed_id(org)}--{profile.id}" if org else f"{profile.id}-2")


def _same_model(path: Path, profile: Profile) -> bool:
    try:
        known = catalogue.read_profile(path).source
    except Refusal:
        return True  # the file is refused when it is written over, with its own message
    return known.name.casefold() == profile.source.name.casefold()


def add(source: str, wanted_id: str | None = None, catalog: str | None = None, *, over: bool = False) -> Added:
    """Derive `source` and write its profile into the user's catalogue. Raises a Refusal; then nothing is written.

    `over` writes over a profile of another source that has the id; without it that is a UsageError.
    """
    from onboard.read import read_source

    profile = read_source(source)
    profile = replace(profile, id=choose_id(profile, wanted_id, catalog))
    if not over:
        _refuse_another(profile, user_catalog(catalog))
    return write(profile, catalog)


def _refuse_another(profile: Profile, root: Path) -> None:
    """Raise UsageError where the user's catalogue has the id for another model."""
    path = root / "profiles" / f"{profile.id}.yaml"
    if not path.is_file():
        return
    try:
        known = catalogue.read_profile(path).source
    except Refusal:
        return  # refused when it is written over, with its own message
    fresh = _placed(profile, root).source
    if not fresh.same_model_as(known) and not (fresh.location and fresh.location == known.location):
        raise UsageError(
            f"{profile.id} is {known.name}; this is {fresh.name}",
            path="--id",
            value=profile.id,
            hint=f"give it an --id of its own, or --replace to write over {path}",
        )


def write(profile: Profile, catalog: str | None = None) -> Added:
    """Write a derived profile over what the user's catalogue holds, keeping what a person wrote."""
    root = user_catalog(catalog)
    profile = _placed(profile, root)
    check_round_trip(profile)
    path, override_path = root / "profiles" / f"{profile.id}.yaml", root / "overrides" / f"{profile.id}.yaml"
    data = {**to_data(profile), "status": _status(profile, catalog)}
    old_text = read_text(path) if path.is_file() else None
    if old_text is None:
        text = _verified(render(data), profile)
        keep_schemas(root)
        write_atomic(path, text)
        return Added(profile, path, True, (), (), override_path)
    old = _readable(old_text, path)
    moved, notes = proposals(hand_written(old), profile, path)
    if notes or old.get("notes"):
        data["notes"] = [*_notes(old), *(n for n in notes if n not in _notes(old))]
    text = _verified(rewrite(old_text, data), profile)
    keep_schemas(root)
    if moved:
        from onboard.override_text import append

        moved = append(override_path, profile.id, moved)
    if text != old_text:
        write_atomic(path, text)
    return Added(profile, path, False, changes(old, data), moved, override_path)


def _verified(text: str, profile: Profile) -> str:
    """`text`, having been read back. Raises BadProfile where it does not say what the profile says."""
    if to_data(from_data(load_text(text, profile.id))) != to_data(profile):
        raise BadProfile("the profile does not survive being written; nothing was written", path=profile.id)
    return text


def rederive(model_id: str, catalog: str | None = None) -> tuple[Profile, tuple[Change, ...]]:
    """Derive again from the recorded source; the profile, and how it differs from the file. Writes nothing."""
    from onboard.read import read_source

    path = catalogue.find(model_id, catalog)
    if path is None:
        raise catalogue.unknown_id(model_id, catalog)
    known = catalogue.read_profile(path)
    fresh = replace(read_source(_reopen(known, path)), id=model_id)
    if not _on_the_hub(known):  # the name it was given stays: a folder's one file is opened as that file
        fresh = replace(fresh, source=replace(fresh.source, name=known.source.name))
    fresh = _placed(fresh, path.parent.parent)
    if not _on_the_hub(known) and _same_place(known, fresh, path.parent.parent):  # another way to write it is no drift
        fresh = replace(fresh, source=replace(fresh.source, location=known.source.location))
    old = load_text(read_text(path), path.name)
    new = {**to_data(fresh), "status": _status(fresh, catalog)}
    found = changes(old, new)
    if old.get("status") != new["status"]:
        found = (*found, Change("status", old.get("status"), new["status"]))
    return fresh, found


def _reopen(known: Profile, path: Path) -> str:
    """The recorded source as something to open: a repository, or a path relative to the catalogue's folder."""
    location = known.source.location or known.source.name
    if _on_the_hub(known):
        return known.source.name
    return os.path.normpath(path.parent.parent / location)


def _same_place(one: Profile, other: Profile, root: Path) -> bool:
    return os.path.normpath(root / one.source.location) == os.path.normpath(root / other.source.location)


def _on_the_hub(profile: Profile) -> bool:
    """Whether the source is a repository's name (for a GGUF, org/name:file) rather than a path."""
    return profile.source.kind == "hub" or profile.source.read_from.startswith("the Hub")


def _placed(profile: Profile, root: Path) -> Profile:
    """Record a local source relative to the catalogue where both lie in one folder, so that the two can move together;
    else by its full path.
    """
    if _on_the_hub(profile) or not profile.source.location:
        return profile
    source, folder = Path(profile.source.location).absolute(), root.absolute()
    near = source.is_relative_to(folder.parent)
    location = Path(os.path.relpath(source, folder)).as_posix() if near else source.as_posix()
    return replace(profile, source=replace(profile.source, location=location))


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """Values that differ, by path; where a fact's value is the same and only its place differs, that counts too."""
    before, after = dict(leaves(old)), dict(leaves(new))
    paths = [*after, *(p for p in before if p not in after)]
    return tuple(Change(p, before.get(p), after.get(p)) for p in paths if before.get(p) != after.get(p))


def _status(profile: Profile, catalog: str | None) -> dict[str, Any]:
    return status_of(profile, anchors_of(profile, count_anchors(catalog, profile))).to_json()


def _readable(text: str, path: Path) -> dict[str, Any]:
    """The old file's data. A file that cannot be read is never written over."""
    try:
        data = load_text(text, path.name)
        from_data(data, path.name)
    except Refusal as refusal:
        raise BadProfile(
            f"{path} cannot be read, so it is not written over: {refusal.message}",
            path=f"{path.name}: {refusal.path}",
            value=refusal.value,
            hint="correct it by hand, or move it away and add again",
        ) from None
    return dict(data)


def _notes(old: Mapping[str, Any]) -> list[Any]:
    notes = old.get("notes") or []
    return list(notes) if isinstance(notes, list) else [notes]
