"""Rules one by one: context length, text model, encoders, spellings, sharing, quantisation."""

from __future__ import annotations

from typing import Any

import pytest

from onboard.errors import FieldInvalid, LayerCountMismatch
from onboard.layers import CrossAttention, FullAttention, Indexer, LatentAttention, SharedWith, WindowLatent
from onboard.tp import valid_tp
from tests.deriving import caution_kinds, indices, profile_of

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 96, "vocab_size": 100,
    "max_position_embeddings": 4096,
}  # fmt: skip


def llama(**more: Any) -> dict[str, Any]:
    return {**LLAMA, **more}


@pytest.mark.parametrize(
    ("more", "length"),
    [
        ({}, 4096),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, 16384),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 8192),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}}, 4096),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 4096),
        ({"rope_scaling": {"type": "longrope", "factor": 8.0}}, 4096),
        ({"rope_scaling": {"type": "linear", "factor": None}}, 4096),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}}, 32768),
        ({"model_max_length": 16384}, 16384),
        ({"model_max_length": 10**30}, 4096),
        ({"seq_length": 2048}, 2048),
        ({"sliding_window": 128}, 4096),
    ],
)
def test_context_length_with_rope_scaling(more: dict[str, Any], length: int) -> None:
    assert profile_of(llama(**more)).fact("max_model_len") == length


def test_no_context_length_stays_missing() -> None:
    config = {"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "state_size": 4}
    assert profile_of(config).fact("max_model_len") is None


def test_a_text_model_by_reference_takes_class_geometry_and_says_so() -> None:
    profile = profile_of({"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}})
    assert (len(profile.layers), profile.facts["num_hidden_layers"].origin) == (32, "class-default")
    assert "geometry-from-defaults" in caution_kinds(profile)


def test_a_composite_that_keeps_its_text_model_at_the_top() -> None:
    profile = profile_of(llama(model_type="qwen2_vl", vision_config={"num_hidden_layers": 99}))
    assert len(profile.layers) == 4
    assert "geometry-from-defaults" not in caution_kinds(profile)


def test_nested_text_models_are_followed_to_the_end() -> None:
    inner = {k: v for k, v in LLAMA.items() if k != "model_type"}
    profile = profile_of({"model_type": "qwen2_5_omni", "thinker_config": {"text_config": inner}})
    assert len(profile.layers) == 4
    assert profile.facts["num_kv_heads"].where == "thinker_config.text_config.num_key_value_heads"


def test_an_outer_level_that_contradicts_is_named() -> None:
    profile = profile_of({"model_type": "some_vlm", "num_hidden_layers": 33, "text_config": LLAMA})
    assert len(profile.layers) == 4
    assert any(w.kind == "conflicting-top-level" and w.where == "num_hidden_layers" for w in profile.warnings)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert", "num_hidden_layers": 3},
        llama(is_causal=False),
        {"model_type": "gemma3_text", "num_hidden_layers": 3, "use_bidirectional_attention": True},
        {"model_type": "t5", "architectures": ["T5EncoderModel"], "num_layers": 3, "num_decoder_layers": 3},
    ],
)
def test_encoders_keep_nothing_and_say_so(config: dict[str, Any]) -> None:
    profile = profile_of(config)
    assert set(indices(profile, "none")) == set(range(len(profile.layers))) != set()
    assert "no-cache" in caution_kinds(profile)


def test_an_encoder_that_decodes_has_a_cache() -> None:
    assert len(indices(profile_of({"model_type": "bert", "num_hidden_layers": 3, "is_decoder": True}), "full")) == 3


def test_an_encoder_decoder_keeps_its_own_and_the_encoder_s_tokens() -> None:
    profile = profile_of(
        {"model_type": "whisper", "d_model": 64, "encoder_layers": 6, "decoder_layers": 2, "decoder_attention_heads": 4}
    )
    assert [layer.kinds() for layer in profile.layers] == [("full", "cross")] * 2
    assert profile.layers[0].caches[1] == CrossAttention(4, 16, 16, num_encoder_tokens=1500)


@pytest.mark.parametrize(
    ("config", "heads", "dim"),
    [
        ({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "multi_query_attention": True,
          "multi_query_group_num": 2, "kv_channels": 16}, 2, 16),
        ({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "multi_query_attention": False,
          "multi_query_group_num": 2}, 8, 8),
        ({"model_type": "dbrx", "d_model": 64, "n_heads": 8, "n_layers": 2, "attn_config": {"kv_n_heads": 4}}, 4, 8),
        ({"model_type": "mpt", "d_model": 64, "n_heads": 8, "n_layers": 2, "attn_config": {"kv_n_heads": 4}}, 8, 8),
        ({"model_type": "step3_text", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
          "num_attention_groups": 1, "head_dim": 16}, 1, 16),
        ({"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
          "multi_query": False, "num_kv_heads": 4, "new_decoder_architecture": False}, 4, 8),
    ],
)  # fmt: skip
def test_spellings_of_heads(config: dict[str, Any], heads: int, dim: int) -> None:
    assert set(profile_of(config).layers[0].caches) == {FullAttention(heads, dim, dim)}


def test_blocks_may_leave_attention_out() -> None:
    attention = ({"n_heads_in_group": 4}, {"no_op": True}, {"replace_with_linear": True})
    blocks = [{"attention": one} for one in attention]
    config = {"model_type": "nemotron-nas", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 8,
              "block_configs": blocks}  # fmt: skip
    profile = profile_of(config)
    assert profile.layers[0].caches == (FullAttention(2, 8, 8),)
    assert indices(profile, "none") == [1, 2]


MLA: dict[str, Any] = {
    "model_type": "glm_moe_dsa", "num_hidden_layers": 8, "num_attention_heads": 4, "kv_lora_rank": 26,
    "qk_rope_head_dim": 6, "index_head_dim": 18,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "own"),
    [
        ({}, list(range(8))),
        ({"index_topk_freq": 4}, [0, 1, 5]),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, [0, 1, 2, 6]),
        ({"index_topk_pattern": "FSSSFSSS"}, [0, 4]),
        ({"indexer_types": ["full", "shared"] * 4}, [0, 2, 4, 6]),
    ],
)
def test_which_layers_keep_index_keys(more: dict[str, Any], own: list[int]) -> None:
    profile = profile_of({**MLA, **more})
    assert indices(profile, "indexer") == own
    assert profile.layers[0].caches == (LatentAttention(26, 6), Indexer(18))


