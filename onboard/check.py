"""What is wrong in a catalogue: schema, overrides, anchors, and statuses that claim more than they have.

Profiles are held to what `profile_yaml` reads (the JSON schema in `schema/` says the same to editors). Orphaned
overrides, missing reasons, stale, redundant and conflicting entries are each named.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onboard import catalog as catalogue
from onboard.anchor_checks import check_anchor
from onboard.anchor_file import anchor_of
from onboard.anchors import Counts, anchor_files, anchors_in, anchors_of, count_anchors
from onboard.catalog_paths import layers_of
from onboard.errors import BadAnchor, Refusal
from onboard.hand_edits import UNEXPLAINED
from onboard.overrides import Entry, Outcome, merge, read
from onboard.profile import Profile
from onboard.seal import hand_written
from onboard.status import status_of
from onboard.values import Struct
from onboard.yamlio import load_cached


class Problem(Struct, frozen=True):
    """One thing that is wrong, and where."""

    file: str
    kind: str
    path: str
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "kind": self.kind, "path": self.path, "message": self.message}


def check(model_ids: tuple[str, ...] = (), catalog: str | None = None) -> tuple[list[str], list[Problem]]:
    """The ids that were checked, and every problem. Without ids: the whole catalogue, orphans and anchors too."""
    wanted = list(dict.fromkeys(model_ids)) or catalogue.ids(catalog)
    for model_id in wanted:
        if catalogue.find(model_id, catalog) is None:
            raise catalogue.unknown_id(model_id, catalog)
    counts = count_anchors(catalog)
    problems: list[Problem] = []
    for model_id in wanted:
        problems += _model(model_id, counts, catalog)
    if not model_ids:
        problems += _orphans(set(wanted), catalog)
        problems += _anchors(catalog)
    return wanted, problems


def _model(model_id: str, counts: Counts, catalog: str | None) -> Iterator[Problem]:
    path = catalogue.find(model_id, catalog)
    if path is None:
        return
    file = f"profiles/{path.name}"
    try:
        profile = catalogue.read_profile(path)
    except Refusal as refusal:
        yield _problem(file, refusal)
        return
    data = load_cached(path)
    yield from _status(file, data, profile, counts)
    for edited in hand_written(data):
        if not edited.startswith(("warnings", "unknowns")):
            yield Problem(
                file, "hand-edited", edited, "changed by hand; `onboard add` the model again to keep it as an override"
            )
    effective = profile
    for entry_file in catalogue.override_files(profile, path, catalog):
        effective, found = _overrides(effective, entry_file, model_id)
        yield from found
    names = [w.name for w in effective.weights]
    if effective.default_weights is not None and effective.default_weights not in names:
        yield Problem(
            file,
            "unknown-default",
            "default_weights",
            f"{effective.default_weights!r} is none of {', '.join(names) or 'no variants'}",
        )


def _status(file: str, data: Any, profile: Profile, counts: Counts) -> Iterator[Problem]:
    earned = status_of(profile, anchors_of(profile, counts))
    claimed = data.get("status")
    if (
        not isinstance(claimed, dict)
        or claimed.get("name") != earned.name
        or claimed.get("num_anchors") != earned.num_anchors
    ):
        said = (
            f"{claimed.get('name')} with {claimed.get('num_anchors')} anchors"
            if isinstance(claimed, dict)
            else "no status"
        )
        yield Problem(
            file,
            "dishonest-status",
            "status",
            f"says {said}; it is {earned.name} with {earned.num_anchors} anchors ({earned.because})",
        )


def _overrides(profile: Profile, path: Path, model_id: str) -> tuple[Profile, list[Problem]]:
    """The profile after this file, and the file's problems; entries that cannot be applied are left out one by one."""
    file = f"overrides/{path.name}"
    try:
        entries = read(path, model_id)
    except Refusal as refusal:
        return profile, [_problem(file, refusal)]
    if load_cached(path) is None:
        return profile, [Problem(file, "empty", "overrides", "the file holds nothing; state its entries or remove it")]
    problems = [p for entry in entries for p in _reasons(file, entry)]
    good: list[Entry] = []
    for entry in entries:
        try:
            merge(profile, [*good, entry])
        except Refusal as refusal:
            problems.append(_problem(file, refusal))
        else:
            good.append(entry)
    profile, outcomes = merge(profile, good)
    return profile, problems + [Problem(file, o.status, o.path, _said(o)) for o in outcomes if o.status != "active"]


def _reasons(file: str, entry: Entry) -> Iterator[Problem]:
    if not entry.why.strip() or entry.why == UNEXPLAINED:
        yield Problem(file, "no-reason", entry.path, "the entry does not say why")


def _said(outcome: Outcome) -> str:
    if outcome.status == "stale":
        return f"the generated value is now {outcome.generated!r}; look again, then set `was` to it or remove the entry"
    if outcome.status == "redundant":
        return f"the generated value is already {outcome.generated!r}; remove the entry"
    return "two entries claim the same value; keep one"


def _orphans(known: set[str], catalog: str | None) -> Iterator[Problem]:
    for folder in layers_of("overrides", catalog):
        for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else []:
            if path.stem not in known:
                yield Problem(f"overrides/{path.name}", "orphan", "model", "no profile goes by that id")


def _anchors(catalog: str | None) -> Iterator[Problem]:
    """Anchor files parse, and each anchor names its model, its engine and what was printed."""
    seen: set[str] = set()
    for path in anchor_files(catalog):
        file = f"calibration/{path.parent.name}/{path.name}"
        try:
            anchors = anchors_in(load_cached(path))
        except Refusal as refusal:
            yield _problem(file, refusal)
            continue
        for number, anchor in enumerate(anchors):
            name = str(anchor.get("id", f"anchors[{number}]"))
            try:
                found = anchor_of(anchor, name)
            except Refusal as refusal:
                yield _problem(file, refusal)
                continue
            for wrong in check_anchor(found, _profile_of(found.model, catalog)):
                yield Problem(file, "BadAnchor", f"{name}.{wrong.field}", wrong.message)
            if name in seen:
                yield _problem(file, BadAnchor(f"two anchors are called {name}", path=name))
            seen.add(name)


def _profile_of(model: str, catalog: str | None) -> Profile | None:
    """The profile of a model that an anchor names, where the catalogue has one that can be read."""
    model_id = model.rpartition("/")[2].lower()
    if catalogue.find(model_id, catalog) is None:
        return None
    try:
        return catalogue.effective(model_id, catalog)
    except Refusal:
        return None  # said under its own file


def _problem(file: str, refusal: Refusal) -> Problem:
    value = "" if refusal.value is None else f" (value: {refusal.to_json()['value']})"
    return Problem(
        file, refusal.kind, refusal.path, refusal.message + value + (f"; {refusal.hint}" if refusal.hint else "")
    )
