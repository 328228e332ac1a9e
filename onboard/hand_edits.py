"""Values that a person changed in a generated file -> override entries that keep their effect, or notes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onboard import ranges
from onboard.errors import Refusal
from onboard.layers import Layer
from onboard.override_paths import resolve
from onboard.plain_data import listed, unpacked
from onboard.profile import Profile
from onboard.profile_yaml import layers_to_data
from onboard.values import Struct

UNEXPLAINED = "changed by hand in the profile file; say why here"


class Proposal(Struct, frozen=True):
    """An override entry made from a hand edit: what the tool derives now, and what the person wrote."""

    path: str
    was: Any
    to: Any
    why: str = UNEXPLAINED

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "was": self.was, "to": self.to, "why": self.why}


def proposals(edits: Mapping[str, Any], profile: Profile, file: Path) -> tuple[tuple[Proposal, ...], list[str]]:
    """Entries and notes for every hand-written value that differs from what `profile` now derives."""
    entries: list[Proposal] = []
    notes: list[str] = []
    for path, value in edits.items():
        for at, wanted in _wanted(path, value, profile):
            try:
                target = resolve(profile, at)
                derived = target.get(profile)
                after = target.get(target.put(profile, wanted, file.name))
            except Refusal:
                notes.append(f"{path} was written by hand: {json.dumps(listed(value), default=str)[:2000]}")
                continue
            if listed(derived) != listed(after):
                entries.append(Proposal(at, derived, after))
    return tuple(entries), notes


def _wanted(path: str, value: Any, profile: Profile) -> Iterator[tuple[str, Any]]:
    """The override paths that a changed leaf of the file amounts to, each with the value that was written."""
    head = path.partition("[")[0].partition(".")[0]
    if head == "facts":
        written = unpacked(value["value"], path)
        if listed(profile.fact(path[len("facts.") :])) != listed(written):
            yield path, listed(written)
    elif head in ("layers", "mtp_layers"):
        yield from _layer_paths(path, head, value, getattr(profile, head))
    elif head in ("weights", "drafters", "deployments"):
        yield path, {k: v for k, v in value.items() if k not in ("name", "origin", "where")}
    elif head in ("warnings", "unknowns"):
        return  # generated text about the profile; it is written anew
    else:
        current = {"model_type": profile.model_type, "architectures": list(profile.architectures)}.get(path, _MISSING)
        if path.startswith("source."):
            current = getattr(profile.source, path[len("source.") :], None)
        if current != value:
            yield path, value


def _layer_paths(path: str, head: str, caches: Any, layers: tuple[Layer, ...]) -> Iterator[tuple[str, Any]]:
    """The layers of a run that differ now, grouped by what is derived for them."""
    indices = ranges.parse(path[len(head) + 1 : -1], path)
    groups: dict[Layer, list[int]] = {}
    for index in indices:
        if index >= len(layers):
            yield f"{head}[{index}]", caches
            return
        groups.setdefault(layers[index], []).append(index)
    for layer, members in groups.items():
        if layers_to_data((layer,))[0]["caches"] != listed(caches):
            yield f"{head}[{ranges.to_text(members)}]", caches


_MISSING = object()
