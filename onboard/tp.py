"""Which tensor-parallel sizes a model can be split into.

Source: vLLM 0.33 `num_heads % tp == 0`, KV heads divide or replicate (`models/llama.py:150-160`), and the MLP's
column-parallel width must divide. So must the heads and groups of recurrent states (`mamba_utils.py`,
`mamba_mixer2.py`).
"""

from __future__ import annotations

from onboard.layers import Heads
from onboard.profile import Profile
from onboard.states import StateCache

MAX_TP = 64


def valid_tp(profile: Profile) -> list[int]:
    """TP sizes from 1 to 64 that every layer allows. A width that is not known does not restrict."""
    return [tp for tp in range(1, MAX_TP + 1) if tp_problem(profile, tp) is None]


def tp_problem(profile: Profile, tp: int) -> str | None:
    """The first reason why `tp` cards cannot share the model, or None."""
    for name in ("num_attention_heads", "intermediate_size", "moe_intermediate_size"):
        width = profile.fact(name)
        widths = width if isinstance(width, (list, tuple)) else [width]
        for one in widths:
            if isinstance(one, int) and one % tp:
                return f"{name} {one} is not divisible by {tp}"
    for spec, indices in profile.cache_groups:
        if isinstance(spec, Heads) and spec.num_kv_heads % tp and tp % spec.num_kv_heads:
            return f"{spec.num_kv_heads} KV heads (layer {indices[0]}) neither divide by {tp} nor replicate to it"
        if isinstance(spec, StateCache) and (why := spec.undivided(tp)) is not None:
            return f"{why} (layer {indices[0]})"
    return None
