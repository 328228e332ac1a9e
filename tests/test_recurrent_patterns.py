"""Laws of the ways in which configs write which layers are recurrent."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onboard.derive import derive
from onboard.profile import Profile, SourceRef

GDN = {
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}  # fmt: skip
NEMOTRON = {"ssm_state_size": 8, "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2, "conv_kernel": 4}
MAMBA = {"mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2}
KDA = {"head_dim": 8, "num_heads": 4, "short_conv_kernel_size": 4}
KIND = {"M": "state", "*": "full", "-": "none", "E": "none"}
WORD = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def kinds_of(count: int, **fields: Any) -> list[str]:
    config = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": count,
        **fields,
    }
    profile: Profile = derive(config, model_id="m", source=SourceRef(kind="file", name="m"))
    return ["+".join(layer.kinds()) for layer in profile.layers]


@given(st.text(alphabet="M*-E", min_size=1, max_size=40))
def test_a_pattern_string_and_its_list_are_one_layer_a_character(pattern: str) -> None:
    want = [KIND[character] for character in pattern]
    assert kinds_of(len(pattern), hybrid_override_pattern=pattern, **NEMOTRON) == want
    assert kinds_of(len(pattern), layers_block_type=[WORD[c] for c in pattern], **NEMOTRON) == want


@given(st.integers(1, 40), st.integers(1, 12))
def test_an_interval_is_its_list(count: int, interval: int) -> None:
    listed = ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(count)]
    by_interval = kinds_of(count, full_attention_interval=interval, **GDN)
    assert by_interval == kinds_of(count, layer_types=listed, **GDN)
    assert by_interval.count("full") == count // interval


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 8))
def test_a_period_with_an_offset_is_its_list_of_indices(count: int, period: int, offset: int) -> None:
    offset = offset % period
    attention = [i for i in range(count) if i % period == offset]
    by_period = kinds_of(count, attn_layer_period=period, attn_layer_offset=offset, **MAMBA)
    assert by_period == kinds_of(count, attn_layer_indices=attention, **MAMBA)
    assert [i for i, kind in enumerate(by_period) if kind == "full"] == attention


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_lists_that_count_from_one_and_numbers_mean_the_same(attends: list[bool]) -> None:
    want = ["full" if attention else "state" for attention in attends]
    one_based = {
        "full_attn_layers": [i + 1 for i, attention in enumerate(attends) if attention],
        "kda_layers": [i + 1 for i, attention in enumerate(attends) if not attention],
    }
    assert kinds_of(len(attends), linear_attn_config={**KDA, **one_based}) == want
    assert kinds_of(len(attends), attn_type_list=[int(attention) for attention in attends]) == want


@given(st.lists(st.sampled_from(["conv", "full_attention"]), min_size=1, max_size=40))
def test_convolutions_by_list_and_by_index(types: list[str]) -> None:
    attention = [i for i, label in enumerate(types) if label != "conv"]
    by_index = kinds_of(len(types), full_attn_idxs=attention, conv_L_cache=3)
    assert by_index == kinds_of(len(types), layer_types=types, conv_L_cache=3)
    assert by_index == ["state" if label == "conv" else "full" for label in types]
