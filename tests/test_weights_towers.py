"""Towers and projectors by rule against what is left of published checkpoints without their language models."""

from __future__ import annotations

from typing import Any

import pytest

from onboard.weights.towers import towers

CLIP = {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "image_size": 336, "patch_size": 14}  # fmt: skip
SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
          "num_attention_heads": 16, "patch_size": 14, "image_size": 896}  # fmt: skip
PIXTRAL = {"model_type": "pixtral", "head_dim": 64, "hidden_size": 1024, "image_size": 1540, "intermediate_size": 4096,
           "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14}  # fmt: skip
QWEN_25 = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": 3584, "num_heads": 16,
           "in_chans": 3, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}  # fmt: skip
QWEN_3 = {"model_type": "qwen3_vl", "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
          "out_hidden_size": 4096, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
          "num_position_embeddings": 2304, "deepstack_visual_indexes": [8, 16, 24]}  # fmt: skip
GLM = {"model_type": "glm4v", "depth": 24, "hidden_size": 1536, "intermediate_size": 13696, "out_hidden_size": 4096,
       "num_heads": 12, "patch_size": 14, "image_size": 336, "spatial_merge_size": 2,
       "temporal_patch_size": 2}  # fmt: skip
MOON = {**SIGLIP, "model_type": "moonvit", "init_pos_emb_height": 64, "init_pos_emb_width": 64}
WHISPER = {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 20,
           "num_mel_bins": 128, "max_source_positions": 1500, "model_type": "voxtral_encoder"}  # fmt: skip

PUBLISHED: list[tuple[str, dict[str, Any], int, float]] = [  # composite, its parts, text width, millions
    ("llava", {"vision_config": CLIP}, 4096, 325.0),
    ("llava", {"vision_config": {**PIXTRAL, "patch_size": 16, "image_size": 1024}}, 5120, 434.9),
    ("mistral3", {"vision_config": PIXTRAL, "spatial_merge_size": 2}, 5120, 439.0),
    ("llava_onevision", {"vision_config": {**SIGLIP, "num_hidden_layers": 26, "image_size": 384}}, 3584, 414.7),
    ("gemma3", {"vision_config": SIGLIP}, 2560, 419.8),
    ("idefics3", {"vision_config": {**SIGLIP, "model_type": "idefics3_vision", "image_size": 364}}, 4096, 431.7),
    (
        "aya_vision",
        {"vision_config": {**SIGLIP, "image_size": 364}, "alignment_intermediate_size": 28672},
        4096,
        603.6,
    ),
    ("qwen2_5_vl", {"vision_config": QWEN_25}, 3584, 676.5),
    ("qwen3_vl", {"vision_config": QWEN_3}, 4096, 576.4),
    ("glm4v", {"vision_config": GLM}, 4096, 892.7),
    ("kimi_vl", {"vision_config": MOON}, 2048, 447.6),
    ("minicpmv", {"vision_config": {**SIGLIP, "model_type": "siglip", "image_size": 980}}, 3584, 483.6),
    ("voxtral", {"audio_config": WHISPER}, 3072, 661.9),
]


@pytest.mark.parametrize(("composite", "config", "text", "millions"), PUBLISHED)
def test_a_tower_counts_as_published(composite: str, config: dict[str, Any], text: int, millions: float) -> None:
    made, known = towers({"model_type": composite, **config}, text)
    assert known
    assert sum(m.elements for m in made) / 10**6 == pytest.approx(millions, rel=0.008)


def test_a_towers_own_class_fills_what_its_config_leaves_out() -> None:
    stated, _ = towers({"model_type": "mllama", "vision_config": {"model_type": "mllama_vision_model"}}, 4096)
    named = {m.module: m for m in stated}
    assert named["vision.attn"].columns == 1280 and named["vision.attn"].copies == 40
