"""Config fragments of every recurrent family -> exact layers, and what is refused.

The right answers in data/recurrent_families.json are the caches of transformers 5.24's model of that type at these
sizes (convolutions with one column less), or of vLLM's model file where transformers has none.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from onboard.errors import FieldInvalid, FieldMissing, LayerCountMismatch, Refusal, UnknownLayerKind, WindowMissing
from onboard.profile import Profile
from onboard.states import StateCache
from tests.deriving import profile_of

SIZES: dict[str, Any] = {
    "hidden_size": 84, "num_hidden_layers": 14, "num_attention_heads": 6, "num_key_value_heads": 3, "vocab_size": 211,
}  # fmt: skip
MLA = {"kv_lora_rank": 26, "qk_rope_head_dim": 6, "qk_nope_head_dim": 10, "v_head_dim": 14}
GDN = {
    "linear_conv_kernel_dim": 5, "linear_key_head_dim": 10, "linear_value_head_dim": 14, "linear_num_key_heads": 3,
    "linear_num_value_heads": 6,
}  # fmt: skip
DATA = Path(__file__).parent / "data" / "recurrent_families.json"
FAMILIES: dict[str, dict[str, Any]] = {row["family"]: row for row in json.loads(DATA.read_text(encoding="utf-8"))}


def states_of(profile: Profile) -> set[tuple[tuple[str, tuple[int, ...]], ...]]:
    states = (c for layer in profile.layers for c in layer.caches if isinstance(c, StateCache))
    return {tuple((t.name, t.shape) for t in state.tensors()) for state in states}


def kinds_of(profile: Profile) -> dict[str, int]:
    return dict(Counter("+".join(layer.kinds()) for layer in profile.layers))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_keeps_exactly_this(family: str) -> None:
    row = FAMILIES[family]
    profile = profile_of(row["config"])
    assert kinds_of(profile) == row["kinds"]
    if row["tensors"]:
        assert states_of(profile) == {tuple((name, tuple(shape)) for name, shape in row["tensors"])}
    assert profile.growing_elements_per_token == row["growing"]


def test_phi4flash_layers_read_the_full_layer_behind_the_middle() -> None:
    profile = profile_of(FAMILIES["phi4flash's upper half reads one layer"]["config"])
    shared = {i: c.layer for i, layer in enumerate(profile.layers) for c in layer.caches if c.kind == "shared"}  # type: ignore[attr-defined]
    assert shared == {11: 9, 13: 9, 15: 9}
    assert profile.layers[9].kinds() == ("full",)


def test_longcat_counts_double_blocks() -> None:
    config = {
        "model_type": "longcat_flash",
        "hidden_size": 84,
        "num_layers": 7,
        "num_attention_heads": 6,
        **MLA,
        "zero_expert_num": 8,
    }
    profile = profile_of(config)
    assert kinds_of(profile) == {"latent": 14}
    assert profile.growing_elements_per_token == 14 * 32


# --- dtypes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "dtype"),
    [({}, "model"), ({"mamba_ssm_dtype": "float32"}, "float32"), ({"mamba_ssm_dtype": "auto"}, "model")],
)
def test_the_state_has_the_dtype_that_the_config_declares(extra: dict[str, str], dtype: str) -> None:
    profile = profile_of({"model_type": "qwen3_5_text", **SIZES, **GDN, **extra})
    ssm = next(c for layer in profile.layers for c in layer.caches if isinstance(c, StateCache)).tensors()[1]
    assert ssm.dtype == dtype
    assert (profile.fact("ssm_dtype") is None) == (not extra)


def test_nemotron_keeps_float32_and_kda_always() -> None:
    nemotron = profile_of({**FAMILIES["nemotron_h"]["config"], "model_type": "unknown"})
    kimi = profile_of(FAMILIES["kimi_linear counts from one"]["config"])
    for profile in (nemotron, kimi):
        state = next(c for layer in profile.layers for c in layer.caches if isinstance(c, StateCache))
        assert [t.dtype for t in state.tensors()] == ["model", "float32"]


# --- refusals ---------------------------------------------------------------------------------------------------------

NEMOTRON = FAMILIES["nemotron_h"]["config"]
KIMI = FAMILIES["kimi_linear counts from one"]["config"]
KDA = KIMI["linear_attn_config"]

REFUSED: list[tuple[dict[str, Any], type[Refusal], str]] = [
    ({**NEMOTRON, "hybrid_override_pattern": "M-M*-M-M*-M-M"}, LayerCountMismatch, "hybrid_override_pattern"),
    ({**NEMOTRON, "hybrid_override_pattern": "M-M*-M-M*-M-MX"}, UnknownLayerKind, "hybrid_override_pattern[13]"),
    ({**NEMOTRON, "hybrid_override_pattern": 7}, FieldInvalid, "hybrid_override_pattern"),
    ({**FAMILIES["bamba"]["config"], "attn_layer_indices": [2, 14]}, FieldInvalid, "attn_layer_indices"),
    ({**FAMILIES["bamba"]["config"], "attn_layer_indices": [True]}, FieldInvalid, "attn_layer_indices"),
    ({**KIMI, "linear_attn_config": {**KDA, "full_attn_layers": [4, 8]}}, LayerCountMismatch, "linear_attn_config"),
    ({**KIMI, "linear_attn_config": {**KDA, "full_attn_layers": [4, 8, 13]}}, LayerCountMismatch, "linear_attn_config"),
    (
        {**KIMI, "linear_attn_config": {**KDA, "full_attn_layers": [0, 8, 12]}},
        FieldInvalid,
        "linear_attn_config.full_attn_layers",
    ),
    ({**KIMI, "linear_attn_config": {**KDA, "head_dim": "ten"}}, FieldInvalid, "linear_attn_config.head_dim"),
    ({**FAMILIES["minimax_text_01"]["config"], "attn_type_list": [0, 2] * 7}, UnknownLayerKind, "attn_type_list[1]"),
    ({**FAMILIES["minimax_text_01"]["config"], "attn_type_list": [0, 1]}, LayerCountMismatch, "layer_types"),
    ({**FAMILIES["jamba"]["config"], "attn_layer_offset": 4}, FieldInvalid, "attn_layer_offset"),
    ({**FAMILIES["granite hybrid"]["config"], "layer_types": ["mamba3"] * 14}, UnknownLayerKind, "layer_types[0]"),
    ({**FAMILIES["granite hybrid"]["config"], "layer_types": ["mamba", 3] * 7}, FieldInvalid, "layer_types[1]"),
    ({**SIZES, "layer_types": ["conv"] * 14}, FieldMissing, "conv_L_cache"),
    (
        {**SIZES, **GDN, "full_attention_interval": 4, "linear_num_value_heads": None},
        FieldMissing,
        "linear_num_value_heads",
    ),
    (
        {**SIZES, "layer_types": ["hybrid_sliding"] * 14, "cca_time0": 2, "cca_time1": 2},
        WindowMissing,
        "sliding_window",
    ),
    ({"d_model": 84, "n_layer": 2, "ssm_cfg": {"layer": "Mamba9"}}, UnknownLayerKind, "ssm_cfg.layer"),
    ({"d_model": 84, "n_layer": 2, "ssm_cfg": {}, "attn_layer_idx": [1]}, UnknownLayerKind, "attn_layer_idx"),
    ({**FAMILIES["granite hybrid"]["config"], "mamba_d_head": "wide"}, FieldInvalid, "mamba_d_head"),
]


@pytest.mark.parametrize(("config", "error", "path"), REFUSED)
def test_what_is_not_understood_is_refused_by_its_name(config: dict[str, Any], error: type[Refusal], path: str) -> None:
    with pytest.raises(error) as caught:
        profile_of(config)
    assert caught.value.path == path
    assert caught.value.exit_code == 3


def test_layers_of_a_state_of_unknown_size_are_known_and_its_bytes_refused() -> None:
    """What attention keeps is right without the sizes of the state; the state itself is never taken for nothing."""
    types = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 15
    heads = {"num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 256}
    profile = profile_of({"num_hidden_layers": 60, "layer_types": types, **heads})
    assert kinds_of(profile) == {"state": 45, "full": 15}
    assert profile.growing_elements_per_token * 2 == 30_720
    assert "unknown-state" in {w.kind for w in profile.warnings}
    answer = profile.to_json()
    assert answer["cache"]["state_elements_per_sequence"] is None
    assert answer["num_layers"]["state"] == 45
    with pytest.raises(FieldMissing) as caught:
        _ = profile.state_elements_per_sequence
    assert caught.value.path == "linear_num_value_heads"


def test_mistrals_own_mamba_file_is_mamba_2() -> None:
    """params.json of Mamba-Codestral: its model_type "mamba" is the inference package's word, no transformers class."""
    from onboard.params_json import to_config

    params = {"dim": 4096, "n_layers": 64, "vocab_size": 32768, "n_groups": 8, "rms_norm": True, "model_type": "mamba"}
    profile = profile_of(to_config(params))
    assert kinds_of(profile) == {"state": 64}
    assert states_of(profile) == {(("conv", (10240, 3)), ("ssm", (128, 64, 128)))}
