"""Profile -> the contract's `inspect` dictionary. Values only; nothing here prints."""

from __future__ import annotations

from typing import Any

from onboard.layers import KINDS, CacheSpec, SharedWith, plain
from onboard.plain_data import listed
from onboard.profile import Profile
from onboard.states import StateCache, UnknownState
from onboard.tp import valid_tp


def to_json(profile: Profile) -> dict[str, Any]:
    """`onboard inspect --json`: what a serving engine must keep, before any engine's rounding."""
    variant = next((w for w in profile.weights if w.name == profile.default_weights), None) or next(
        iter(profile.weights), None
    )
    return {
        "schema_version": 1,
        "model": {
            "id": profile.id,
            "source": profile.source.name,
            "revision": profile.source.revision,
            "model_type": profile.model_type,
            "architectures": list(profile.architectures),
        },
        "layers": layer_runs(profile),
        "num_layers": layer_counts(profile),
        "cache": {
            "growing_elements_per_token": plain(profile.growing_elements_per_token),
            "window_elements": profile.window_elements,
            "state_elements_per_sequence": state_elements(profile),
            "cross_elements_per_encoder_token": profile.cross_elements_per_encoder_token,
        },
        "max_model_len": profile.fact("max_model_len"),
        "valid_tp": valid_tp(profile),
        "num_experts": _one(profile.fact("num_experts")),
        "num_experts_per_token": _one(profile.fact("num_experts_per_token")),
        "num_mtp_layers": len(profile.mtp_layers),
        "weights": {
            "checkpoint_bytes": variant.num_bytes if variant else None,
            "num_parameters": variant.num_parameters if variant else None,
            "quantization": variant.quantization if variant else profile.fact("quantization"),
            "origin": variant.origin if variant else "unknown",
        },
        "facts": listed({name: fact.to_json() for name, fact in sorted(profile.facts.items())}),
        "warnings": [w.to_json() for w in profile.warnings],
    }


def _one(value: Any) -> Any:
    """A per-layer list of equal entries as the one number it says."""
    return value[0] if isinstance(value, (tuple, list)) and len(set(value)) == 1 else value


def state_elements(profile: Profile) -> int | None:
    """Elements of recurrent state a sequence; None where a layer's state is of unknown size."""
    unknown = any(isinstance(spec, UnknownState) for spec, _ in profile.cache_groups)
    return None if unknown else profile.state_elements_per_sequence


def layer_runs(profile: Profile) -> list[dict[str, Any]]:
    """Layers that hold equal caches, each with its indices; shared layers name the layer they read, in parallel."""
    model_dtype = profile.fact("dtype") or "model"
    runs: list[dict[str, Any]] = []
    for spec, indices in profile.cache_groups:
        if isinstance(spec, SharedWith):
            continue
        runs.append({"kind": spec.kind, "indices": list(indices), **_fields(spec, model_dtype)})
    shared = [(i, c.layer) for i, layer in enumerate(profile.layers) for c in layer.caches if isinstance(c, SharedWith)]
    if shared:
        runs.append({"kind": "shared", "indices": [i for i, _ in shared], "with": [w for _, w in shared]})
    empty = [i for i, layer in enumerate(profile.layers) if not layer.caches]
    if empty:
        runs.append({"kind": "none", "indices": empty})
    return runs


def layer_counts(profile: Profile) -> dict[str, int]:
    """Layers by kind; a layer with several caches stands under each, so the kinds may sum to more than `total`."""
    counts = {"total": len(profile.layers)}
    for kind in KINDS:
        counts[kind] = sum(kind in layer.kinds() for layer in profile.layers)
    return counts


def _fields(spec: CacheSpec, model_dtype: str) -> dict[str, Any]:
    return spec.to_json(model_dtype) if isinstance(spec, StateCache) else spec.to_json()
