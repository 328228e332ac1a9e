"""RG-LRU, xLSTM and RWKV, from their fields."""

from __future__ import annotations

from onboard.errors import UnknownLayerKind
from onboard.facts import Facts
from onboard.rules.nested import scaled, single
from onboard.states import Hyena, Retention, RgLru, Rwkv4, RwkvMatrix, StateCache, XLstm


def rg_lru(facts: Facts) -> StateCache:
    """RecurrentGemma's RG-LRU: one state a channel, and a convolution (transformers 5.24 RecurrentGemmaConfig)."""
    return RgLru(facts.get("lru_width") or single(facts, "hidden_size"), facts.need("conv1d_width"))


def xlstm(facts: Facts) -> StateCache:
    """Key and value widths are factors of the hidden size, rounded up to 64 (transformers 5.24 xLSTMConfig)."""
    hidden, heads = single(facts, "hidden_size"), facts.need("pure_num_heads")
    return XLstm(
        num_heads=heads,
        k_dim=_rounded_up(facts, "qk_dim_factor", hidden) // heads,
        v_dim=_rounded_up(facts, "v_dim_factor", hidden) // heads,
        ssm_dtype=facts.get("xlstm_state_dtype") or "float32",
    )


def _rounded_up(facts: Facts, factor: str, size: int) -> int:
    return -(-scaled(facts, factor, size) // 64) * 64


def rwkv4(facts: Facts) -> StateCache:
    """RWKV 4: vectors of the attention's and the hidden size (transformers 5.24 RwkvConfig)."""
    hidden = single(facts, "hidden_size")
    return Rwkv4(hidden, facts.get("attention_hidden_size") or hidden)


def rwkv5(facts: Facts) -> StateCache:
    """RWKV 5 and 6: `attention_hidden_size` in heads of `head_size` (the repositories' modeling_rwkv5.py)."""
    hidden, size = single(facts, "hidden_size"), facts.get("rwkv_head_size") or 64
    return RwkvMatrix((facts.get("attention_hidden_size") or hidden) // size, size, hidden)


def rwkv7(facts: Facts) -> StateCache:
    """RWKV 7: hidden size in heads of `head_dim` (flash-linear-attention `models/rwkv7`)."""
    hidden, size = single(facts, "hidden_size"), facts.get("rwkv_head_size") or 64
    return RwkvMatrix(hidden // size, size, hidden)


def retention(facts: Facts) -> StateCache:
    """RetNet and GLA as flash-linear-attention writes them (its `models/retnet`, `models/gla`): widths are factors."""
    if facts.get("attn_layers_config"):
        raise UnknownLayerKind(
            "attention among retention layers is not read",
            path=facts.path("attn_layers_config"),
            hint="state the layers in an override",
        )
    hidden, heads = single(facts, "hidden_size"), facts.need("pure_num_heads")
    return Retention(
        num_heads=heads,
        k_dim=scaled(facts, "expand_k", hidden) // heads,
        v_dim=scaled(facts, "expand_v", hidden) // heads,
        conv_kernel=facts.need("conv_size") if facts.get("use_short_conv") else 1,
    )


def hyena(facts: Facts) -> StateCache:
    """StripedHyena's modal form: a filter's columns, and complex poles a channel (the repository's cache.py)."""
    return Hyena(
        hidden_size=single(facts, "hidden_size"),
        state_dim=facts.need("pure_state_dim"),
        filter_length=facts.need("short_filter_length"),
    )
