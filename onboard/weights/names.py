"""Tensor name -> what it is: the part of the model, the kind of matrix, the layer. One table, first match wins.

Names are transformers' and the original checkpoints' own; sharding is not decided here (`calc.shard` does).
"""

from __future__ import annotations

import re
from functools import lru_cache

from onboard.values import Struct
from onboard.weights.quant import AUX, PACKED, PLAIN

DIGITS = re.compile(r"(?<=\.)\d+(?=\.|$)")
LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks?|layer|encoder_layers)\.(\d{1,5})(?:\.|$)")

PARTS: tuple[tuple[str, str], ...] = (  # pattern anywhere in the name -> part
    (r"^(?:talker|token2wav|code2wav|code_predictor|vocoder)\b", "talker"),
    (r"(?:^|\.)(?:audio_tower|audio_model|audio_encoder|embed_audio|audio_projection\w*|audio)\.", "audio"),
    (r"(?:^|\.)(?:speech_\w+|sound_\w+|conformer)\.", "audio"),
    (
        r"(?:^|\.)(?:visual|vision\w*|vit\w*|image_newline|embed_vision|multi_modal_projector|mm_projector|mlp1|vpm|resampler"
        r"|patch_merger\w*|aligner|connector|pre_mm_projector_norm|img_projection|mm_patch_merger|merger|gen_vision\w*"
        r"|image_\w+|vision_embedder|mm_vision\w*)(?:\.|$)",
        "vision",
    ),
    (r"(?:^|\.)(?:mtp|mtp_block|nextn|eh_proj|mtp_layers|model_mtp)\b", "mtp"),
)

KINDS: tuple[tuple[str, str], ...] = (  # pattern of the module's path (no suffix such as `.weight`) -> kind
    (r"(?:^|\.)(?:embed_tokens_per_layer)$", "embedding"),
    (r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embeddings?|embed_in|shared|embed)$", "embedding"),
    (r"(?:^|\.)(?:lm_head|embed_out|output|output_layer|head)$", "lm_head"),
    (r"(?:^|\.)(?:shared_experts?|shared_mlp)\.gate$|shared_expert_gate$", "router"),
    (r"(?:^|\.)(?:shared_experts?|shared_mlp)(?:\.|$)", "shared_expert"),
    (r"experts?(?:\.\d+)?\.(?:w\d|\w+_proj\w*|mlp\.\w+|dense_\w+|v\d|linear\w*|fc\d)$", "experts"),
    (r"(?:^|\.)(?:experts|local_experts|switch_mlp)\.", "experts"),
    (r"(?:^|\.)(?:gate|router|wg|router\.\w+|gate\.\w+|e_score_correction_bias|expert_bias)$", "router"),
    (r"(?:^|\.)(?:indexer)\.", "replicated"),
    (r"(?:^|\.)(?:q_a_proj|kv_a_proj_with_mqa|kv_a_proj|fused_qkv_a_proj\w*|wq_a|wkv)$", "replicated"),
    (r"(?:^|\.)(?:qkv_proj|query_key_value|Wqkv|c_attn|wqkv|qkv|in_proj_qkv_attn)$", "qkv"),
    (r"(?:^|\.)(?:k_proj|v_proj|wk|wv)$|(?:attn|attention|mixer)\.(?:key|value)$", "kv_proj"),
    (r"(?:^|\.)(?:linear_attn|mamba|mixer|ssm|conv|short_conv|delta|kda)\.(?:\w*norm\w*)$", "norm"),
    (
        r"(?:^|\.)(?:linear_attn|mamba|mixer|ssm|conv|short_conv|kda)"
        r"\.(?:(?:in|out|x|dt|b|c)_proj\w*|conv1d|conv|A_log|D|dt_bias|\w+_conv1d)$",
        "state",
    ),
    (r"(?:^|\.)(?:A_log|dt_bias|D|conv1d|in_proj\w*|x_proj|dt_proj|\w_conv1d)$", "state"),
    (r"(?:^|\.)(?:\w*norm\w*|ln_\w+|ln\d?|layer_scalar|\w*layernorm\w*|norm\d?|\w*_scale|final_layer_norm)$", "norm"),
    (r"(?:attn|attention)\.(?:output\.dense|\w+)$", "attention"),
    (r"(?:^|\.)(?:q_b_proj|kv_b_proj|q_proj|o_proj|wq|wo|wq_b|wo_a|wo_b|out_proj|g_proj|dense)$", "attention"),
    (r"(?:^|\.)(?:mlp|feed_forward|ffn|block_sparse_moe|moe|intermediate|output|fc\d|linear_fc\d)\b", "mlp"),
    (r"(?:^|\.)(?:gate_proj|up_proj|down_proj|gate_up_proj|w1|w2|w3|c_fc|fc1|fc2|dense_h_to_4h|dense_4h_to_h)$", "mlp"),
)


class Place(Struct, frozen=True):
    """Where a tensor belongs: part ("" for the language model), kind, layer (-1 outside any stack)."""

    part: str
    kind: str
    layer: int

    @property
    def role(self) -> str:
        return f"{self.part}.{self.kind}" if self.part else self.kind


def place(module: str, suffix: str, num_layers: int | None) -> Place:
    """The place of a module's tensor. A layer at or beyond `num_layers` of the stack is the draft head's."""
    found = LAYER.search(module)
    layer = int(found[1]) if found else -1
    part, kind = _sort(DIGITS.sub("0", module), suffix)
    if not part and num_layers is not None and layer >= num_layers:
        part = "mtp"
    return Place(part, kind, layer)


@lru_cache(maxsize=4096)
def _sort(module: str, suffix: str) -> tuple[str, str]:
    """Part and kind of a module, its numbers all made 0: layers and experts of a model share their names."""
    part = next((p for pattern, p in PARTS if re.search(pattern, module + ".")), "")
    if suffix == "bias" and not part and module.endswith((".gate", ".router")):
        return part, "router"
    name = f"{module}.{suffix}" if _bare(suffix) else module
    kind = next((k for pattern, k in KINDS if re.search(pattern, name)), "other")
    if part in ("vision", "audio") and kind in ("embedding", "lm_head", "router", "experts"):
        kind = "other"
    return part, kind


def _bare(suffix: str) -> bool:
    """A parameter that hangs on its module without `.weight` (A_log, dt_bias, gate_up_proj, position_embedding)."""
    return not (suffix in PLAIN or suffix in AUX or suffix in PACKED or suffix in ("", "scales", "scale", "packed"))
