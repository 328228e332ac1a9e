"""What every builder of matrices needs of a model."""

from __future__ import annotations

from onboard.facts import Facts
from onboard.layers import Layer
from onboard.values import Struct
from onboard.weights.traits import Traits


class Context(Struct, frozen=True):
    """What every builder needs: the facts, the family's traits, the stack, and the width of the stream."""

    facts: Facts
    traits: Traits
    layers: tuple[Layer, ...]
    hidden: int
