"""Parameters by rule against the sizes that families publish, where the class's own defaults are a released model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.weights_rule import by_rule, profile_of

MARIAN = {
    "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
    "encoder_attention_heads": 8, "decoder_attention_heads": 8, "vocab_size": 58101,
}  # fmt: skip
FLAN_T5_XL = {
    "d_model": 2048, "d_ff": 5120, "num_layers": 24, "num_decoder_layers": 24, "num_heads": 32, "d_kv": 64,
    "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
}  # fmt: skip
RWKV_169M = {"hidden_size": 768, "num_hidden_layers": 12, "vocab_size": 50277, "attention_hidden_size": 768}
CLIP_L = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
ALBERT_BASE = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
RG_2B = {"intermediate_size": 15360, "num_key_value_heads": 1}

LLAMA_8B = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
            "num_hidden_layers": 32}  # fmt: skip
DBRX = {"d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}}  # fmt: skip
JAMBA = {**LLAMA_8B, "num_experts": 16, "num_experts_per_tok": 2, "vocab_size": 65536, "attn_layer_period": 8,
         "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 16,
         "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256}  # fmt: skip
CHATGLM3 = {"hidden_size": 4096, "ffn_hidden_size": 13696, "num_attention_heads": 32, "multi_query_attention": True,
            "multi_query_group_num": 2, "num_layers": 28, "padded_vocab_size": 65024, "add_qkv_bias": True,
            "add_bias_linear": False, "kv_channels": 128, "seq_length": 8192}  # fmt: skip
QWEN_7B = {"hidden_size": 4096, "intermediate_size": 22016, "num_attention_heads": 32, "num_hidden_layers": 32,
           "vocab_size": 151936, "kv_channels": 128, "seq_length": 8192}  # fmt: skip
STARCODER = {"n_embd": 6144, "n_head": 48, "n_layer": 40, "n_positions": 8192, "n_inner": 24576, "vocab_size": 49152,
             "multi_query": True}  # fmt: skip
NEOX_20B = {"hidden_size": 6144, "num_attention_heads": 64, "num_hidden_layers": 44, "intermediate_size": 24576,
            "vocab_size": 50432}  # fmt: skip
ARCTIC = {"hidden_size": 7168, "intermediate_size": 4864, "num_hidden_layers": 35, "num_attention_heads": 56,
          "num_key_value_heads": 8, "num_local_experts": 128, "num_experts_per_tok": 2, "vocab_size": 32000,
          "max_position_embeddings": 4096}  # fmt: skip
TRINITY_MINI = {"hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 1024, "head_dim": 128,
                "num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 32, "num_dense_layers": 2,
                "num_experts": 128, "num_shared_experts": 1, "vocab_size": 200192}  # fmt: skip
ERNIE_21B = {"hidden_size": 2560, "intermediate_size": 12288, "num_attention_heads": 20, "num_key_value_heads": 4,
             "num_hidden_layers": 28, "vocab_size": 103424, "moe_num_experts": 64, "moe_intermediate_size": 1536,
             "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "tie_word_embeddings": True}  # fmt: skip

PUBLISHED: list[tuple[str, dict[str, Any], float]] = [  # model type, what differs from the class, millions
    ("t5", {}, 60.5),
    ("t5", FLAN_T5_XL, 2849.8),
    ("bart", {}, 406.3),
    ("mbart", {"vocab_size": 250054}, 610.9),
    ("m2m_100", {}, 483.9),
    ("marian", MARIAN, 74.4),
    ("blenderbot", {}, 2696),
    ("clip_text_model", CLIP_L, 123.06),
    ("albert", {}, 222.6),
    ("albert", ALBERT_BASE, 11.68),
    ("distilbert", {}, 66.36),
    ("electra", {}, 13.5),
    ("mpnet", {}, 109.5),
    ("modernbert", {}, 149.0),
    ("gpt_neo", {}, 1315.6),
    ("openai-gpt", {}, 116.5),
    ("xglm", {}, 564.5),
    ("biogpt", {}, 346.8),
    ("olmo", {}, 6888),
    ("recurrent_gemma", RG_2B, 2683),
    ("xlstm", {}, 6865),
    ("zamba", {}, 7232),
    ("rwkv", RWKV_169M, 169.34),
    ("dbrx", DBRX, 131596.5),
    ("jamba", JAMBA, 51570.3),
    ("chatglm", CHATGLM3, 6243.6),
    ("qwen", QWEN_7B, 7721.3),
    ("internlm2", {**LLAMA_8B, "vocab_size": 92544}, 7737.7),
    ("gpt_bigcode", STARCODER, 15517.5),
    ("gpt_neox", NEOX_20B, 20554.6),
    ("mpt", {"d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432, "no_bias": True}, 6649.3),
    ("bloom", {"hidden_size": 4096, "n_head": 32, "n_layer": 30, "vocab_size": 250880}, 7069),
    ("arctic", ARCTIC, 478600),
    ("afmoe", TRINITY_MINI, 26123),
    ("ernie4_5_moe", ERNIE_21B, 21825.4),
]


@pytest.mark.parametrize(("model_type", "changes", "millions"), PUBLISHED)
def test_a_family_counts_as_published(model_type: str, changes: dict[str, Any], millions: float) -> None:
    variant = by_rule(profile_of({"model_type": model_type, **changes}))
    assert (variant.num_parameters or 0) / 10**6 == pytest.approx(millions, rel=0.008)
    assert "by the rule for a Llama" not in variant.where
