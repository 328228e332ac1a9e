"""Spellings of the fields that only the number of parameters rests on. Part of `fields.FIELDS`."""

from __future__ import annotations

from onboard.field_spec import Field, count

WEIGHT_FIELDS: dict[str, Field] = {
    # --- attention ---
    "attention_bias": Field(("attention_bias", "qkv_bias", "add_qkv_bias", "use_qkv_bias"), "bool"),
    "use_bias": Field(("use_bias", "add_bias_linear", "bias", "linear_bias"), "any"),
    "mlp_bias": Field(("mlp_bias",), "bool"),
    "q_lora_rank": Field(("q_lora_rank",), "int", 0, 2**20, per_layer=True),
    "o_lora_rank": count("o_lora_rank", low=0),
    "o_groups": count("o_groups"),
    "index_n_heads": count("index_n_heads", "sparse_attention_config.sparse_index_heads"),
    "attn_output_gate": Field(("attn_output_gate",), "bool"),
    "mla_output_gate": Field(("mla_use_output_gate",), "bool"),
    "use_full_rank_gate": Field(("linear_attn_config.use_full_rank_gate",), "bool"),
    "head_gating": Field(("gating", "use_head_wise_attn_gate"), "any"),
    "heads_per_layer": Field(("num_attention_heads_per_layer",), "list"),
    "share_q_dim": count("share_q_dim"),
    "swa_num_attention_heads": count("swa_num_attention_heads"),
    "learned_positions": count("n_positions", "max_position_embeddings", high=2**40),
    "word_embed_dim": count("word_embed_proj_dim", "embedding_size"),
    "num_hidden_groups": count("num_hidden_groups"),
    "feed_forward_proj": Field(("feed_forward_proj",), "str"),
    "type_vocab_size": count("type_vocab_size", low=0),
    "encoder_layers": count("encoder_layers", "num_encoder_layers", "num_layers", high=100_000),
    "encoder_ffn_dim": count("encoder_ffn_dim"),
    "num_mel_bins": count("num_mel_bins"),
    "max_target_positions": count("max_target_positions", high=2**40),
    "hc_mult": count("hc_mult"),
    "adapter_rank": count("adapter_rank"),
    "num_mem_blocks": count("num_mem_blocks"),
    "expert_dtype": Field(("expert_dtype",), "str"),
    # --- feed-forward ---
    "intermediate_size_mlp": count("intermediate_size_mlp", low=0),
    "shared_mlp_size": count("shared_intermediate_size", "share_expert_dim", low=0),
    "mlp_only_layers": Field(("mlp_only_layers",), "list"),
    "decoder_sparse_step": count("decoder_sparse_step", low=0),
    "moe_layer_freq": Field(("moe_layer_freq",), "any"),
    "interleave_moe_layer_step": count("interleave_moe_layer_step", low=0),
    "moe_layers": Field(("moe_layers", "moe_layers_enum"), "any"),
    "expert_layer_period": count("expert_layer_period"),
    "expert_layer_offset": count("expert_layer_offset", low=0),
    "mlp_layer_types": Field(("mlp_layer_types",), "list"),
    "num_dense_layers": count("num_dense_layers", low=0),
    "moe_layer_start": count("moe_layer_start_index", low=0),
    "moe_layer_interval": count("moe_layer_interval"),
    "enable_moe_block": Field(("enable_moe_block",), "bool"),
    "moe_latent_size": count("moe_latent_size", "routed_expert_hidden_size"),
    "num_hash_layers": count("num_hash_layers", low=0),
    "double_wide_mlp": Field(("use_double_wide_mlp",), "bool"),
    "multiple_of": count("multiple_of", "block_multiple_of"),
    "adjust_ff_dim": Field(("block_auto_adjust_ff_dim",), "bool"),
    "ffn_dim_multiplier": Field(("block_ffn_dim_multiplier",), "float"),
    # --- Mamba ---
    "ssm_dt_rank": Field(("mamba_dt_rank", "time_step_rank"), "any"),
    # --- per-layer inputs (Gemma 3n, Gemma 4) ---
    "per_layer_input": count("hidden_size_per_layer_input", low=0),
    "per_layer_vocab": count("vocab_size_per_layer_input", low=0),
    "laurel_rank": count("laurel_rank", low=0),
    "altup_inputs": count("altup_num_inputs", low=0),
    # --- RWKV, xLSTM ---
    "decay_rank": count("decay_low_rank_dim", low=0),
    "gate_rank": count("gate_low_rank_dim", low=0),
    "a_rank": count("a_low_rank_dim", low=0),
    "v_rank": count("v_low_rank_dim", low=0),
    "mix_rank": count("proj_low_rank_dim", low=0),
    "ffn_proj_factor": Field(("ffn_proj_factor",), "float"),
    "ffn_multiple_of": count("ffn_round_up_to_multiple_of"),
    # --- drafts ---
    "draft_vocab_size": count("draft_vocab_size"),
    "target_hidden_size": count("target_hidden_size"),
}

# Asked of a tower's own config, and so wanted of its class's constants; `weights.towers` reads them.
TOWER_FIELDS: dict[str, Field] = {
    f"tower_{name}": Field((name,), "any")
    for name in (
        "depth", "embed_dim", "width", "num_heads", "mlp_ratio", "patch_size", "temporal_patch_size", "in_channels",
        "num_channels", "image_size", "spatial_merge_size", "out_hidden_size", "num_position_embeddings",
        "deepstack_visual_indexes", "position_embedding_size", "num_patches", "vision_output_dim",
        "projector_input_dim", "projector_output_dim", "num_global_layers", "max_num_tiles", "output_dim",
        "downsample_hidden_size", "max_source_positions", "d_model", "conf_num_hidden_layers", "output_proj_dims",
    )
}  # fmt: skip
