"""The catalogue: which profiles there are, and one of them as it takes effect. A warm start parses no YAML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onboard.catalog_paths import layers_of, shipped, user_catalog
from onboard.errors import UnknownModel, UsageError
from onboard.profile import Profile, SourceRef
from onboard.values import replace

if TYPE_CHECKING:
    from onboard.overrides import Outcome

_CODE = Path(__file__).resolve().parent
ID = re.compile(r"^[a-z0-9][a-z0-9._-]{0,127}$")


class Loaded(NamedTuple):
    """A catalogued profile: as generated, as it takes effect, what each override did, and the file it came from."""

    generated: Profile
    effective: Profile
    outcomes: tuple[Outcome, ...]
    path: Path


def find(model_id: str, catalog: str | None = None) -> Path | None:
    """The profile file of an id, the user's before the shipped one; None where there is none."""
    if not ID.fullmatch(model_id):
        return None
    for folder in reversed(layers_of("profiles", catalog)):
        path = folder / f"{model_id}.yaml"
        if path.is_file():
            return path
    return None


def load(model_id: str, catalog: str | None = None) -> Loaded:
    """Read and merge. Raises UnknownModel, BadProfile, BadYaml or BadOverride (conflicts are outcomes)."""
    from onboard.overrides import merge, read
    from onboard.unknowns import unknowns

    path = find(model_id, catalog)
    if path is None:
        raise unknown_id(model_id, catalog)
    generated = read_profile(path)
    effective = generated
    outcomes: tuple[Outcome, ...] = ()
    for file in override_files(generated, path, catalog):
        effective, some = merge(effective, read(file, model_id))
        outcomes += some
    if outcomes:
        effective = replace(effective, unknowns=unknowns(effective))
    return Loaded(generated, effective, outcomes, path)


def override_files(profile: Profile, path: Path, catalog: str | None = None) -> tuple[Path, ...]:
    """The override files of the profile at `path`, the shipped one first. That one speaks of the shipped profile's
    source, so it is left out where a user's profile of the same id is another model.
    """
    found = [folder / path.name for folder in layers_of("overrides", catalog)]
    below = shipped("overrides") / path.name
    source = None if path.parent == shipped("profiles") else shipped_source(path.stem)
    if source is not None and not profile.source.same_model_as(source):
        found = [file for file in found if file != below]
    return tuple(file for file in found if file.is_file())


def shipped_source(model_id: str) -> SourceRef | None:
    """What the shipped profile of an id was derived from; None where none is shipped."""
    path = shipped("profiles") / f"{model_id}.yaml"
    return read_profile(path).source if ID.fullmatch(model_id) and path.is_file() else None


def effective(model_id: str, catalog: str | None = None) -> Profile:
    """The profile as it takes effect. Raises BadOverride where overrides contradict each other.

    The merged form is kept under the texts it came from, so that a second start merges nothing.
    """
    from onboard.profile_yaml import from_data
    from onboard.yamlio import kept_as_json

    return from_data(kept_as_json(_texts(model_id, catalog), lambda: _merged(model_id, catalog)), model_id)


def _merged(model_id: str, catalog: str | None) -> dict[str, Any]:
    from onboard.overrides import refuse_conflicts
    from onboard.profile_yaml import to_data

    loaded = load(model_id, catalog)
    refuse_conflicts(loaded.outcomes, f"overrides/{model_id}.yaml")
    return to_data(loaded.effective)


def _texts(model_id: str, catalog: str | None) -> str:
    """Every text that a merged profile comes from, the code that merges among them."""
    from onboard.yamlio import read_text

    path = find(model_id, catalog)
    if path is None:
        raise unknown_id(model_id, catalog)
    beside = [folder / path.name for name in ("overrides", "profiles") for folder in layers_of(name, catalog)]
    code = (
        _CODE / name for name in ("catalog.py", "overrides.py", "override_paths.py", "profile_yaml.py", "unknowns.py")
    )
    stamps = [f"{f.name} {f.stat().st_size} {f.stat().st_mtime_ns}" for f in code if f.is_file()]
    return "\0".join(["merged", *stamps, str(path), read_text(path), *(read_text(f) for f in beside if f.is_file())])


def read_profile(path: Path) -> Profile:
    """One profile file as generated. Raises BadYaml or BadProfile, naming file and field."""
    from onboard.errors import BadProfile
    from onboard.profile_yaml import from_data
    from onboard.yamlio import load_cached

    try:
        profile = from_data(load_cached(path), path.name)
    except BadProfile as refusal:
        raise BadProfile(
            refusal.message, path=f"{path.name}: {refusal.path}", value=refusal.value, hint=refusal.hint
        ) from None
    if profile.id != path.stem:
        raise BadProfile(
            f"{path.name} holds the id {profile.id!r}",
            path=f"{path.name}: id",
            value=profile.id,
            hint=f"id: {path.stem}",
        )
    return profile


def ids(catalog: str | None = None) -> list[str]:
    """Every id, sorted."""
    found = {p.stem for folder in layers_of("profiles", catalog) for p in _yaml_files(folder)}
    return sorted(i for i in found if ID.fullmatch(i))


def own_ids(catalog: str | None = None) -> list[str]:
    """The ids of the user's own catalogue, sorted."""
    found = (p.stem for p in _yaml_files(user_catalog(catalog) / "profiles"))
    return sorted(i for i in found if ID.fullmatch(i))


def _yaml_files(folder: Path) -> list[Path]:
    try:
        return [p for p in folder.iterdir() if p.suffix == ".yaml" and not p.name.startswith(".")]
    except OSError:
        return []


def check_id(model_id: str) -> str:
    """An id that a user gave. Raises UsageError where it cannot be a file's name."""
    if not ID.fullmatch(model_id):
        raise UsageError(
            f"{model_id[:80]!r} cannot be an id",
            path="--id",
            value=model_id[:80],
            hint="lower-case letters, digits, dots and dashes: qwen3.6-27b",
        )
    return model_id


def unknown_id(model_id: str, catalog: str | None = None) -> UnknownModel:
    """The refusal of an id that no catalogue has, with the nearest ones."""
    from difflib import get_close_matches

    known = ids(catalog)
    near = get_close_matches(model_id, known, n=3, cutoff=0.4)
    hint = (
        "did you mean " + ", ".join(near) + "?"
        if near
        else "`onboard list` shows the ids; `onboard add SOURCE` adds one"
    )
    return UnknownModel(
        f"no profile is called {model_id[:80]!r} in {user_catalog(catalog)} or the shipped catalogue",
        path="ID",
        value=model_id[:80],
        hint=hint,
    )
