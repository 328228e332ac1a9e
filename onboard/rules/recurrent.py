"""Recurrent layers -> states: the fields that are stated say which mechanism it is.

A mechanism is one entry: the fields that only it has, and a builder. The first whose fields are all known wins,
so narrower ones stand first. Names of fields are ours (`fields_recurrent`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from onboard.errors import FieldInvalid, FieldMissing, UnknownLayerKind
from onboard.facts import Facts
from onboard.layers import CacheSpec
from onboard.states import (
    GatedDeltaNet,
    KimiDelta,
    LightningAttention,
    Mamba1,
    Mamba2,
    MambaHeads,
    RgLru,
    Rwkv4,
    RwkvMatrix,
    ShortConv,
    StateCache,
    XLstm,
)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """`needs`: fields that decide for it; `absent`: fields that decide against it."""

    family: str
    needs: tuple[str, ...]
    build: Callable[[Facts], StateCache]
    absent: tuple[str, ...] = ()

    def fits(self, facts: Facts) -> bool:
        known = all(facts.get(name) is not None for name in self.needs)
        return known and not any(facts.get(name) is not None for name in self.absent)


def recurrent_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """The state of a recurrent layer. Raises UnknownLayerKind where no mechanism's fields are there."""
    for mechanism in MECHANISMS:
        if mechanism.fits(facts):
            return (mechanism.build(facts),)
    raise UnknownLayerKind(
        f"layer {index} is recurrent, and no state mechanism's fields are stated",
        path=facts.prefix + "layer_types",
        hint="known mechanisms: " + "; ".join(f"{m.family} ({', '.join(m.needs)})" for m in MECHANISMS),
    )


