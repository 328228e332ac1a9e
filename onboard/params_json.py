"""Mistral's params.json -> the mapping a config.json would hold, so that one table of fields reads both.

Keys, defaults and architectures: vLLM 0.33 `transformers_utils/configs/mistral.py`. `model_type` is left as the file
has it: no transformers class stands behind this dialect, so no class default may fill its gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOP = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "hidden_dim": "intermediate_size",
    "norm_eps": "rms_norm_eps",
    "tied_embeddings": "tie_word_embeddings",
    "max_seq_len": "max_position_embeddings",
}
MOE = {
    "num_experts": "num_experts",
    "num_experts_per_tok": "num_experts_per_tok",
    "expert_hidden_dim": "moe_intermediate_size",
    "num_shared_experts": "n_shared_experts",
    "first_k_dense_replace": "first_k_dense_replace",
    "route_every_n": "moe_layer_freq",
}


def to_config(params: Mapping[str, Any]) -> dict[str, Any]:
    """Rename what has another name in config.json; keep every other key as it is."""
    config = {TOP.get(key, key): value for key, value in params.items()}
    moe = params.get("moe")
    if isinstance(moe, Mapping):
        config.update({MOE[key]: value for key, value in moe.items() if key in MOE})
    config.setdefault("tie_word_embeddings", False)
    if "vision_encoder" in params and "vision_config" not in config:
        config["vision_config"] = config.pop("vision_encoder")
    if isinstance(params.get("quantization"), Mapping):
        config["quantization_config"] = dict(params["quantization"])
    if "n_groups" in params and "n_heads" not in params:
        # mistral-inference 1.6 args.py MambaArgs, model in mamba.py: mamba_ssm's Mamba-2 with its own defaults
        config["ssm_cfg"] = {"layer": "Mamba2", "ngroups": config.pop("n_groups")}
        config.pop("model_type", None)
        config.setdefault("architectures", ["Mamba2ForCausalLM"])
    if "architectures" not in config:
        config["architectures"] = ["MixtralForCausalLM" if isinstance(moe, Mapping) else "MistralForCausalLM"]
    return config