def test_a_window_on_latents_has_its_own_ranks() -> None:
    config = {"model_type": "dots3_note_text", "num_hidden_layers": 4, "num_attention_heads": 4, "kv_lora_rank": 26,
              "qk_rope_head_dim": 6, "index_head_dim": 18, "swa_kv_lora_rank": 14, "swa_qk_rope_head_dim": 4,
              "sliding_window": 16}  # fmt: skip
    assert profile_of(config).layers[2].caches == (WindowLatent(14, 4, 16),)


def test_sources_of_shared_kv() -> None:
    config = {"model_type": "mistral_large4_text", **{k: v for k, v in MLA.items() if k != "model_type"},
              "kv_source_layers": [0, 0, 2, 2, 4, 4, 6, 6], "indexer_types": ["full", "shared"] * 4}  # fmt: skip
    profile = profile_of(config)
    assert profile.layers[1].caches == (SharedWith(0),)
    assert profile.layers[3].caches == (SharedWith(2),)
    with pytest.raises(FieldInvalid):
        profile_of({**config, "kv_source_layers": [0, 0, 1, 2, 4, 4, 6, 6]})
    with pytest.raises(LayerCountMismatch):
        profile_of({**config, "kv_source_layers": [0]})


def test_a_key_that_hints_at_the_cache_is_not_skipped() -> None:
    profile = profile_of(llama(kv_compression_ratio=4, hidden_act="silu", attention_dropout=0.1))
    assert [w.where for w in profile.warnings if w.kind == "unread-key"] == ["kv_compression_ratio"]


@pytest.mark.parametrize(
    ("block", "scheme"),
    [
        ({"quant_method": "modelopt", "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}, "fp8"),
        ({"quant_method": "modelopt", "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "int"}}, None),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, None),
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8"}, None),
    ],
)
def test_the_kv_format_that_a_checkpoint_declares(block: dict[str, Any], scheme: str | None) -> None:
    assert profile_of(llama(quantization_config=block)).fact("kv_cache_scheme") == scheme


def test_valid_tp_divides_heads_and_widths_and_may_replicate_kv_heads() -> None:
    assert valid_tp(profile_of(LLAMA)) == [1, 2, 4, 8]
    assert valid_tp(profile_of(llama(num_key_value_heads=8, intermediate_size=100))) == [1, 2, 4]
