"""Hand-written corrections: read from `overrides/<id>.yaml`, merged onto a profile, each with its outcome.

An entry states what it replaces (`was`), so that it is not applied once the generated value has changed: it is then
stale and reported. Merging nothing changes nothing, and merging twice is merging once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onboard.errors import BadOverride, Caution
from onboard.override_paths import Cell, Target, resolve
from onboard.plain_data import listed
from onboard.profile import Profile
from onboard.values import replace

ENTRY_KEYS = ("path", "was", "to", "why", "link")
MAX_ENTRIES = 2000


class Entry(NamedTuple):
    """One correction, with the file it stands in."""

    path: str
    was: Any
    to: Any
    why: str
    link: str
    file: str


class Outcome(NamedTuple):
    """What became of an entry: `status` is active, stale, redundant or conflict."""

    path: str
    generated: Any
    override: Any
    effective: Any
    status: str
    why: str
    link: str

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "generated": self.generated,
            "override": self.override,
            "effective": self.effective,
            "status": self.status,
            "why": self.why,
            "link": self.link,
        }


def read(path: Path, model_id: str) -> tuple[Entry, ...]:
    """The entries of an override file. Raises BadYaml, DuplicateKey or BadOverride."""
    from onboard.yamlio import load_cached

    return parse(load_cached(path), f"overrides/{path.name}", model_id)


def parse(data: Any, file: str, model_id: str) -> tuple[Entry, ...]:
    """Entries of parsed YAML. Raises BadOverride with the entry's place."""
    if data is None:
        return ()
    if not isinstance(data, dict) or not set(data) <= {"model", "overrides"}:
        raise BadOverride(f"{file} holds `model` and `overrides`, nothing else", path=file, value=_keys(data))
    if data.get("model") != model_id:
        raise BadOverride(
            f"{file} is for the model {data.get('model')!r}", path=f"{file}: model", hint=f"write model: {model_id}"
        )
    entries = data.get("overrides") or []
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise BadOverride("`overrides` is a list of entries", path=f"{file}: overrides")
    return tuple(_entry(entry, f"{file}: overrides[{i}]", file) for i, entry in enumerate(entries))


def _entry(data: Any, at: str, file: str) -> Entry:
    if not isinstance(data, dict):
        raise BadOverride("an entry is a mapping", path=at, value=str(data)[:80], hint="path, was, to, why, link")
    for key in data:
        if key not in ENTRY_KEYS:
            raise BadOverride(f"an entry has no {key!r}", path=at, value=str(key), hint="path, was, to, why, link")
    for key in ("path", "to", "was"):
        if key not in data:
            raise BadOverride(
                f"the entry has no {key!r}", path=at, value=str(data.get("path", "")), hint="path, was, to, why, link"
            )
    for key in ("path", "why", "link"):
        if not isinstance(data.get(key) or "", str):
            raise BadOverride(f"{key} must be text", path=at, value=data[key])
    return Entry(data["path"] or "", data["was"], data["to"], data.get("why") or "", data.get("link") or "", file)


def merge(profile: Profile, entries: Sequence[Entry]) -> tuple[Profile, tuple[Outcome, ...]]:
    """Apply entries in order. Raises BadOverride where a path names nothing or a value cannot stand there.

    Entries that claim the same value are all marked as conflicts and none of them is applied.
    """
    if not entries:
        return profile, ()
    clashing = _clashes(profile, entries)
    outcomes: list[Outcome] = []
    for number, entry in enumerate(entries):
        target = resolve(profile, entry.path)
        generated = target.get(profile)
        status = "conflict" if number in clashing else _status(profile, target, entry, generated)
        if status == "active":
            profile = target.put(profile, entry.to, entry.file)
        outcomes.append(Outcome(entry.path, generated, entry.to, target.get(profile), status, entry.why, entry.link))
    return _with_stale(profile, outcomes), tuple(outcomes)


def _status(profile: Profile, target: Target, entry: Entry, generated: Any) -> str:
    if _same(generated, entry.to):
        return "redundant"
    after = target.get(target.put(profile, entry.to, entry.file))
    if _same(generated, after):
        return "redundant"
    return "active" if _same(generated, entry.was) else "stale"


def _same(a: Any, b: Any) -> bool:
    a, b = listed(a), listed(b)
    return type(a) is type(b) and bool(a == b) if isinstance(a, bool) or isinstance(b, bool) else bool(a == b)


def _clashes(profile: Profile, entries: Sequence[Entry]) -> set[int]:
    """Numbers of entries whose claims meet within one file."""
    owners: dict[Cell, int] = {}
    clashing: set[int] = set()
    for number, entry in enumerate(entries):
        for cell in resolve(profile, entry.path).cells:
            for length in range(1, len(cell) + 1):
                other = owners.get(cell[:length])
                if other is not None and other != number:
                    clashing |= {number, other}
            for seen, other in owners.items():
                if other != number and len(seen) > len(cell) and seen[: len(cell)] == cell:
                    clashing |= {number, other}
        for cell in resolve(profile, entry.path).cells:
            owners.setdefault(cell, number)
    return clashing


def _with_stale(profile: Profile, outcomes: Sequence[Outcome]) -> Profile:
    """A profile says which overrides did not take effect."""
    told = tuple(
        Caution(
            f"{o.status}-override",
            o.path,
            f"the override of {o.path} is {o.status} and has no effect; see `onboard diff`",
        )
        for o in outcomes
        if o.status == "stale"
    )
    fresh = tuple(t for t in told if t not in profile.warnings)
    return replace(profile, warnings=profile.warnings + fresh) if fresh else profile


def refuse_conflicts(outcomes: Sequence[Outcome], file: str) -> None:
    """Raise BadOverride where entries contradict each other: no number is better than either."""
    for outcome in outcomes:
        if outcome.status == "conflict":
            raise BadOverride(
                f"two entries claim {outcome.path}",
                path=f"{file}: {outcome.path}",
                hint="keep one; `onboard diff` shows both",
            )


def _keys(data: Any) -> str:
    return ", ".join(map(str, data))[:100] if isinstance(data, dict) else type(data).__name__
