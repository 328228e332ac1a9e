"""Recurrent layers -> states: the fields that are stated say which mechanism it is.

A mechanism is one entry: the fields that only it has, and a builder. The first whose fields are all known wins,
so narrower ones stand first. Names of fields are ours (`fields_recurrent`).
"""

from __future__ import annotations

from collections.abc import Callable

from onboard.facts import Facts
from onboard.layers import CacheSpec
from onboard.rules import recurrent_linear as linear
from onboard.rules import recurrent_mamba as mamba
from onboard.rules import recurrent_other as other
from onboard.states import ShortConv, StateCache, UnknownState
from onboard.values import Struct


class Mechanism(Struct, frozen=True):
    """`needs`: the fields that decide for it."""

    family: str
    needs: tuple[str, ...]
    build: Callable[[Facts], StateCache]

    def fits(self, facts: Facts) -> bool:
        """A field that is stated as null counts: the builder then refuses, instead of another mechanism answering."""
        return all(facts.get(name) is not None or facts.stated_null(name) for name in self.needs)


def recurrent_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """The state of the first mechanism whose fields are there, else one of unknown size, with a caution."""
    for mechanism in MECHANISMS:
        if mechanism.fits(facts):
            return (mechanism.build(facts),)
    known = ", ".join(sorted({mechanism.family for mechanism in MECHANISMS}))
    said = f"layers are recurrent, and the sizes of no state are stated (known: {known}): what they keep is not known"
    facts.caution("unknown-state", "layer_types", said)
    return (UnknownState(facts.path("linear_num_value_heads")),)


def short_conv_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """A convolution alone, over `conv_dim` or the hidden size (LFM2; vLLM 0.33 `models/lfm2.py`)."""
    channels = facts.get("conv_dim") or facts.need("hidden_size")
    return (ShortConv(channels, facts.need("conv_l_cache", "gives the width of convolution layers")),)


MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism("kda", ("linear_attn_config",), linear.kda_nested),
    Mechanism("kda", ("linear_num_heads", "linear_head_dim"), linear.kda),
    Mechanism("lightning", ("group_norm_size", "layer_group_size"), linear.lightning),
    Mechanism("kda", ("short_conv_kernel_size", "layer_group_size"), linear.kda_from_attention),
    Mechanism("gated_delta_net", ("linear_conv_kernel_dim",), linear.gated_delta_net),
    Mechanism("lightning", ("lightning_alpha",), linear.lightning),
    Mechanism("lightning", ("attn_type_list",), linear.lightning),
    Mechanism("mamba2", ("hidden_size_per_head", "ssm_num_heads", "ssm_state_dim"), mamba.plamo2),
    Mechanism("mamba2", ("ssm_num_heads", "ssm_num_groups", "ssm_state_dim"), mamba.mamba2),
    Mechanism("mamba", ("zamba_mamba_heads", "ssm_state_dim"), mamba.zamba1),
    Mechanism("mamba", ("ssm_state_dim", "ssm_conv_kernel", "ssm_expand"), mamba.mamba1),
    Mechanism("hyena", ("hyena_layer_idxs", "pure_state_dim", "short_filter_length"), other.hyena),
    Mechanism("mamba2", ("pure_state_dim", "pure_num_heads", "pure_num_groups"), mamba.pure_mamba2),
    Mechanism("mamba", ("pure_state_dim", "ssm_conv_kernel"), mamba.pure_mamba1),
    Mechanism("mamba", ("ssm_cfg",), mamba.mamba_ssm),
    Mechanism("rg_lru", ("conv1d_width",), other.rg_lru),
    Mechanism("xlstm", ("qk_dim_factor", "v_dim_factor"), other.xlstm),
    Mechanism("retention", ("expand_k", "expand_v", "pure_num_heads"), other.retention),
    Mechanism("rwkv", ("decay_low_rank_dim",), other.rwkv7),
    Mechanism("rwkv", ("rescale_every", "rwkv_head_divisor"), other.rwkv5),
    Mechanism("rwkv4", ("rescale_every",), other.rwkv4),
)
