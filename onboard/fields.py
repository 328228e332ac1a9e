"""One table: our name for a field, the spellings configs use, its type and its sane range.

A new spelling is one entry here. Rules ask by our name and never see a spelling. A dot in a spelling steps into
a nested mapping (`attn_config.kv_n_heads`). The order of spellings is their precedence where a file has several.
"""

from __future__ import annotations

from onboard.field_spec import Field
from onboard.field_spec import count as _count
from onboard.fields_recurrent import RECURRENT_FIELDS
from onboard.fields_weights import TOWER_FIELDS, WEIGHT_FIELDS


def _heads(*spellings: str, low: int = 1) -> Field:
    return Field(spellings, "int", low, 2**20, per_layer=True)


def _flag(*spellings: str) -> Field:
    return Field(spellings, "bool")


def _list(*spellings: str) -> Field:
    return Field(spellings, "list")


MAX_LAYERS = 100_000

FIELDS: dict[str, Field] = {
    # --- the stack ---
    "num_hidden_layers": _count(
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers", "layers", high=MAX_LAYERS
    ),
    "decoder_layers": _count("decoder_layers", "num_decoder_layers", high=MAX_LAYERS),
    "hidden_size": _count("hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim", "embed_dim", "emb_dim"),
    "vocab_size": _count("vocab_size", "padded_vocab_size", "n_words", "n_token", "decoder_vocab_size", low=0),
    "intermediate_size": Field(
        (
            "intermediate_size",
            "ffn_hidden_size",
            "n_inner",
            "d_ff",
            "decoder_ffn_dim",
            "ffn_dim",
            "hidden_dim",
            "dim_ff",
            "dff",
            "ff_intermediate_size",
        ),
        "int",
        0,
        per_layer=True,
    ),
    "tie_word_embeddings": Field(("tie_word_embeddings", "tie_embedding"), "bool", root=True),
    "dtype": Field(("dtype", "torch_dtype"), "str", root=True),
    "is_encoder_decoder": _flag("is_encoder_decoder"),
    "is_decoder": _flag("is_decoder"),
    "is_causal": _flag("is_causal"),
    "cross_attention": _flag("add_cross_attention"),
    "max_encoder_tokens": _count("max_source_positions"),
    # --- attention heads ---
    "num_attention_heads": _heads(
        "num_attention_heads",
        "n_head",
        "n_heads",
        "num_heads",
        "num_query_heads",
        "attention_heads",
        "encoder_attention_heads",
    ),
    "decoder_attention_heads": _count("decoder_attention_heads", "num_decoder_attention_heads", high=2**20),
    "num_kv_heads": _heads(
        "num_key_value_heads",
        "num_kv_heads",
        "n_kv_heads",
        "n_head_kv",
        "num_query_groups",
        "num_attention_groups",
        "num_key_value_heads_per_layer",
        "num_multi_query_heads",
        "attn_config.kv_n_heads",
        "num_key_value_heads_per_layer",
        low=0,
    ),
    "multi_query_group_num": _count("multi_query_group_num", high=2**20),
    "multi_query": _flag("multi_query"),
    "multi_query_attention": _flag("multi_query_attention"),
    "new_decoder_architecture": _flag("new_decoder_architecture"),
    "head_dim": _heads(
        "head_dim",
        "attention_head_dim",
        "attention_head_size",
        "kv_channels",
        "d_kv",
        "hidden_size_per_head",
        "dim_head",
        "head_size",
        "d_head",
        low=0,
    ),
    "v_head_dim": _heads("v_head_dim", low=0),
    "k_eq_v": _flag("attention_k_eq_v"),
    "block_configs": _list("block_configs"),
    "per_layer_config": Field(("per_layer_config",), "dict"),
    # --- heads of one kind of layer ---
    "global_head_dim": _count("global_head_dim", high=2**20),
    "num_global_kv_heads": _count("num_global_key_value_heads", high=2**20),
    "swa_num_kv_heads": _count("swa_num_key_value_heads", high=2**20),
    "swa_head_dim": _count("swa_head_dim", high=2**20),
    "swa_v_head_dim": _count("swa_v_head_dim", high=2**20),
    "swa_kv_lora_rank": _count("swa_kv_lora_rank", high=2**20),
    "swa_qk_rope_head_dim": _count("swa_qk_rope_head_dim", high=2**20, low=0),
    "swa_qk_nope_head_dim": _count("swa_qk_nope_head_dim", high=2**20, low=0),
    # --- which layers do what ---
    "layer_types": _list("layer_types"),
    "full_attention_interval": _count("full_attention_interval"),
    "sliding_window": Field(("sliding_window", "sliding_window_size", "attention_window_size"), "any"),
    "sliding_window_pattern": Field(("sliding_window_pattern", "_sliding_window_pattern"), "any"),
    "prefix_sliding_window_pattern": _count("prefix_dense_sliding_window_pattern"),
    "global_attention_every": _count("global_attn_every_n_layers"),
    "hybrid_layer_pattern": _list("hybrid_layer_pattern", "sliding_window_layout"),
    "local_attention": Field(("local_attention",), "int", -1, 2**40),
    "use_sliding_window": _flag("use_sliding_window"),
    "max_window_layers": Field(("max_window_layers",), "int", 0),
    "attention_chunk_size": Field(("attention_chunk_size",), "int", 1),
    "no_rope_layers": _list("no_rope_layers"),
    "no_rope_layer_interval": _count("no_rope_layer_interval", "nope_layer_interval"),
    "cross_attention_layers": _list("cross_attention_layers"),
    "first_k_dense_replace": Field(("first_k_dense_replace",), "int", 0),
    "bidirectional_attention": Field(("use_bidirectional_attention",), "any"),
    "memory_length": Field(("mem_len",), "int", 0),
    # --- cross-layer sharing ---
    "num_kv_shared_layers": Field(("num_kv_shared_layers",), "int", 0),
    "kv_sharing_modes": _list("kv_sharing_modes"),
    "kv_source_layers": _list("kv_source_layers"),
    "cross_layer_attention": _flag("use_cla"),
    "cross_layer_share": _count("cla_share_factor", high=100_000),
    # --- latent attention and its indexers ---
    "use_mla": _flag("use_mla"),
    "kv_lora_rank": Field(("kv_lora_rank",), "int", 1, 2**20, per_layer=True),
    "qk_rope_head_dim": Field(("qk_rope_head_dim",), "int", 0, 2**20, per_layer=True),
    "qk_nope_head_dim": Field(("qk_nope_head_dim",), "int", 0, 2**20, per_layer=True),
    "index_head_dim": _count(
        "index_head_dim", "indexer_head_dim", "sparse_attention_config.sparse_index_dim", high=2**20
    ),
    "index_kpool": _count("index_kpool"),
    "indexer_kv_heads": _count("indexer_kv_heads", high=2**20),
    "index_topk": _count("index_topk"),
    "use_dsa": _flag("use_dsa"),
    "indexer_types": _list("indexer_types"),
    "index_topk_pattern": Field(("index_topk_pattern",), "any"),
    "index_topk_freq": _count("index_topk_freq"),
    "index_topk_offset": Field(("index_skip_topk_offset",), "int", 0),
    "sparse_attention_freq": _list("sparse_attention_config.sparse_attention_freq"),
    # --- mixture of experts, draft heads ---
    "num_experts": Field(
        (
            "num_experts",
            "num_local_experts",
            "n_routed_experts",
            "moe_num_experts",
            "ffn_config.moe_num_experts",
            "moe.num_experts",
        ),
        "int",
        0,
        2**20,
        per_layer=True,
    ),
    "num_experts_per_token": Field(
        (
            "num_experts_per_tok",
            "top_k_experts",
            "moe_top_k",
            "moe_topk",
            "moe_k",
            "num_experts_per_token",
            "ffn_config.moe_top_k",
            "moe.num_experts_per_tok",
        ),
        "int",
        0,
        2**20,
        per_layer=True,
    ),
    "moe_intermediate_size": Field(
        ("moe_intermediate_size", "expert_ffn_hidden_size", "ffn_config.ffn_hidden_size"),
        "int",
        0,
        2**30,
        per_layer=True,
    ),
    "shared_expert_intermediate_size": Field(
        ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"), "int", 0
    ),
    "num_shared_experts": Field(
        ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
        "int",
        0,
        2**30,
        per_layer=True,
    ),
    "num_mtp_layers": Field(
        ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers", "num_mtp_modules"),
        "int",
        0,
        1000,
    ),
    # --- context length ---
    "rope_scaling": Field(("rope_parameters", "rope_scaling"), "any", root=True),
    "original_max_positions": _count("original_max_position_embeddings"),
    # --- quantisation ---
    "quantization_config": Field(("quantization_config", "compression_config"), "any", root=True),
    **RECURRENT_FIELDS,
    **WEIGHT_FIELDS,
    **TOWER_FIELDS,
}

# Keys that hold a context length; the smallest stated one bounds the model (vLLM 0.33 config/model_arch.py).
MAX_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
    "n_ctx",
    "context_length",
)
