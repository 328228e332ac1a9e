"""Config facts -> typed layers, in three steps that each live in one place.

1. `patterns` says what each layer is: one label a layer (`full_attention`, `sliding_attention`, ...).
2. `geometry` turns a label into the caches that layer owns; labels of recurrent layers go to `recurrent`.
3. `modifiers` change finished layers: sharing, indexers beside latent caches, and the like.

A rule reads fields. What only a family's code knows is one entry in `knowledge`, with its source.
"""

from __future__ import annotations

from onboard.facts import Facts
from onboard.layers import Layer
from onboard.values import Struct


class Derived(Struct, frozen=True):
    """The stack, and the built-in draft head's layers (which come on top of it)."""

    layers: tuple[Layer, ...]
    mtp_layers: tuple[Layer, ...]


def derive_layers(facts: Facts) -> Derived:
    """Layers of a text model. Raises a Refusal that names the field where any layer is not understood."""
    from onboard.rules.counts import layer_count
    from onboard.rules.drafters import attends
    from onboard.rules.encoders import keeps_nothing
    from onboard.rules.geometry import check_labels, layer_for
    from onboard.rules.loops import unroll
    from onboard.rules.modifiers import modify
    from onboard.rules.mtp import mtp_layers
    from onboard.rules.patterns import labels

    if not attends(facts):
        return Derived((), ())
    if keeps_nothing(facts):
        return Derived(tuple(Layer() for _ in range(layer_count(facts))), ())
    names = labels(facts)
    check_labels(facts, names)
    layers = tuple(layer_for(facts, label, index) for index, label in enumerate(names))
    layers = modify(facts, layers)
    return Derived(unroll(facts, layers), mtp_layers(facts, layers, names))
