"""The smallest config that derives, for tests of what surrounds a derivation."""

from __future__ import annotations

from typing import Any

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "dtype": "bfloat16",
    "tie_word_embeddings": True,
}
