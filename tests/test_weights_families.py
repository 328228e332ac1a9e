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
]


@pytest.mark.parametrize(("model_type", "changes", "millions"), PUBLISHED)
def test_a_family_counts_as_published(model_type: str, changes: dict[str, Any], millions: float) -> None:
    variant = by_rule(profile_of({"model_type": model_type, **changes}))
    assert (variant.num_parameters or 0) / 10**6 == pytest.approx(millions, rel=0.008)
    assert "by the rule for a Llama" not in variant.where
