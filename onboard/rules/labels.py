"""The words for what a layer is: transformers' layer type names, and other names that configs use for them."""

from __future__ import annotations

from onboard.rules.recurrent_labels import CHUNKED, FULL, INDEXED, KEPT_HIDDEN_STATES, LINEAR, MLP, SLIDING

CROSS, SPARSE_FULL, MEMORY = "cross_attention", "minimax_m3_sparse", KEPT_HIDDEN_STATES
NONE = MLP  # a layer without attention or state

# Other names that published files use; `pattern_words.RENAMES` has those of recurrent stacks.
SYNONYMS = {
    "global": FULL,
    "global_attention": FULL,
    "sliding": SLIDING,
    "sliding_window_attention": SLIDING,
    "local": SLIDING,
    "local_attention": SLIDING,
    "swa": SLIDING,
    "deepseek_sparse_attention": INDEXED,
    "qwen_sparse_attention": INDEXED,
    "reference_sliding_attention": FULL,  # keeps the whole prompt; only generated tokens are ringed
}

__all__ = [
    "CHUNKED", "CROSS", "FULL", "INDEXED", "LINEAR", "MEMORY", "NONE", "SLIDING", "SPARSE_FULL", "SYNONYMS",
]  # fmt: skip
