"""What changes layers that are otherwise finished: cross-layer sharing, and caches beside the attention's own."""

from __future__ import annotations

from onboard.errors import FieldInvalid
from onboard.facts import Facts
from onboard.layers import Layer, SharedWith


def modify(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Apply every modifier whose field is stated, in order."""
    return _shared_tail(facts, layers)


def _shared_tail(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """`num_kv_shared_layers` n: the last n layers read the last earlier layer of their own kind (Gemma 3n, Gemma 4)."""
    count = facts.get("num_kv_shared_layers") or 0
    if not count:
        return layers
    if count >= len(layers):
        raise FieldInvalid("num_kv_shared_layers leaves no layer with a cache", path=facts.prefix + "num_kv_shared_layers", value=count)
    own = layers[: len(layers) - count]
    source = {layer.kinds(): index for index, layer in enumerate(own)}
    shared = []
    for index in range(len(own), len(layers)):
        if layers[index].kinds() not in source:
            raise FieldInvalid(f"layer {index} shares a cache of a kind that no earlier layer has", path=facts.prefix + "num_kv_shared_layers")
        shared.append(Layer((SharedWith(source[layers[index].kinds()]),)))
    return own + tuple(shared)
