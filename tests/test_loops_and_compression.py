"""Stacks that run layers several times, and stacks that keep one entry for several tokens."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.errors import FieldInvalid, FieldMissing, Refusal, UnknownLayerKind
from onboard.layers import Compressed, Indexer, WindowAttention
from onboard.states import CompressorOverlap
from tests.deriving import profile_of

SIZES: dict[str, Any] = {
    "hidden_size": 84, "num_hidden_layers": 14, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 22,
}  # fmt: skip
INKLING = {"model_type": "inkling2_loop_text", **SIZES, "sliding_window_size": 16, "conv_kernel_size": 5}
DORY = {
    "model_type": "dory",
    **SIZES,
    "sliding_window": 16,
    "n_input_layers": 4,
    "n_output_layers": 4,
    "n_recurrent_loops": 3,
}
V4: dict[str, Any] = {
    "model_type": "deepseek_v4", **SIZES, "num_key_value_heads": 1, "sliding_window": 16, "index_head_dim": 14,
    "num_nextn_predict_layers": 0,
}  # fmt: skip


# --- loops ------------------------------------------------------------------------------------------------------


@given(start=st.integers(1, 13), size=st.integers(0, 13), passes=st.integers(1, 5))
def test_each_further_pass_adds_layers_at_the_end(start: int, size: int, passes: int) -> None:
    end = min(14, start + max(1, size))
    loop = {"loop_layer_index_start": start, "loop_layer_index_end": end, "loop_num_passes": passes}
    heads = {"swa_num_key_value_heads": 8, "swa_head_dim": 128}
    plain = profile_of({**INKLING, **heads, "model_type": "inkling2_text"})
    looped = profile_of({**INKLING, **heads, **loop})
    assert looped.layers == plain.layers + plain.layers[start:end] * (passes - 1)


def test_a_nested_loop_config_says_the_same() -> None:
    flat = {"loop_layer_index_start": 4, "loop_layer_index_end": 10, "loop_num_passes": 3}
    nested = {"loop_config": {"core_start": 4, "core_end": 10, "num_passes": 3}}
    assert profile_of({**INKLING, **nested}).layers == profile_of({**INKLING, **flat}).layers
    assert len(profile_of({**INKLING, **flat}).layers) == 26


def test_dory_keeps_one_cache_a_loop_or_only_the_last() -> None:
    per_loop = profile_of(DORY)
    assert len(per_loop.layers) == 26
    assert sum(layer.kinds() == ("full",) for layer in per_loop.layers) == 5
    assert len(profile_of({**DORY, "recurrent_kv_cache_mode": "last_loop"}).layers) == 14


def test_dorys_published_files_list_each_layers_mlp_apart() -> None:
    types = [label for i in range(14) for label in ("full_attention" if i % 4 == 3 else "sliding_attention", "mlp")]
    pairs = {"num_hidden_layers": 28, "n_input_layers": 8, "n_output_layers": 8, "layer_types": types}
    assert profile_of({**DORY, **pairs}).layers == profile_of(DORY).layers


def test_hrm_multiplies_its_stack_once() -> None:
    config = {"model_type": "hrm_text", **SIZES, "H_cycles": 2, "L_cycles": 3}
    assert len(profile_of(config).layers) == 112
    saved = {**config, "num_hidden_layers": 112, "num_layers_per_stack": 14}
    assert len(profile_of(saved).layers) == 112


def test_a_universal_transformer_runs_the_whole_stack() -> None:
    assert len(profile_of({"model_type": "ouro", **SIZES, "total_ut_steps": 4}).layers) == 56


@pytest.mark.parametrize(
    "loop",
    [
        {"loop_layer_index_start": 4, "loop_layer_index_end": 15, "loop_num_passes": 3},
        {"loop_layer_index_start": 9, "loop_layer_index_end": 4, "loop_num_passes": 3},
        {"loop_config": {"core_start": 4, "core_end": 10, "num_passes": 0}},
        {"loop_layer_index_start": 4, "loop_layer_index_end": 10, "loop_num_passes": 10**9},
        {"loop_layer_index_start": 0, "loop_layer_index_end": 14, "loop_num_passes": 10_000},
        {"H_cycles": 9_000, "L_cycles": 9_000},
    ],
)
def test_a_loop_that_leaves_the_stack_is_refused(loop: dict[str, Any]) -> None:
    with pytest.raises(FieldInvalid):
        profile_of({**INKLING, **loop})


# --- compression ------------------------------------------------------------------------------------------------


def test_each_kind_of_compressed_layer() -> None:
    ratios = [0, 4, 128] + [4] * 11
    sliding, sparse, heavy = profile_of({**V4, "compress_ratios": ratios}).layers[:3]
    window = WindowAttention(1, 22, 0, 16)
    assert sliding.caches == (window,)
    assert sparse.caches == (window, Compressed(22, 4), Indexer(14, 4), CompressorOverlap(4, 22, 14))
    assert heavy.caches == (window, Compressed(22, 128))


def test_rates_replace_the_ratios_own_numbers() -> None:
    rates = {"compressed_sparse_attention": 8, "heavily_compressed_attention": 16}
    profile = profile_of({**V4, "compress_ratios": [4] * 7 + [128] * 7, "compress_rates": rates})
    assert profile.growing_elements_per_token == 7 * Fraction(22 + 14, 8) + 7 * Fraction(22, 16)
    scalars = {"compress_rate_csa": 8, "compress_rate_hca": 16}
    older = profile_of({**V4, "compress_ratios": [4] * 7 + [128] * 7, **scalars})
    assert older.layers == profile.layers


def test_the_class_builds_its_own_pattern() -> None:
    kinds = [layer.kinds() for layer in profile_of(V4).layers]
    assert kinds[:4] == [("window", "compressed")] * 3 + [("window", "compressed", "indexer", "state")]


def test_a_saved_list_of_types_means_one_tensor_too() -> None:
    types = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"] + [
        "sliding_attention"
    ] * 11
    profile = profile_of({**V4, "layer_types": types})
    assert profile.layers == profile_of({**V4, "compress_ratios": [0, 4, 128] + [0] * 11}).layers
    assert profile.window_elements == 14 * 16 * 22


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"compress_ratios": [0, 4, 64] + [4] * 11}, UnknownLayerKind),
        ({"compress_ratios": [0, 4, True] + [4] * 11}, UnknownLayerKind),
        ({"compress_ratios": [0, 4]}, Refusal),
        ({"compress_ratios": [4] * 14, "index_head_dim": None}, FieldMissing),
        ({"compress_ratios": [4] * 14, "sliding_window": None}, FieldMissing),
        ({"compress_ratios": [4] * 14, "compress_rates": {"compressed_sparse_attention": "four"}}, FieldInvalid),
    ],
)
def test_what_no_engine_serves_is_refused(change: dict[str, Any], error: type[Refusal]) -> None:
    with pytest.raises(error):
        profile_of({**V4, **change})
