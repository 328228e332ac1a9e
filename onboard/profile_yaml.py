"""Profile <-> the plain data that a profile file holds. The identity both ways; no YAML is parsed or written here.

Layers stand in runs: equal layers together, with their indices. A fact is one mapping of value, origin and where.
`status`, `notes` and `seal` belong to the file, not to the Profile (`profile_text` writes them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from onboard import ranges
from onboard.errors import BadProfile, Caution, Refusal
from onboard.layer_data import spec_from_dict, spec_to_dict
from onboard.layers import Layer
from onboard.plain_data import build, frozen, listed, mapping, packed, sane, sequence, text, unpacked
from onboard.profile import (
    PROFILE_SCHEMA_VERSION,
    Deployment,
    DrafterRef,
    Profile,
    SourceRef,
    TensorGroup,
    WeightVariant,
)
from onboard.sourced import Sourced
from onboard.values import fields

ORIGINS = ("config", "class-default", "rule", "header", "override")
FILE_ONLY = ("status", "notes", "seal")
KEYS = (
    "schema_version",
    "id",
    "status",
    "source",
    "model_type",
    "architectures",
    "layers",
    "mtp_layers",
    "facts",
    "weights",
    "default_weights",
    "drafters",
    "deployments",
    "warnings",
    "unknowns",
    "notes",
    "seal",
)
T = TypeVar("T")


# --- Profile -> data ------------------------------------------------------------------------------------------------


def to_data(profile: Profile) -> dict[str, Any]:
    """Plain mappings, lists and scalars, in the order a reader wants them; what is empty is left out."""
    data: dict[str, Any] = {
        "schema_version": PROFILE_SCHEMA_VERSION,
        "id": profile.id,
        "source": _plain(profile.source),
        "model_type": profile.model_type,
        "architectures": list(profile.architectures),
        "layers": layers_to_data(profile.layers),
        "mtp_layers": layers_to_data(profile.mtp_layers),
        "facts": {
            name: {"value": packed(f.value), "origin": f.origin, "where": f.where}
            for name, f in sorted(profile.facts.items())
        },
        "weights": [variant_to_data(w) for w in profile.weights],
        "default_weights": profile.default_weights,
        "drafters": [drafter_to_data(d) for d in profile.drafters],
        "deployments": [deployment_to_data(d) for d in profile.deployments],
        "warnings": [w.to_json() for w in profile.warnings],
        "unknowns": [u.to_json() for u in profile.unknowns],
    }
    always = ("schema_version", "id", "source", "model_type", "architectures", "layers", "facts")
    return {k: v for k, v in data.items() if k in always or v not in ([], None)}


def layers_to_data(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """Runs of equal layers in order of first appearance."""
    runs: dict[Layer, list[int]] = {}
    for index, layer in enumerate(layers):
        runs.setdefault(layer, []).append(index)
    return [
        {"indices": ranges.to_text(indices), "caches": [_spec(c) for c in layer.caches]}
        for layer, indices in runs.items()
    ]


def variant_to_data(variant: WeightVariant) -> dict[str, Any]:
    """A set of weights as plain data; groups name their layers as ranges."""
    data = _plain(variant, leave_out=("groups",))
    if variant.groups:
        data["groups"] = [
            {**_plain(g, leave_out=("layers",)), **({"layers": ranges.to_text(g.layers)} if g.layers else {})}
            for g in variant.groups
        ]
    return data


def drafter_to_data(drafter: DrafterRef) -> dict[str, Any]:
    """A drafter as plain data, without layers where it has none."""
    data = _plain(drafter, leave_out=("layers",))
    return {**data, "layers": layers_to_data(drafter.layers)} if drafter.layers else data


def deployment_to_data(deployment: Deployment) -> dict[str, Any]:
    """A deployment as plain data."""
    return _plain(deployment)


def _spec(spec: Any) -> dict[str, Any]:
    return {k: listed(v) for k, v in spec_to_dict(spec).items()}


def _plain(value: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """A dataclass's fields; those at their default are left out."""
    return {
        f.name: listed(getattr(value, f.name))
        for f in fields(value)
        if f.name not in leave_out and getattr(value, f.name) != f.default
    }


# --- data -> Profile ------------------------------------------------------------------------------------------------


