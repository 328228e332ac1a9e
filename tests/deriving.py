"""Deriving in tests: one call from a mapping, and what a layer is called in the evidence files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.derive import derive
from onboard.layers import ChunkedAttention, Layer, WindowAttention, WindowLatent
from onboard.profile import Profile, SourceRef

SOURCE = SourceRef(kind="file", name="config.json")


def profile_of(config: Mapping[str, Any], **more: Any) -> Profile:
    return derive(config, model_id="test", source=SOURCE, **more)


def caution_kinds(profile: Profile) -> set[str]:
    return {w.kind for w in profile.warnings}


def indices(profile: Profile, kind: str) -> list[int]:
    return [i for i, layer in enumerate(profile.layers) if kind in layer.kinds()]


def growth_kinds(layer: Layer) -> set[str]:
    """How a layer's caches grow, in the words of transformers_cache.json."""
    found = set()
    for spec in layer.caches:
        found |= {"growing"} if spec.growing_elements() else set()
        found |= {"fixed"} if spec.window_elements() else set()
        found |= {"recurrent"} if spec.state_elements() else set()
    return found


def saturated_elements(profile: Profile) -> int:
    """Window elements as transformers holds them: one token less than the window."""
    total = 0
    for layer in profile.layers:
        for spec in layer.caches:
            if isinstance(spec, (WindowAttention, WindowLatent)):
                total += spec.elements_per_token() * (spec.window - 1)
            elif isinstance(spec, ChunkedAttention):
                total += spec.elements_per_token() * (spec.chunk - 1)
    return total
