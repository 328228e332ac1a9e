"""The path language of overrides: a path -> the values it names in a profile, and a profile with them replaced.

    facts.max_model_len                    a fact that is not a layer's geometry
    layers.full.v_dim                      a field of every cache of that kind
    layers[5-10].num_kv_heads              of those layers (ranges as in profile files); .kind may stand between
    layers[5]                              the whole layer: a list of caches
    weights.NAME, weights.NAME.num_bytes   a variant, or one field of it; drafters and deployments likewise
    default_weights

`mtp_layers` is addressed as `layers` is. A path that names nothing is refused with the nearest that exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from onboard import ranges
from onboard.errors import BadOverride, Refusal
from onboard.layer_data import spec_from_dict, spec_to_dict
from onboard.layers import KINDS, CacheSpec, Layer
from onboard.plain_data import frozen, listed, named_once
from onboard.profile import Profile
from onboard.profile_yaml import (
    deployment_from_data,
    deployment_to_data,
    drafter_from_data,
    drafter_to_data,
    layers_to_data,
    variant_from_data,
    variant_to_data,
)
from onboard.sourced import Sourced
from onboard.values import replace

Cell = tuple[Any, ...]  # what a path claims; two claims clash where one is the other's beginning

# Facts that were already turned into layers: changing one would change nothing.
SPENT_ON_LAYERS = re.compile(
    r"num_hidden_layers|layer_types|num_kv_heads|head_dim|v_head_dim|global_head_dim|num_global_kv_heads|multi_query|k_eq_v"
    r"|sliding_window.*|use_sliding_window|max_window_layers|full_attention_interval|attention_chunk_size"
    r"|num_kv_shared_layers|ssm_.*|linear_.*|mamba_.*|kv_lora_rank|qk_.*_head_dim|index_.*"
)
_LAYERS = re.compile(r"^(?P<stack>layers|mtp_layers)(?:\[(?P<range>[^\]]*)\])?(?:\.(?P<rest>.+))?$")
NAMED: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Any, str], Any]]] = {
    "weights": (variant_to_data, variant_from_data),
    "drafters": (drafter_to_data, drafter_from_data),
    "deployments": (deployment_to_data, deployment_from_data),
}


class Target(NamedTuple):
    """`get(profile)` gives plain data (None where absent), `put(profile, value, where)` the changed profile."""

    cells: tuple[Cell, ...]
    get: Callable[[Profile], Any]
    put: Callable[[Profile, Any, str], Profile]


def resolve(profile: Profile, path: str) -> Target:
    """What `path` names in this profile. Raises BadOverride, naming the nearest path, where it names nothing."""
    found = _LAYERS.fullmatch(path)
    if found:
        return _layers(profile, path, found["stack"], found["range"], found["rest"])
    head, _, rest = path.partition(".")
    if head == "facts" and rest:
        return _fact(profile, path, rest)
    if head in NAMED and rest:
        return _named(profile, path, head, rest)
    if path == "default_weights":
        return Target(
            (("default_weights",),),
            lambda p: p.default_weights,
            lambda p, value, _: replace(p, default_weights=_name(value, path)),
        )
    raise unknown(profile, path)


def unknown(profile: Profile, path: str) -> BadOverride:
    """The refusal of a path that names nothing, with the nearest that exist."""
    from difflib import get_close_matches

    known = known_paths(profile)
    near = get_close_matches(path, known, n=2, cutoff=0.5) or [p for p in known if p.endswith("." + path)][:2]
    return BadOverride(
        f"{path!r} is not in the profile of {profile.id}",
        path=path,
        hint="did you mean " + " or ".join(near) + "?"
        if near
        else "paths begin with facts, layers, weights, drafters or deployments",
    )


def known_paths(profile: Profile) -> list[str]:
    """Paths that exist, for hints."""
    kinds = {(c.kind, f) for layer in profile.layers for c in layer.caches for f in spec_to_dict(c) if f != "type"}
    return [
        *(f"facts.{name}" for name in fact_names(profile)),
        *(f"layers.{kind}.{field}" for kind, field in sorted(kinds)),
        *(f"weights.{w.name}" for w in profile.weights),
        *(f"weights.{w.name}.num_bytes" for w in profile.weights),
        *(f"drafters.{d.name}" for d in profile.drafters),
        *(f"deployments.{d.name}" for d in profile.deployments),
        "default_weights",
    ]


def fact_names(profile: Profile) -> list[str]:
    """Facts an override may state: those of the profile, and every field of the table."""
    from onboard.fields import FIELDS

    names = {*profile.facts, *FIELDS, "max_model_len", "quantization"}
    return sorted(n for n in names if not SPENT_ON_LAYERS.fullmatch(n))


# --- facts ------------------------------------------------------------------------------------------------------------


def _fact(profile: Profile, path: str, name: str) -> Target:
    if SPENT_ON_LAYERS.fullmatch(name):
        raise BadOverride(
            f"{path} was already turned into layers; changing it would change nothing",
            path=path,
            hint="override the layers: layers.<kind>.<field>, as `onboard show` lists them",
        )
    if name not in profile.facts and name not in fact_names(profile):
        raise unknown(profile, path)

    def put(p: Profile, value: Any, where: str) -> Profile:
        rest = {k: v for k, v in p.facts.items() if k != name}
        return replace(p, facts=rest if value is None else {**rest, name: Sourced(frozen(value), "override", where)})

    return Target((("facts", name),), lambda p: listed(p.fact(name)), put)


# --- layers -----------------------------------------------------------------------------------------------------------


def _layers(profile: Profile, path: str, stack: str, span: str | None, rest: str | None) -> Target:
    layers: tuple[Layer, ...] = getattr(profile, stack)
    try:
        indices = tuple(range(len(layers))) if span is None else ranges.parse(span, path)
    except Refusal as refusal:
        raise BadOverride(refusal.message, path=path, value=span, hint=refusal.hint) from None
    if any(i >= len(layers) for i in indices):
        raise BadOverride(
            f"{profile.id} has {len(layers)} {stack}", path=path, value=span, hint=f"0 to {len(layers) - 1}"
        )
    if rest is None:
        if span is None:
            raise BadOverride("name the layers or a kind", path=path, hint=f"{stack}.full.v_dim, or {stack}[5-10]")
        return _whole_layers(path, stack, indices)
    kind, dot, field = rest.partition(".")
    if not dot:
        kind, field = "", rest
    chosen = [
        (i, n)
        for i in indices
        for n, c in enumerate(layers[i].caches)
        if kind in ("", c.kind) and field in spec_to_dict(c)
    ]
    if (kind and kind not in KINDS) or not chosen or field == "type":
        raise unknown(profile, path)
    if not kind and span is not None and len(chosen) != len(indices):
        raise BadOverride(
            f"not every layer of {path} has exactly one {field}", path=path, hint="name the kind: [..].full." + field
        )
    places = tuple(chosen)

    def get(p: Profile) -> Any:
        values = [listed(getattr(getattr(p, stack)[i].caches[n], field)) for i, n in places]
        if any(v != values[0] for v in values):
            found = str(sorted(set(map(str, values))))
            raise BadOverride(f"{path} names layers that differ", path=path, value=found, hint="name fewer")
        return values[0]

    def put(p: Profile, value: Any, where: str) -> Profile:
        changed = list(getattr(p, stack))
        for i, n in places:
            caches = list(changed[i].caches)
            caches[n] = _cache({**spec_to_dict(caches[n]), field: frozen(value)}, path)
            changed[i] = Layer(tuple(caches))
        return _replaced(p, stack, changed, path, value, where)

    return Target(tuple((stack, i, n, field) for i, n in places), get, put)


def _whole_layers(path: str, stack: str, indices: tuple[int, ...]) -> Target:
    def get(p: Profile) -> Any:
        layers = getattr(p, stack)
        if any(layers[i] != layers[indices[0]] for i in indices):
            raise BadOverride(f"{path} names layers that differ", path=path, hint="name fewer")
        return layers_to_data((layers[indices[0]],))[0]["caches"]

    def put(p: Profile, value: Any, where: str) -> Profile:
        if not isinstance(value, (list, tuple)) or not all(isinstance(c, dict) for c in value):
            raise BadOverride(
                f"{path} is a list of caches", path=path, hint="to: [{type: FullAttention, num_kv_heads: 8, ...}]"
            )
        layer = Layer(tuple(_cache(c, path) for c in value))
        changed = list(getattr(p, stack))
        for i in indices:
            changed[i] = layer
        return _replaced(p, stack, changed, path, value, where)

    return Target(tuple((stack, i) for i in indices), get, put)


def _cache(data: dict[str, Any], path: str) -> CacheSpec:
    try:
        return spec_from_dict(frozen(data), path)
    except Refusal as refusal:
        raise BadOverride(
            refusal.message, path=named_once(path, refusal.path), value=refusal.value, hint=refusal.hint
        ) from None


def _replaced(p: Profile, stack: str, layers: Iterable[Layer], path: str, value: Any, where: str) -> Profile:
    facts = {**p.facts, path: Sourced(frozen(value), "override", where)}
    changed = tuple(layers)
    return replace(p, layers=changed, facts=facts) if stack == "layers" else replace(p, mtp_layers=changed, facts=facts)


# --- weights, drafters, deployments -----------------------------------------------------------------------------------


def _named(profile: Profile, path: str, group: str, rest: str) -> Target:
    """`rest` is a name, or a name and a field; names may hold dots, so an existing name is looked for first."""
    names = [item.name for item in getattr(profile, group)]
    name, field = rest, None
    if rest not in names:
        owner = next((n for n in names if rest.startswith(n + ".")), None)
        if owner is not None:
            name, field = owner, rest[len(owner) + 1 :]
        elif rest.partition(".")[2] in ITEM_FIELDS[group]:
            raise unknown(profile, path)
    if field is not None and field not in ITEM_FIELDS[group] and not field.startswith("options."):
        raise unknown(profile, path)

    to_plain, from_plain = NAMED[group]

    def find(p: Profile) -> dict[str, Any] | None:
        return next((to_plain(item) for item in getattr(p, group) if item.name == name), None)

    def get(p: Profile) -> Any:
        item = find(p)
        if item is None or field is None:
            return None if item is None else {k: v for k, v in item.items() if k not in _FILLED}
        at, _, option = field.partition(".")
        return (item.get(at) or {}).get(option) if option else item.get(at)

    def put(p: Profile, value: Any, where: str) -> Profile:
        items = list(getattr(p, group))
        at = next((i for i, item in enumerate(items) if item.name == name), len(items))
        if value is None and field is None:
            changed = []
        else:
            try:
                changed = [from_plain(_changed(find(p), field, value, name, where, group, path), path)]
            except Refusal as refusal:
                raise BadOverride(
                    refusal.message, path=named_once(path, refusal.path), value=refusal.value, hint=refusal.hint
                ) from None
        items[at : at + 1] = changed
        return replace(p, **{group: tuple(items)})

    return Target(((group, name, *(field.split(".") if field else ())),), get, put)


_FILLED = ("name", "origin", "where")
ITEM_FIELDS: dict[str, tuple[str, ...]] = {
    "weights": ("num_bytes", "quantization", "repo", "revision", "num_parameters", "error_ppm"),
    "drafters": ("method", "num_bytes", "layers", "source"),
    "deployments": ("options", "source"),
}


def _changed(
    old: dict[str, Any] | None, field: str | None, value: Any, name: str, where: str, group: str, path: str
) -> dict[str, Any]:
    filled = {"origin": "override", "where": where} if group == "weights" else {}
    if field is None:
        if not isinstance(value, dict):
            raise BadOverride(
                f"{path} is a mapping", path=path, value=value, hint="fields: " + ", ".join(ITEM_FIELDS[group])
            )
        return {"name": name, **filled, **listed(value)}
    changed = dict(old or {})
    at, _, option = field.partition(".")
    changed[at] = {**changed.get(at, {}), option: value} if option else listed(value)
    return {k: v for k, v in {**changed, **filled}.items() if v is not None}


def _name(value: Any, path: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadOverride(f"{path} is the name of a variant", path=path, value=value)
    return value
