"""One table: our name for a field, the spellings configs use, its type and its sane range.

A new spelling is one entry here. Rules ask by our name and never see a spelling.
"""

from __future__ import annotations

from onboard.field_spec import Field as Field
from onboard.field_spec import count as _count
from onboard.fields_recurrent import RECURRENT_FIELDS

FIELDS: dict[str, Field] = {
    # --- the stack ---
    "num_hidden_layers": _count("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers", high=100_000),
    "hidden_size": _count("hidden_size", "n_embd", "d_model", "dim", "model_dim", "hidden_dim"),
    "vocab_size": _count("vocab_size", "padded_vocab_size"),
    "intermediate_size": Field(("intermediate_size", "ffn_hidden_size", "n_inner", "d_ff"), "int", 0, per_layer=True),
    "tie_word_embeddings": Field(("tie_word_embeddings",), "bool"),
    "dtype": Field(("dtype", "torch_dtype"), "str"),
    "max_position_embeddings": Field(
        ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "model_max_length", "n_ctx"),
        "int", 1, 2**40,
    ),
    # --- attention heads ---
    "num_attention_heads": Field(("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads"), "int", 1, 2**20, per_layer=True),
    "num_kv_heads": Field(
        ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "num_query_groups", "multi_query_group_num"),
        "int", 0, 2**20, per_layer=True,
    ),
    "head_dim": Field(("head_dim", "attention_head_size", "kv_channels", "d_kv", "head_size"), "int", 1, 2**20, per_layer=True),
    "v_head_dim": Field(("v_head_dim",), "int", 1, 2**20),
    "global_head_dim": Field(("global_head_dim",), "int", 1, 2**20),
    "num_global_kv_heads": Field(("num_global_key_value_heads",), "int", 1, 2**20),
    "multi_query": Field(("multi_query",), "bool"),
    "k_eq_v": Field(("attention_k_eq_v",), "bool"),
    # --- which layers do what ---
    "layer_types": Field(("layer_types",), "list"),
    "full_attention_interval": _count("full_attention_interval"),
    "sliding_window": Field(("sliding_window", "window_size", "sliding_window_size"), "int", 0),
    "sliding_window_pattern": Field(("sliding_window_pattern", "_sliding_window_pattern"), "any"),
    "use_sliding_window": Field(("use_sliding_window",), "bool"),
    "max_window_layers": Field(("max_window_layers",), "int", 0),
    "attention_chunk_size": Field(("attention_chunk_size",), "int", 1),
    "num_kv_shared_layers": Field(("num_kv_shared_layers",), "int", 0),
    # --- mixture of experts, draft heads ---
    "num_experts": Field(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), "int", 0, 2**20),
    "num_experts_per_token": Field(("num_experts_per_tok", "top_k_experts", "moe_top_k", "moe_topk", "num_experts_per_token"), "int", 0, 2**20),
    "moe_intermediate_size": Field(("moe_intermediate_size", "expert_ffn_hidden_size"), "int", 0),
    "shared_expert_intermediate_size": Field(("shared_expert_intermediate_size",), "int", 0),
    "num_shared_experts": Field(("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"), "int", 0, 2**20),
    "num_mtp_layers": Field(("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers"), "int", 0, 1000),
    **RECURRENT_FIELDS,
}
