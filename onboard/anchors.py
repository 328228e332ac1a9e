"""How many measured anchors a model has, for its status. What an anchor says is calc's business."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onboard.catalog_paths import layers_of
from onboard.errors import Refusal
from onboard.profile import Profile


def anchor_files(catalog: str | None = None) -> list[Path]:
    """Every anchor file, the shipped ones first."""
    found: list[Path] = []
    for folder in layers_of("calibration", catalog):
        found += sorted(folder.glob("*/*.yaml")) if folder.is_dir() else []
    return found


def count_anchors(catalog: str | None = None, profile: Profile | None = None) -> dict[str, int]:
    """Anchors by the model they name; with a profile, only files that mention it are parsed.

    A file that cannot be read counts for nothing (`onboard check` reports it).
    """
    from onboard.yamlio import load_cached, read_text

    counts: dict[str, int] = {}
    for path in anchor_files(catalog):
        try:
            if profile is not None and not any(n in read_text(path) for n in (profile.id, profile.source.name)):
                continue
            data = load_cached(path)
        except Refusal:
            continue
        for anchor in anchors_in(data):
            model = anchor.get("model") or anchor.get("profile")
            if isinstance(model, str):
                counts[model] = counts.get(model, 0) + 1
    return counts


def anchors_of(profile: Profile, counts: Mapping[str, int]) -> int:
    """Anchors that name this profile's id or its repository."""
    return sum(counts.get(name, 0) for name in {profile.id, profile.source.name})


def anchors_in(data: Any) -> list[Mapping[str, Any]]:
    """The anchors of one parsed file: the file itself, or its `anchors` list (which may share the file's model)."""
    if not isinstance(data, Mapping):
        return []
    listed = data.get("anchors")
    if isinstance(listed, list):
        shared = {k: data[k] for k in ("model", "profile") if k in data}
        return [{**shared, **a} for a in listed if isinstance(a, Mapping)]
    return [data]
