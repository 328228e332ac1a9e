"""RG-LRU, xLSTM and RWKV, from their fields."""

from __future__ import annotations

from math import ceil

from onboard.errors import UnknownLayerKind
from onboard.facts import Facts
from onboard.states import Hyena, Retention, RgLru, Rwkv4, RwkvMatrix, StateCache, XLstm


def rg_lru(facts: Facts) -> StateCache:
    return RgLru(facts.get("lru_width") or facts.need("hidden_size"), facts.need("conv1d_width"))


def xlstm(facts: Facts) -> StateCache:
    """Key and value widths are factors of the hidden size, rounded up to 64 (transformers 5.24 xLSTMConfig)."""
    hidden, heads = facts.need("hidden_size"), facts.need("pure_num_heads")
    return XLstm(
        num_heads=heads,
        k_dim=64 * ceil(hidden * facts.need("qk_dim_factor") / 64) // heads,
        v_dim=64 * ceil(hidden * facts.need("v_dim_factor") / 64) // heads,
        ssm_dtype=facts.get("xlstm_state_dtype") or "float32",
    )


def rwkv4(facts: Facts) -> StateCache:
    hidden = facts.need("hidden_size")
    return Rwkv4(hidden, facts.get("attention_hidden_size") or hidden)


def rwkv5(facts: Facts) -> StateCache:
    """RWKV 5 and 6: `attention_hidden_size` in heads of `head_size` (the repositories' modeling_rwkv5.py)."""
    hidden, size = facts.need("hidden_size"), facts.get("rwkv_head_size") or 64
    return RwkvMatrix((facts.get("attention_hidden_size") or hidden) // size, size, hidden)


def rwkv7(facts: Facts) -> StateCache:
    """RWKV 7: hidden size in heads of `head_dim` (flash-linear-attention `models/rwkv7`)."""
    hidden, size = facts.need("hidden_size"), facts.get("rwkv_head_size") or 64
    return RwkvMatrix(hidden // size, size, hidden)


def retention(facts: Facts) -> StateCache:
    """RetNet and GLA as flash-linear-attention writes them (its `models/retnet`, `models/gla`): widths are factors."""
    if facts.get("attn_layers_config"):
        raise UnknownLayerKind(
            "attention among retention layers is not read",
            path=facts.path("attn_layers_config"),
            hint="state the layers in an override",
        )
    hidden, heads = facts.need("hidden_size"), facts.need("pure_num_heads")
    return Retention(
        num_heads=heads,
        k_dim=int(hidden * facts.need("expand_k")) // heads,
        v_dim=int(hidden * facts.need("expand_v")) // heads,
        conv_kernel=facts.need("conv_size") if facts.get("use_short_conv") else 1,
    )


def hyena(facts: Facts) -> StateCache:
    """StripedHyena's modal form: a filter's columns, and complex poles a channel (the repository's cache.py)."""
    return Hyena(
        hidden_size=facts.need("hidden_size"),
        state_dim=facts.need("pure_state_dim"),
        filter_length=facts.need("short_filter_length"),
    )
