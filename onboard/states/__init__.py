"""Recurrent state: what a sequence holds whatever its length, one class a family.

A class gives its tensors as `tensors(tp)`: name, shape and dtype on one of `tp` cards. `conv` tensors hold
kernel - 1 columns (what must be remembered; an engine that keeps more says so in its own rule). A dtype is what
vLLM keeps: "model" is the model's own, any other name is declared by the config or fixed in the engine's code.
"""

from __future__ import annotations

from onboard.states.base import StateCache, StateTensor, UnknownState
from onboard.states.conv import (
    CompressedConvAttention,
    CompressorOverlap,
    FourConvs,
    Hyena,
    PerLayerEmbedding,
    RgLru,
    ShortConv,
)
from onboard.states.linear import (
    GatedDeltaNet,
    KimiDelta,
    LightningAttention,
    Retention,
    Rwkv4,
    RwkvMatrix,
    XLstm,
)
from onboard.states.mamba import Mamba1, Mamba2, MambaHeads, extra_groups

STATE_CLASSES: dict[str, type[StateCache]] = {
    c.__name__: c
    for c in (
        GatedDeltaNet,
        Mamba2,
        Mamba1,
        MambaHeads,
        ShortConv,
        KimiDelta,
        LightningAttention,
        RgLru,
        FourConvs,
        Hyena,
        CompressedConvAttention,
        PerLayerEmbedding,
        CompressorOverlap,
        XLstm,
        Rwkv4,
        RwkvMatrix,
        Retention,
        UnknownState,
    )
}

__all__ = [
    "STATE_CLASSES",
    "CompressedConvAttention",
    "CompressorOverlap",
    "FourConvs",
    "GatedDeltaNet",
    "Hyena",
    "KimiDelta",
    "LightningAttention",
    "Mamba1",
    "Mamba2",
    "MambaHeads",
    "PerLayerEmbedding",
    "Retention",
    "RgLru",
    "Rwkv4",
    "RwkvMatrix",
    "ShortConv",
    "StateCache",
    "StateTensor",
    "UnknownState",
    "XLstm",
    "extra_groups",
]
