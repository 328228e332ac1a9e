"""How many measured anchors a model has, for its status. What an anchor says is calc's business."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from onboard.catalog import shipped_source
from onboard.catalog_paths import layers_of
from onboard.errors import Refusal
from onboard.profile import Profile


class Reference(NamedTuple):
    """The model an anchor names, and whether the anchor lies in the shipped catalogue beneath the user's."""

    model: str
    shipped: bool


Counts = Mapping[Reference, int]


def anchor_files(catalog: str | None = None) -> list[Path]:
    """Every anchor file, the shipped ones first."""
    found: list[Path] = []
    for folder in layers_of("calibration", catalog):
        found += sorted(folder.glob("*/*.yaml")) if folder.is_dir() else []
    return found


def count_anchors(catalog: str | None = None, profile: Profile | None = None) -> Counts:
    """Anchors by the model they name; with a profile, only files that mention it are parsed.

    A file that cannot be read counts for nothing (`onboard check` reports it).
    """
    from onboard.yamlio import load_cached, read_text

    counts: dict[Reference, int] = {}
    layers = layers_of("calibration", catalog)
    beneath = layers[0] if len(layers) > 1 else None
    for path in anchor_files(catalog):
        try:
            if profile is not None and not _mentioned(profile, read_text(path)):
                continue
            data = load_cached(path)
        except Refusal:
            continue
        for anchor in anchors_in(data):
            model = anchor.get("model") or anchor.get("profile")
            if isinstance(model, str):
                named = Reference(model, path.parent.parent == beneath)
                counts[named] = counts.get(named, 0) + 1
    return counts


def anchors_of(profile: Profile, counts: Counts) -> int:
    """Anchors of this very model: an id alone does not make one, since two catalogues may give it to two models."""
    return sum(number for named, number in counts.items() if _is(profile, named))


def _is(profile: Profile, named: Reference) -> bool:
    """A repository's name means that repository; an id means the profile it has in the anchor's own catalogue, and
    where that has none, the repository that is called so.
    """
    name = profile.source.name.casefold()
    if "/" in named.model:
        return named.model.casefold() == name
    if named.model == profile.id and not named.shipped:
        return True
    known = shipped_source(named.model)
    if known is not None:
        return profile.source.same_model_as(known)
    org, _, repo = name.rpartition("/")
    return bool(org) and named.model.casefold() == repo


def _mentioned(profile: Profile, text: str) -> bool:
    folded = text.casefold()
    return any(name.casefold() in folded for name in (profile.id, profile.source.name.rpartition("/")[2]))


def anchors_in(data: Any) -> list[Mapping[str, Any]]:
    """The anchors of one parsed file: the file itself, or its `anchors` list (which may share the file's model)."""
    if not isinstance(data, Mapping):
        return []
    listed = data.get("anchors")
    if isinstance(listed, list):
        shared = {k: data[k] for k in ("model", "profile") if k in data}
        return [{**shared, **a} for a in listed if isinstance(a, Mapping)]
    return [data]