def short_conv_caches(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """A convolution alone, over `conv_dim` or the hidden size (LFM2; vLLM 0.33 `models/lfm2.py`)."""
    channels = facts.get("conv_dim") or facts.need("hidden_size")
    return (ShortConv(channels, facts.need("conv_l_cache", "gives the width of convolution layers")),)


# --- linear attention -------------------------------------------------------------------------------------------


def _gated_delta_net(facts: Facts) -> StateCache:
    """As stated. OLMo-hybrid's class fills what is not: attention heads, keys of 3/4 of a head, values twice that."""
    derived = facts.get("linear_allow_neg_eigval") is not None
    k_heads, v_heads = facts.get("linear_num_key_heads"), facts.get("linear_num_value_heads")
    k_dim, v_dim = facts.get("linear_key_head_dim"), facts.get("linear_value_head_dim")
    if derived:
        heads = facts.need("num_attention_heads")
        k_heads, v_heads = k_heads or heads, v_heads or heads
        k_dim = k_dim or int(0.75 * facts.need("hidden_size") / k_heads)
        v_dim = v_dim or 2 * k_dim
    return GatedDeltaNet(
        num_k_heads=k_heads or facts.need("linear_num_key_heads"),
        num_v_heads=v_heads or facts.need("linear_num_value_heads"),
        k_dim=k_dim or facts.need("linear_key_head_dim"),
        v_dim=v_dim or facts.need("linear_value_head_dim"),
        conv_kernel=facts.need("linear_conv_kernel_dim"),
        ssm_dtype=ssm_dtype(facts),
    )


def _kda_nested(facts: Facts) -> StateCache:
    """Kimi-Linear, Kimi-K3: `linear_attn_config` (vLLM 0.33 `models/kimi_linear.py`)."""
    config = facts.get("linear_attn_config")
    path = "linear_attn_config"
    return KimiDelta(
        num_heads=nested_int(facts, config, path, "num_heads", "linear_num_heads"),
        head_dim=nested_int(facts, config, path, "head_dim", "linear_head_dim"),
        conv_kernel=nested_int(facts, config, path, "short_conv_kernel_size", "linear_conv_kernel_dim"),
    )


def _kda(facts: Facts) -> StateCache:
    return KimiDelta(
        num_heads=facts.need("linear_num_heads"),
        head_dim=facts.need("linear_head_dim"),
        conv_kernel=facts.need("linear_conv_kernel_dim"),
    )


def _kda_from_attention(facts: Facts) -> StateCache:
    """Ling/Ring 2.5: the recurrent heads are the attention's (transformers 5.24 BailingHybridConfig.__post_init__)."""
    return KimiDelta(
        num_heads=facts.need("num_attention_heads"),
        head_dim=facts.need("head_dim"),
        conv_kernel=facts.need("short_conv_kernel_size"),
    )


def _lightning(facts: Facts) -> StateCache:
    """The attention's heads (vLLM 0.23 `models/minimax_text_01.py`, `bailing_moe_linear.py`)."""
    from onboard.rules.geometry import head_dim

    return LightningAttention(facts.need("num_attention_heads"), head_dim(facts))


# --- Mamba --------------------------------------------------------------------------------------------------------


def _mamba2(facts: Facts) -> StateCache:
    heads = facts.need("ssm_num_heads")
    return Mamba2(
        num_heads=heads,
        head_dim=_mamba2_head_dim(facts, heads),
        num_groups=facts.need("ssm_num_groups"),
        state_dim=facts.need("ssm_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def _mamba2_head_dim(facts: Facts, heads: int) -> int:
    """As stated; "auto" or absent is d_inner / heads, d_inner being `mamba_d_ssm` or expand x hidden."""
    stated = facts.get("ssm_head_dim")
    if isinstance(stated, int) and not isinstance(stated, bool) and 0 < stated < 2**24:
        return stated
    if stated not in (None, "auto"):
        raise FieldInvalid(
            "the Mamba head size must be a whole number or auto",
            path=facts.find("ssm_head_dim").where,  # type: ignore[union-attr]
            value=repr(stated),
        )
    inner = facts.get("mamba_d_ssm") or int(facts.need("ssm_expand") * facts.need("hidden_size"))
    if inner % heads:
        raise FieldInvalid(
            f"{heads} Mamba heads do not divide {inner}", path=facts.prefix + "mamba_n_heads", value=heads
        )
    return int(facts.record("ssm_head_dim", inner // heads, "inner size / Mamba heads"))


def _pure_mamba2(facts: Facts) -> StateCache:
    return Mamba2(
        num_heads=facts.need("pure_num_heads"),
        head_dim=facts.need("head_dim"),
        num_groups=facts.need("pure_num_groups"),
        state_dim=facts.need("pure_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def _plamo2(facts: Facts) -> StateCache:
    """PLaMo 2 convolves the inner size alone (vLLM 0.25 `models/plamo2.py`: n_groups 0)."""
    return Mamba2(
        num_heads=facts.need("ssm_num_heads"),
        head_dim=facts.need("hidden_size_per_head"),
        num_groups=0,
        state_dim=facts.need("ssm_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def _zamba1(facts: Facts) -> StateCache:
    heads, inner = facts.need("zamba_mamba_heads"), int(facts.need("ssm_expand") * facts.need("hidden_size"))
    if inner % heads:
        raise FieldInvalid(
            f"{heads} Mamba heads do not divide {inner}", path=facts.prefix + "n_mamba_heads", value=heads
        )
    return MambaHeads(
        num_heads=heads,
        head_dim=inner // heads,
        state_dim=facts.need("ssm_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def _mamba1(facts: Facts) -> StateCache:
    return Mamba1(
        inner_dim=int(facts.need("ssm_expand") * facts.need("hidden_size")),
        state_dim=facts.need("ssm_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def _pure_mamba1(facts: Facts) -> StateCache:
    """A stated `intermediate_size` is d_inner and beats expand x hidden (Falcon-Mamba states expand 16)."""
    stated = facts.get("intermediate_size") if facts.has("intermediate_size") else None
    return Mamba1(
        inner_dim=stated or int(facts.need("ssm_expand") * facts.need("hidden_size")),
        state_dim=facts.need("pure_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def _mamba_ssm(facts: Facts) -> StateCache:
    """The mamba_ssm package's own files: `ssm_cfg` with that package's defaults (mamba_ssm 2.2 `modules/`)."""
    config, path = facts.get("ssm_cfg"), "ssm_cfg"
    if facts.get("attn_layer_idx"):
        raise UnknownLayerKind(
            "mamba_ssm hybrids with attn_layer_idx are not read",
            path=facts.prefix + "attn_layer_idx",
            hint="convert to a transformers config",
        )
    layer = config.get("layer", "Mamba1")
    if layer not in ("Mamba1", "Mamba2"):
        raise UnknownLayerKind(f"ssm_cfg.layer is {layer!r}", path=f"{facts.prefix}{path}.layer", value=repr(layer))
    inner = nested_int(facts, config, path, "expand", default=2) * facts.need("hidden_size")
    state = nested_int(facts, config, path, "d_state", default=16 if layer == "Mamba1" else 128)
    kernel = nested_int(facts, config, path, "d_conv", default=4)
    if layer == "Mamba1":
        return Mamba1(inner, state, kernel, ssm_dtype(facts))
    head = nested_int(facts, config, path, "headdim", default=64)
    return Mamba2(
        inner // head, head, nested_int(facts, config, path, "ngroups", default=1), state, kernel, ssm_dtype(facts)
    )


# --- the rest -----------------------------------------------------------------------------------------------------


def _rg_lru(facts: Facts) -> StateCache:
    return RgLru(facts.get("lru_width") or facts.need("hidden_size"), facts.need("conv1d_width"))


def _xlstm(facts: Facts) -> StateCache:
    """Key and value widths are factors of the hidden size, rounded up to 64 (transformers 5.24 xLSTMConfig)."""
    hidden, heads = facts.need("hidden_size"), facts.need("pure_num_heads")
    return XLstm(
        num_heads=heads,
        k_dim=64 * ceil(hidden * facts.need("qk_dim_factor") / 64) // heads,
        v_dim=64 * ceil(hidden * facts.need("v_dim_factor") / 64) // heads,
        ssm_dtype=facts.get("xlstm_state_dtype") or "float32",
    )


def _rwkv4(facts: Facts) -> StateCache:
    hidden = facts.need("hidden_size")
    return Rwkv4(hidden, facts.get("attention_hidden_size") or hidden)


def _rwkv5(facts: Facts) -> StateCache:
    """RWKV 5 and 6: `attention_hidden_size` in heads of `head_size` (the repositories' modeling_rwkv5.py)."""
    hidden, size = facts.need("hidden_size"), facts.get("rwkv_head_size") or 64
    return RwkvMatrix((facts.get("attention_hidden_size") or hidden) // size, size, hidden)


def _rwkv7(facts: Facts) -> StateCache:
    """RWKV 7: hidden size in heads of `head_dim` (flash-linear-attention `models/rwkv7`)."""
    hidden, size = facts.need("hidden_size"), facts.get("rwkv_head_size") or 64
    return RwkvMatrix(hidden // size, size, hidden)


def ssm_dtype(facts: Facts) -> str:
    """The state's dtype as vLLM keeps it: the config's key; float32 for Nemotron-H without one; else the model's.

    vLLM 0.33 `model_executor/models/config.py` (Qwen3_5ForConditionalGenerationConfig, NemotronHForCausalLMConfig).
    """
    if facts.has("ssm_dtype"):
        stated = str(facts.get("ssm_dtype"))
        return "model" if stated == "auto" else stated.removeprefix("torch.")
    return "float32" if facts.get("nemotron_state_size") is not None else "model"


def nested_int(
    facts: Facts, config: Mapping[str, Any], path: str, key: str, fallback: str = "", default: int | None = None
) -> int:
    """A whole number inside a nested mapping, else the flat field `fallback`, else `default`. Raises where none is."""
    value = config.get(key)
    if value is None and fallback:
        value = facts.get(fallback)
    if value is None:
        value = default
    where = f"{facts.prefix}{path}.{key}"
    if value is None:
        raise FieldMissing(f"{path} states no {key}", path=where, hint="state it in the config or in an override")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**24:
        raise FieldInvalid(f"{where} must be a positive integer", path=where, value=repr(value))
    return value


MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism("kda", ("linear_attn_config",), _kda_nested),
    Mechanism("kda", ("linear_num_heads", "linear_head_dim"), _kda, absent=("short_conv_kernel_size",)),
    Mechanism("lightning", ("group_norm_size", "layer_group_size"), _lightning),
    Mechanism("kda", ("short_conv_kernel_size", "layer_group_size"), _kda_from_attention),
    Mechanism("gated_delta_net", ("linear_conv_kernel_dim",), _gated_delta_net),
    Mechanism("lightning", ("lightning_alpha",), _lightning),
    Mechanism("lightning", ("attn_type_list",), _lightning),
    Mechanism("mamba2", ("hidden_size_per_head", "ssm_num_heads", "ssm_state_dim"), _plamo2),
    Mechanism("mamba2", ("ssm_num_heads", "ssm_num_groups", "ssm_state_dim"), _mamba2),
    Mechanism("mamba", ("zamba_mamba_heads", "ssm_state_dim"), _zamba1),
    Mechanism("mamba", ("ssm_state_dim", "ssm_conv_kernel", "ssm_expand"), _mamba1),
    Mechanism("mamba2", ("pure_state_dim", "pure_num_heads", "pure_num_groups"), _pure_mamba2),
    Mechanism("mamba", ("pure_state_dim", "ssm_conv_kernel"), _pure_mamba1),
    Mechanism("mamba", ("ssm_cfg",), _mamba_ssm),
    Mechanism("rg_lru", ("conv1d_width",), _rg_lru),
    Mechanism("xlstm", ("qk_dim_factor", "v_dim_factor"), _xlstm),
    Mechanism("rwkv", ("decay_low_rank_dim",), _rwkv7),
    Mechanism("rwkv", ("rescale_every", "rwkv_head_divisor"), _rwkv5),
    Mechanism("rwkv4", ("rescale_every",), _rwkv4),
)
