"""Mamba 1 and 2 in the spellings of the families that use them."""

from __future__ import annotations

from onboard.errors import FieldInvalid, UnknownLayerKind
from onboard.facts import Facts
from onboard.rules.nested import nested_int, scaled, single
from onboard.rules.state_dtypes import ssm_dtype
from onboard.states import Mamba1, Mamba2, MambaHeads, StateCache


def mamba2(facts: Facts) -> StateCache:
    """Mamba-2 beside attention (vLLM 0.33 `mamba_mixer2.py`): heads, groups and state as stated."""
    heads = facts.need("ssm_num_heads")
    return Mamba2(
        num_heads=heads,
        head_dim=_head_dim(facts, heads),
        num_groups=facts.need("ssm_num_groups"),
        state_dim=facts.need("ssm_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def _head_dim(facts: Facts, heads: int) -> int:
    """As stated; "auto" or absent is d_inner / heads, d_inner being `mamba_d_ssm` or expand x hidden."""
    stated = facts.get("ssm_head_dim")
    if isinstance(stated, int) and not isinstance(stated, bool) and 0 < stated < 2**24:
        return stated
    if stated not in (None, "auto"):
        raise FieldInvalid(
            "the Mamba head size must be a whole number or auto",
            path=facts.path("ssm_head_dim"),
            value=repr(stated),
        )
    inner = facts.get("mamba_d_ssm") or scaled(facts, "ssm_expand", single(facts, "hidden_size"))
    if inner % heads:
        raise FieldInvalid(
            f"{heads} Mamba heads do not divide {inner}", path=facts.prefix + "mamba_n_heads", value=heads
        )
    if stated is None:
        facts.caution("defaulted-field", "mamba_head_dim", f"not stated; inner size / Mamba heads = {inner // heads}")
    return int(facts.record("ssm_head_dim", inner // heads, "inner size / Mamba heads"))


def pure_mamba2(facts: Facts) -> StateCache:
    """Mamba-2 alone, under the names of its own class (transformers 5.24 Mamba2Config)."""
    return Mamba2(
        num_heads=facts.need("pure_num_heads"),
        head_dim=single(facts, "head_dim"),
        num_groups=facts.need("pure_num_groups"),
        state_dim=facts.need("pure_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def plamo2(facts: Facts) -> StateCache:
    """PLaMo 2 convolves the inner size alone (vLLM 0.25 `models/plamo2.py`: n_groups 0)."""
    return Mamba2(
        num_heads=facts.need("ssm_num_heads"),
        head_dim=facts.need("hidden_size_per_head"),
        num_groups=0,
        state_dim=facts.need("ssm_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def zamba1(facts: Facts) -> StateCache:
    """Zamba's Mamba-1 with heads: expand x hidden is shared among them (transformers 5.24 ZambaConfig)."""
    heads, inner = facts.need("zamba_mamba_heads"), scaled(facts, "ssm_expand", single(facts, "hidden_size"))
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


def mamba1(facts: Facts) -> StateCache:
    """Mamba-1 beside attention: the inner size is expand x hidden (Jamba; vLLM 0.33 `mamba_mixer.py`)."""
    return Mamba1(
        inner_dim=scaled(facts, "ssm_expand", single(facts, "hidden_size")),
        state_dim=facts.need("ssm_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def pure_mamba1(facts: Facts) -> StateCache:
    """A stated `intermediate_size` is d_inner and beats expand x hidden (Falcon-Mamba states expand 16)."""
    stated = single(facts, "intermediate_size") if facts.has("intermediate_size") else None
    if stated is None:
        facts.caution("defaulted-field", "intermediate_size", "not stated; the inner size is expand x hidden_size")
    return Mamba1(
        inner_dim=stated or scaled(facts, "ssm_expand", single(facts, "hidden_size")),
        state_dim=facts.need("pure_state_dim"),
        conv_kernel=facts.need("ssm_conv_kernel"),
        ssm_dtype=ssm_dtype(facts),
    )


def mamba_ssm(facts: Facts) -> StateCache:
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
    inner = nested_int(facts, config, path, "expand", default=2) * single(facts, "hidden_size")
    state = nested_int(facts, config, path, "d_state", default=16 if layer == "Mamba1" else 128)
    kernel = nested_int(facts, config, path, "d_conv", default=4)
    if layer == "Mamba1":
        return Mamba1(inner, state, kernel, ssm_dtype(facts))
    head = nested_int(facts, config, path, "headdim", default=64)
    return Mamba2(
        inner // head, head, nested_int(facts, config, path, "ngroups", default=1), state, kernel, ssm_dtype(facts)
    )
