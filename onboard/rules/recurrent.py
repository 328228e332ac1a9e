"""Recurrent layers -> state specs: the fields present say which mechanism it is."""

from __future__ import annotations

from onboard.errors import UnknownLayerKind
from onboard.facts import Facts
from onboard.layers import CacheSpec
from onboard.states import GatedDeltaNet


def recurrent_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """The state of a recurrent layer. Raises UnknownLayerKind where no mechanism's fields are there."""
    if facts.get("linear_num_value_heads") is not None:
        return (
            GatedDeltaNet(
                num_k_heads=facts.need("linear_num_key_heads"),
                num_v_heads=facts.need("linear_num_value_heads"),
                k_dim=facts.need("linear_key_head_dim"),
                v_dim=facts.need("linear_value_head_dim"),
                conv_kernel=facts.need("linear_conv_kernel_dim"),
                ssm_dtype=facts.get("ssm_dtype") or "model",
            ),
        )
    raise UnknownLayerKind(
        f"layer {index} is recurrent, and no state mechanism's fields are stated",
        path=facts.prefix + "layer_types", hint="known mechanisms: Gated DeltaNet",
    )
