"""The built-in multi-token-prediction head: full-attention layers on top of the stack, unused until asked for."""

from __future__ import annotations

from onboard.facts import Facts
from onboard.layers import FullAttention, LatentAttention, Layer


def mtp_layers(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """One layer of the stack's own growing kind for each MTP layer stated."""
    count = facts.get("num_mtp_layers") or 0
    model = next((x for x in layers if any(isinstance(c, (FullAttention, LatentAttention)) for c in x.caches)), None)
    return (model,) * count if model is not None else ()
