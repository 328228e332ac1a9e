"""Keys that could change the cache and that no rule reads: said, never skipped."""

from __future__ import annotations

import re
from functools import lru_cache

from onboard.facts import Facts
from onboard.fields import FIELDS, MAX_LENGTH_KEYS

# A word in a key's name that hints at what is remembered per token or per sequence.
_HINTS = re.compile(
    r"window|kv|cache|attn|attention|layer|head|state|conv|latent|lora_rank|index|share|ssm|mamba|chunk|recurrent|compress|loop|"
    r"local|global|sparse|memory|mem_|pattern|stride|pool|block_size|interval|rwkv|retention|delta|hybrid|cross|mtp|nextn|draft",
    re.IGNORECASE,
)

# Words of keys that never change what is kept: numerics, initialisation, training, norms, rope, routing.
_HARMLESS_WORDS = re.compile(
    r"dropout|_eps|epsilon|bias|init|loss|_coef|rope|rotary|theta|norm|activation|_act$|token|label|drop|impl|scale|scaling|temperature|"
    r"softcap|logit|router|gate|expert|dense|moe|mlp|alibi|attentions$|hidden_states$|gradient|checkpoint|flash|sdpa|fused|"
    r"multiplier|relative_attention|resampler|t2u_|encoder_|lm_head|vocab|blocksparse|mup|softmax|upcast|per_layer_input|adapt|"
    r"aligner|embed|parallel|freeze|mambapy|mem_eff|swiglu|mask_index|unk_index|quant|version|prun|vision|audio|image|video|speech|projector|tie_|qk_|clip|scalar|sink|mscale|beta|alpha|lambda",
    re.IGNORECASE,
)

HARMLESS = frozenset({
    "use_cache", "cache_implementation", "num_hidden_layers", "pruned_heads", "is_decoder", "add_cross_attention",
    "cross_attention_hidden_size", "tie_encoder_decoder", "head_dim", "position_embedding_type", "layer_type",
    "attention_type", "n_layer_groups", "transformer_layers", "rescale_layers", "pretraining_tp", "model_layers",
    "q_lora_rank", "o_lora_rank", "num_attention_heads_per_layer", "window_size", "keep_window_size",
    "attention_window", "attention_layers", "attention_types", "use_qk_norm", "classifier_head", "attn_config",
    "index_n_heads", "indexer_n_heads", "index_local_blocks", "index_topk_blocks", "index_block_size",
    "indexer_budget", "indexer_compress_ratio", "index_kpool_always_select_tail", "encoder_layers",
    "encoder_attention_heads", "decoder_start_token_id", "no_rope_layers", "mlp_layer_types", "mlp_only_layers",
    "layer_switch", "order_of_interleaved_layers", "pool_type", "pooling", "share_q_dim", "shared_intermediate_size",
    "use_logn_attn", "for_llm_compressor", "anyres_pooling_size", "chunk_size_feed_forward", "attn_type",
    "use_weighted_layer_sum", "stagger_local_blocks", "global_block_size", "local_radius", "scalable_attention",
    "swa_num_attention_heads", "num_sliding_attention_heads", "attention_other_setting", "layer_rope_theta",
})  # fmt: skip


# Of recurrent, looped and drafting models: kernels, chunking, weight sharing and where residuals come from.
HARMLESS_RECURRENT = frozenset({
    "chunk_size", "mamba_chunk_size", "use_mamba_kernels", "mamba_dt_rank", "conv_dim_out", "num_mem_blocks",
    "use_shared_attention_adapter", "num_hash_layers", "attn_res_block_size", "n_layers_per_attn_res_block",
    "block_size", "max_inference_chunksize", "chunkwise_kernel", "sequence_kernel", "step_kernel", "return_last_states",
    "number_of_conv_states", "mtp_hidden_states_first", "heads_per_ngram", "decoder_sparse_step", "num_target_layers",
    "index_share_for_mtp_iteration", "rescale_every", "conv_use_xavier_init", "num_ln_in_mlp_layers",
})  # fmt: skip


def note_unread_keys(facts: Facts) -> None:
    """A caution for every stated key of the text model whose name hints at the cache and that no field spells."""
    for key in sorted(str(k) for k, v in facts.text.items() if v not in (None, False) and not _empty(v)):
        if _matters(key):
            facts.caution(
                "unread-key", key[:200], "no rule reads this key; if it changes what is kept, the layout here is wrong"
            )


def _matters(key: str) -> bool:
    if key in _read() or key in HARMLESS or key in HARMLESS_RECURRENT:
        return False
    return bool(_HINTS.search(key)) and not _HARMLESS_WORDS.search(key)


def _empty(value: object) -> bool:
    return isinstance(value, (list, tuple, dict, str)) and not value


@lru_cache(maxsize=1)
def _read() -> frozenset[str]:
    return frozenset({s.split(".")[0] for f in FIELDS.values() for s in f.spellings} | set(MAX_LENGTH_KEYS))
