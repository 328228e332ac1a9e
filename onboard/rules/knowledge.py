"""What only a family's code knows, one entry a model type, each with its source.

`PATTERNS`: which layer is what when the file has no per-layer list. `IMPLIED`: constants that a class sets in code,
not as declared defaults. Sources are the config classes of transformers 5.24 (`models/<type>/configuration_<type>.py`,
`__post_init__`) unless a comment names another. A key that is a field is a rule for everyone and stands in `patterns`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.rules.labels import FULL, INDEXED, MEMORY, SLIDING
from onboard.rules.pattern_kinds import (
    CHUNKED_BY_ROPE,
    AllSlide,
    AlternateBelow,
    Always,
    ByRope,
    DensePrefix,
    Every,
    Pattern,
    SlidesFrom,
)

_QWEN_SWITCH = SlidesFrom()
_GEMMA_4 = Every(6, tail=1)
_FROM_THE_END = Every(4, offset=0, from_end=True)

PATTERNS: Mapping[str, Pattern] = {
    "afmoe": Every(field="global_attention_every"),
    "beam": Every(6, tail=1),
    "cohere2": Every(4, field="sliding_window_pattern"),
    "cohere2_moe": DensePrefix(),
    "cohere_compass_text": Always(FULL),
    "cwm": Every(4, offset=0),
    "diffusion_gemma_text": _GEMMA_4,
    "dots1": SlidesFrom(switch=""),
    "dots3_note_text": Every(4, offset=3, head=2, full=INDEXED, switch="use_sliding_window"),
    "exaone4": Every(field="sliding_window_pattern"),
    "exaone_moe": Every(field="sliding_window_pattern"),
    "flint": Every(4, offset=3, head=2, tail=1),
    "gemma2": Every(2),
    "gemma3_text": Every(6, field="sliding_window_pattern"),
    "gemma3n_text": Every(5),
    "gemma4_text": _GEMMA_4,
    "gemma4_unified_text": _GEMMA_4,
    "gpt_oss": Every(2),
    "granite_swa": Every(4, offset=0),
    "granitemoe_swa": Every(4, offset=0),
    "kolibri1": Every(5),
    "laguna": Always(FULL),
    "llama4_text": CHUNKED_BY_ROPE,
    "mellum": Always(FULL),
    "mimo_v2_flash": Every(6, head=1),
    "minimax_m3_vl_text": Always(FULL),
    "modernbert-decoder": Every(3, field="global_attention_every", offset=0),
    "muse_glimmer_text": _FROM_THE_END,
    "muse_spark_text": _FROM_THE_END,
    "olmo3": Every(4),
    "qwen2": _QWEN_SWITCH,
    "qwen2_5_omni_text": _QWEN_SWITCH,
    "qwen2_5_vl_text": _QWEN_SWITCH,
    "qwen2_moe": AlternateBelow(),
    "qwen2_vl_text": _QWEN_SWITCH,
    "qwen3": _QWEN_SWITCH,
    "qwen3_moe": AllSlide(),
    "qwen3_vl_moe_text": Always(FULL),
    "smollm3": ByRope(no_rope=SLIDING, needs="sliding_window", switch="use_sliding_window"),
    "step3p5": Always(FULL),
    "t5_gemma_module": Every(2),
    "t5gemma2_decoder": Every(6, field="sliding_window_pattern"),
    "unlimited_ocr_text": Always(FULL),
    "vaultgemma": Every(2),
    "xlnet": Always(MEMORY),
    # remote code, configuration_mimo.py: the qwen2 class with one more field
    "mimo": _QWEN_SWITCH,
}

# Sliding layers have this many times the KV heads that the file states (modeling_mimo_v2_flash.py; a stated
# `swa_num_key_value_heads` says it outright, and vLLM 0.33 reads that).
SLIDING_KV_FACTOR: Mapping[str, int] = {"mimo_v2_flash": 2}

# Fields that stand in files of a type and that its class does not read.
UNREAD: Mapping[str, frozenset[str]] = {
    "mpt": frozenset(
        {"num_kv_heads"}
    ),  # configuration_mpt.py knows no attn_config.kv_n_heads: one KV head a query head
    "dots1": frozenset({"use_sliding_window"}),
    "gpt_neo": frozenset({"sliding_window"}),
    # self.head_dim = self.hidden_size // self.num_attention_heads, whatever the file states
    "cohere2": frozenset({"head_dim"}),
    "cohere_compass_text": frozenset({"head_dim"}),
    "deepseek_ocr2_text": frozenset({"head_dim"}),
    "unlimited_ocr_text": frozenset({"head_dim"}),
    "falcon": frozenset({"head_dim"}),
}

# Types whose indexed layers are plain attention where the indexer's fields are null (Qwen4ExpTextConfig).
OPTIONAL_INDEXER = frozenset({"qwen4_exp_text"})

# Layers that run an indexer where neither a list nor a frequency says so.
INDEXERS: Mapping[str, Pattern] = {
    "hy_v4": Every(4, offset=-1, head=1, other="shared", full="full"),
    "hy_v4_vl_text": Every(4, offset=-1, head=1, other="shared", full="full"),
}

# Latent layers that rotate no positions keep no rope key at all (modeling_mistral_large4.py).
LATENT_WITHOUT_ROPE = frozenset({"mistral_large4_text"})

# Draft models that read their target's cache and keep none, unless `num_kv_shared_layers` says otherwise
# (configuration_gemma4_assistant.py).
READS_TARGET = frozenset({"gemma4_assistant", "gemma4_unified_assistant"})

# A field that the classes of one family alone have, read where a file leaves its model type out: the type it gives
# away, and the constants of that class that such a file is taken to rest on. Widths, heads and lengths are not among
# them: those differ from one checkpoint to the next.
ONLY_IN: Mapping[str, tuple[str, frozenset[str]]] = {
    "global_head_dim": ("gemma4_text", frozenset({"num_kv_shared_layers", "tie_word_embeddings"})),
    "num_global_key_value_heads": ("gemma4_text", frozenset({"num_kv_shared_layers", "tie_word_embeddings"})),
    "laurel_rank": ("gemma3n_text", frozenset({"num_kv_shared_layers", "tie_word_embeddings"})),
    "full_attention_interval": (
        "qwen3_next",
        frozenset({
            "linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads",
            "linear_num_value_heads",
        }),
    ),
}  # fmt: skip

# Layer lists that the class changes after reading them.
LAST_IS_FULL = frozenset({"gemma4_text", "gemma4_unified_text", "diffusion_gemma_text"})

# A layer type that the class renames after reading it.
RENAMED: Mapping[str, Mapping[str, str]] = {
    "glm5_next_text": {FULL: INDEXED},
    "qwen4_exp_text": {FULL: INDEXED},
}

# The stated context already includes the rope factor (vLLM 0.33 config/model.py: "gemma3" in model_type).
ALREADY_SCALED = frozenset({"gemma3", "gemma3_text", "gemma3n", "gemma3n_text"})

_GEMMA_4_GLOBAL = {"global_head_dim": 512}  # kwargs.pop("global_head_dim", 512)
IMPLIED: Mapping[str, Mapping[str, Any]] = {
    # remote code, configuration_phi4flash.py: the constructor's defaults
    "phi4flash": {"mb_per_layer": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2},
    "gemma4_text": _GEMMA_4_GLOBAL,
    "gemma4_unified_text": _GEMMA_4_GLOBAL,
    "diffusion_gemma_text": _GEMMA_4_GLOBAL,
    "dbrx": {
        "attn_config": {"kv_n_heads": 1},
        "ffn_config": {"moe_num_experts": 4, "moe_top_k": 1, "ffn_hidden_size": 3584},
    },
    # kwargs.pop("sliding_window_size", 512), the swa_* table and use_sliding_window=True, use_dsa=True
    "dots3_note_text": {
        "sliding_window": 512, "use_sliding_window": True, "use_dsa": True, "swa_kv_lora_rank": 1024,
        "swa_head_dim": 256, "swa_qk_nope_head_dim": 192, "swa_num_key_value_heads": 64,
    },
    "mllama_text_model": {"cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]},
    "mistral_large4_text": {"no_rope_layer_interval": 4},
}  # fmt: skip