def from_data(data: Any, name: str = "profile") -> Profile:
    """Rebuild a profile. Raises BadProfile with the path of whatever does not hold."""
    top = mapping(data, name)
    for key in top:
        if key not in KEYS:
            raise BadProfile(f"a profile has no {key!r}", path=str(key), hint=f"it has {', '.join(KEYS)}")
    if top.get("schema_version") != PROFILE_SCHEMA_VERSION:
        raise BadProfile(
            f"{name} has schema_version {top.get('schema_version')!r}; this version reads {PROFILE_SCHEMA_VERSION}",
            path="schema_version",
            value=top.get("schema_version"),
            hint="`onboard add` the model again",
        )
    return Profile(
        id=text(top.get("id"), "id"),
        source=build(SourceRef, mapping(top.get("source"), "source"), "source"),
        model_type=text(top.get("model_type"), "model_type"),
        architectures=tuple(
            text(a, f"architectures[{i}]") for i, a in enumerate(sequence(top.get("architectures"), "architectures"))
        ),
        layers=layers_from_data(top.get("layers"), "layers"),
        mtp_layers=layers_from_data(top.get("mtp_layers") or [], "mtp_layers"),
        facts={str(k): _fact(v, f"facts.{k}") for k, v in mapping(top.get("facts"), "facts").items()},
        weights=_each(top, "weights", variant_from_data),
        default_weights=None if top.get("default_weights") is None else text(top["default_weights"], "default_weights"),
        drafters=_each(top, "drafters", drafter_from_data),
        deployments=_each(top, "deployments", deployment_from_data),
        warnings=_each(top, "warnings", _caution),
        unknowns=_each(top, "unknowns", _caution),
    )


def layers_from_data(runs: Any, path: str) -> tuple[Layer, ...]:
    """Layers of runs. Raises BadProfile where an index is missing or claimed twice."""
    placed: dict[int, Layer] = {}
    for number, entry in enumerate(sequence(runs, path)):
        at = f"{path}[{number}]"
        run = mapping(entry, at)
        caches = tuple(
            spec_from_dict(frozen(mapping(c, f"{at}.caches")), f"{at}.caches")
            for c in sequence(run.get("caches"), f"{at}.caches")
        )
        for key in run:
            if key not in ("indices", "caches"):
                raise BadProfile(f"a run of layers has no {key!r}", path=f"{at}.{key}", hint="it has indices, caches")
        layer = Layer(caches)
        for index in ranges.parse(run.get("indices"), f"{at}.indices"):
            if index in placed:
                raise BadProfile(f"layer {index} stands in two runs", path=f"{at}.indices", value=run.get("indices"))
            placed[index] = layer
    missing = next((i for i in range(len(placed)) if i not in placed), None)
    if missing is not None:
        raise BadProfile(f"no run holds layer {missing}", path=path, hint="every layer from 0 on stands in one run")
    return tuple(placed[i] for i in range(len(placed)))


def variant_from_data(data: Any, path: str) -> WeightVariant:
    """The reverse of `variant_to_data`. Raises BadProfile, naming the path of what is wrong."""
    given = dict(mapping(data, path))
    groups = tuple(
        _group(g, f"{path}.groups[{i}]") for i, g in enumerate(sequence(given.pop("groups", []), f"{path}.groups"))
    )
    return build(WeightVariant, given, path, groups=groups)


def _group(data: Any, path: str) -> TensorGroup:
    given = dict(mapping(data, path))
    layers = given.pop("layers", None)
    return build(TensorGroup, given, path, layers=() if layers is None else ranges.parse(layers, f"{path}.layers"))


def drafter_from_data(data: Any, path: str) -> DrafterRef:
    """The reverse of `drafter_to_data`. Raises BadProfile."""
    given = dict(mapping(data, path))
    given.setdefault("num_bytes", None)
    return build(DrafterRef, given, path, layers=layers_from_data(given.pop("layers", []), f"{path}.layers"))


def deployment_from_data(data: Any, path: str) -> Deployment:
    """The reverse of `deployment_to_data`. Raises BadProfile."""
    given = dict(mapping(data, path))
    options = {text(k, f"{path}.options"): v for k, v in mapping(given.pop("options", None), f"{path}.options").items()}
    return build(Deployment, given, path, options=options)


def _caution(data: Any, path: str) -> Caution:
    return build(Caution, mapping(data, path), path)


def _fact(data: Any, path: str) -> Sourced:
    given = mapping(data, path)
    if set(given) != {"value", "origin", "where"}:
        raise BadProfile("a fact has value, origin and where", path=path, value=", ".join(map(str, given)))
    if given["origin"] not in ORIGINS:
        raise BadProfile(
            f"no origin is called {given['origin']!r}", path=f"{path}.origin", hint="one of " + ", ".join(ORIGINS)
        )
    return Sourced(sane(unpacked(given["value"], path), path), given["origin"], text(given["where"], f"{path}.where"))


def _each(top: Mapping[str, Any], key: str, build: Callable[[Any, str], T]) -> tuple[T, ...]:
    return tuple(build(entry, f"{key}[{i}]") for i, entry in enumerate(sequence(top.get(key) or [], key)))


def check_round_trip(profile: Profile) -> None:
    """Raise BadProfile where the profile would not come back from its own data as it is."""
    try:
        back = from_data(to_data(profile), profile.id)
    except Refusal as refusal:
        raise BadProfile(
            f"the derived profile cannot be stored: {refusal.message}", path=refusal.path, value=refusal.value
        ) from None
    if to_data(back) != to_data(profile):
        raise BadProfile("the derived profile does not survive being stored", path=profile.id)
