"""A label -> the caches of that layer: one builder a label, found in one table."""

from __future__ import annotations

from collections.abc import Callable

from onboard.errors import UnknownLayerKind
from onboard.facts import Facts
from onboard.layers import CacheSpec, Heads, Layer
from onboard.rules.attention import ATTENTION_BUILDERS
from onboard.rules.labels import SLIDING
from onboard.rules.recurrent_labels import HYBRID_SLIDING
from onboard.rules.state_builders import STATE_BUILDERS
from onboard.rules.windows import need_window

BUILDERS: dict[str, Callable[[Facts, int], tuple[CacheSpec, ...]]] = {**ATTENTION_BUILDERS, **STATE_BUILDERS}


def check_labels(facts: Facts, labels: tuple[str, ...]) -> None:
    """Refuse a label that no builder knows, and windows that are stated nowhere, before any size is asked for."""
    for index, label in enumerate(labels):
        if label not in BUILDERS:
            layer_for(facts, label, index)
        if label in (SLIDING, HYBRID_SLIDING):
            need_window(facts, index)


def layer_for(facts: Facts, label: str, index: int) -> Layer:
    """The layer at `index`. Raises UnknownLayerKind, naming the label, where no builder knows it."""
    builder = BUILDERS.get(label)
    if builder is None:
        raise UnknownLayerKind(
            f"layer {index} is {label[:80]!r}, which no rule knows",
            path=f"{facts.path('layer_types')}[{index}]",
            value=label[:200],
            hint="known: " + ", ".join(sorted(BUILDERS)),
        )
    return Layer(
        tuple(spec for spec in builder(facts, index) if not (isinstance(spec, Heads) and spec.num_kv_heads == 0))
    )
