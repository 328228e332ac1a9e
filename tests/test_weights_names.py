"""Tensor names as published -> part, kind and layer; and headers and rules tell the same of one model."""

from __future__ import annotations

from typing import Any

import pytest

from calc.shard import Split, fullest_stage, served
from onboard.weights.groups import geometry_of, group_tensors
from onboard.weights.names import place
from onboard.weights.quant import split_name
from onboard.weights.safetensors_header import Tensor
from tests import checkpoints as c
from tests.test_weights_hub import LLAMA, MOE, TIED, VLM, VLM_TENSORS
from tests.weights_rule import by_rule, profile_of

NAMES: dict[str, tuple[str, int]] = {
    "model.embed_tokens.weight": ("embedding", -1),
    "model.language_model.embed_tokens.weight": ("embedding", -1),
    "transformer.wte.weight": ("embedding", -1),
    "backbone.embeddings.weight": ("embedding", -1),
    "model.language_model.embed_tokens_per_layer.weight": ("embedding", -1),
    "lm_head.weight": ("lm_head", -1),
    "output.weight": ("lm_head", -1),
    "model.layers.3.self_attn.q_proj.weight": ("attention", 3),
    "model.layers.3.self_attn.k_proj.weight": ("kv_proj", 3),
    "model.layers.3.self_attn.v_proj.bias": ("kv_proj", 3),
    "model.layers.3.self_attn.o_proj.qweight": ("attention", 3),
    "model.layers.3.self_attn.qkv_proj.weight": ("qkv", 3),
    "transformer.h.7.attn.c_attn.weight": ("qkv", 7),
    "gpt_neox.layers.7.attention.query_key_value.weight": ("qkv", 7),
    "gpt_neox.layers.7.attention.dense.weight": ("attention", 7),
    "gpt_neox.layers.7.mlp.dense_h_to_4h.weight": ("mlp", 7),
    "transformer.h.7.mlp.c_proj.weight": ("mlp", 7),
    "model.layers.3.self_attn.q_norm.weight": ("norm", 3),
    "model.layers.3.input_layernorm.weight": ("norm", 3),
    "model.norm.weight": ("norm", -1),
    "model.layers.3.mlp.gate_proj.weight": ("mlp", 3),
    "model.layers.3.mlp.gate.weight": ("router", 3),
    "model.layers.3.mlp.gate.e_score_correction_bias": ("router", 3),
    "model.layers.3.block_sparse_moe.gate.weight": ("router", 3),
    "model.layers.3.block_sparse_moe.experts.5.w1.weight": ("experts", 3),
    "model.layers.3.mlp.experts.17.down_proj.weight_scale_inv": ("experts", 3),
    "model.layers.3.mlp.experts.gate_up_proj_blocks": ("experts", 3),
    "model.layers.3.mlp.experts.gate_up_proj_bias": ("experts", 3),
    "model.language_model.layers.3.mlp.experts.gate_up_proj": ("experts", 3),
    "model.layers.3.mlp.shared_experts.up_proj.weight": ("shared_expert", 3),
    "model.layers.3.mlp.shared_expert_gate.weight": ("router", 3),
    "model.layers.3.feed_forward.shared_expert.up_proj.weight": ("shared_expert", 3),
    "model.layers.3.self_attn.q_a_proj.weight": ("replicated", 3),
    "model.layers.3.self_attn.kv_a_proj_with_mqa.weight": ("replicated", 3),
    "model.layers.3.self_attn.q_b_proj.weight": ("attention", 3),
    "model.layers.3.self_attn.kv_b_proj.weight": ("attention", 3),
    "model.layers.3.self_attn.indexer.wq_b.weight": ("replicated", 3),
    "model.layers.3.linear_attn.in_proj_qkvz.weight": ("state", 3),
    "model.layers.3.linear_attn.in_proj_qkv.weight_packed": ("state", 3),
    "model.layers.3.linear_attn.A_log": ("state", 3),
    "model.layers.3.linear_attn.conv1d.weight": ("state", 3),
    "model.layers.3.linear_attn.norm.weight": ("norm", 3),
    "model.layers.3.linear_attn.out_proj.weight": ("state", 3),
    "backbone.layers.3.mixer.in_proj.weight": ("state", 3),
    "backbone.layers.3.mixer.conv1d.bias": ("state", 3),
    "backbone.layers.3.mixer.dt_bias": ("state", 3),
    "backbone.layers.3.mixer.q_proj.weight": ("attention", 3),
    "backbone.layers.3.mixer.k_proj.weight": ("kv_proj", 3),
    "backbone.layers.3.mixer.up_proj.weight": ("mlp", 3),
    "backbone.layers.3.mixer.gate.weight": ("router", 3),
    "backbone.layers.3.mixer.experts.0.up_proj.weight": ("experts", 3),
    "backbone.layers.3.norm.weight": ("norm", 3),
    "model.layers.3.mamba.x_proj.weight": ("state", 3),
    "model.layers.3.conv.in_proj.weight": ("state", 3),
    "model.layers.3.feed_forward.w1.weight": ("mlp", 3),
    "model.visual.blocks.5.attn.qkv.weight": ("vision.qkv", 5),
    "visual.merger.mlp.0.weight": ("vision.mlp", -1),
    "vision_tower.transformer.layers.2.attention.k_proj.weight": ("vision.kv_proj", 2),
    "vision_model.encoder.layers.2.mlp.fc1.weight": ("vision.mlp", 2),
    "multi_modal_projector.linear_1.weight": ("vision.other", -1),
    "audio_tower.layers.2.fc1.weight": ("audio.mlp", 2),
    "mtp.layers.0.self_attn.q_proj.weight": ("mtp.attention", 0),
    "mtp.fc.weight": ("mtp.other", -1),
    "model.layers.61.eh_proj.weight": ("mtp.other", 61),
    "model.layers.61.mlp.experts.3.up_proj.weight": ("mtp.experts", 61),
    "talker.model.layers.3.mlp.up_proj.weight": ("talker.mlp", 3),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    module, suffix = split_name(name)
    found = place(module, suffix, 61)
    assert (found.role, found.layer) == NAMES[name]


MODELS: dict[str, tuple[dict[str, Any], list[c.Stored]]] = {
    "dense": (LLAMA, c.decoder(LLAMA)),
    "tied": (TIED, c.decoder(TIED)),
    "moe": (MOE, c.decoder(MOE, qk_norm=True)),
    "vlm": (VLM, VLM_TENSORS),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("split", [Split(), Split(tp=2), Split(tp=16), Split(tp=4, ep=4), Split(tp=2, pp=3)])
def test_headers_and_rules_agree(name: str, split: Split) -> None:
    config, stored = MODELS[name]
    profile = profile_of(config)
    read = group_tensors([Tensor(t.name, t.dtype, t.shape, t.size) for t in stored], geometry_of(profile))
    made = by_rule(profile).groups
    held = [fullest_stage(tuple(g for g in groups if served(g)), split, len(profile.layers)) for groups in (read, made)]
    assert held[0] == pytest.approx(held[1], rel=0.002)
