"""Linear attention: Gated DeltaNet, KDA and lightning attention, from their fields."""

from __future__ import annotations

from onboard.facts import Facts
from onboard.rules.heads import head_dim
from onboard.rules.nested import nested_int, single
from onboard.rules.state_dtypes import ssm_dtype
from onboard.states import GatedDeltaNet, KimiDelta, LightningAttention, StateCache


def gated_delta_net(facts: Facts) -> StateCache:
    """As stated. OLMo-hybrid's class fills what is not: attention heads, keys of 3/4 of a head, values twice that."""
    derived = facts.get("linear_allow_neg_eigval") is not None
    k_heads, v_heads = facts.get("linear_num_key_heads"), facts.get("linear_num_value_heads")
    k_dim, v_dim = facts.get("linear_key_head_dim"), facts.get("linear_value_head_dim")
    if derived:
        heads = single(facts, "num_attention_heads")
        k_heads, v_heads = k_heads or heads, v_heads or heads
        k_dim = k_dim or int(0.75 * single(facts, "hidden_size") / k_heads)
        v_dim = v_dim or 2 * k_dim
    return GatedDeltaNet(
        num_k_heads=k_heads or facts.need("linear_num_key_heads"),
        num_v_heads=v_heads or facts.need("linear_num_value_heads"),
        k_dim=k_dim or facts.need("linear_key_head_dim"),
        v_dim=v_dim or facts.need("linear_value_head_dim"),
        conv_kernel=facts.need("linear_conv_kernel_dim"),
        ssm_dtype=ssm_dtype(facts),
    )


def kda_nested(facts: Facts) -> StateCache:
    """Kimi-Linear, Kimi-K3: `linear_attn_config` (vLLM 0.33 `models/kimi_linear.py`)."""
    config = facts.need("linear_attn_config", "gives the sizes of recurrent layers")
    path = "linear_attn_config"
    return KimiDelta(
        num_heads=nested_int(facts, config, path, "num_heads", "linear_num_heads"),
        head_dim=nested_int(facts, config, path, "head_dim", "linear_head_dim"),
        conv_kernel=nested_int(facts, config, path, "short_conv_kernel_size", "linear_conv_kernel_dim"),
    )


def kda(facts: Facts) -> StateCache:
    """The flat names of transformers 5.24 KimiLinearConfig and of saved BailingHybridConfig files."""
    return KimiDelta(
        num_heads=facts.need("linear_num_heads"),
        head_dim=facts.need("linear_head_dim"),
        conv_kernel=facts.get("linear_conv_kernel_dim") or facts.need("short_conv_kernel_size"),
    )


def kda_from_attention(facts: Facts) -> StateCache:
    """Ling/Ring 2.5: what is not stated apart is the attention's (transformers 5.24 BailingHybridConfig)."""
    return KimiDelta(
        num_heads=facts.get("linear_num_heads") or single(facts, "num_attention_heads"),
        head_dim=facts.get("linear_head_dim") or single(facts, "head_dim"),
        conv_kernel=facts.need("short_conv_kernel_size"),
    )


def lightning(facts: Facts) -> StateCache:
    """The attention's heads (vLLM 0.23 `models/minimax_text_01.py`, `bailing_moe_linear.py`)."""
    return LightningAttention(single(facts, "num_attention_heads"), head_dim(facts))
