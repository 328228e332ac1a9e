"""Labels of layers (transformers' layer type names) that recurrent, hybrid, compressed and looped stacks use."""

from __future__ import annotations

FULL = "full_attention"
SLIDING = "sliding_attention"
CHUNKED = "chunked_attention"
INDEXED = "indexed_attention"
LINEAR = "linear_attention"
CONV = "conv"
HYBRID = "hybrid"
HYBRID_SLIDING = "hybrid_sliding"
MOE = "moe"
MLP = "mlp"
COMPRESSED_SPARSE = "compressed_sparse_attention"
HEAVILY_COMPRESSED = "heavily_compressed_attention"
YOCO_CROSS = "yoco_cross"
WINDOW_K = "sliding_shared_key_value"  # one tensor for K and V (DeepSeek-V4)
KEPT_HIDDEN_STATES = "segment_memory"  # hidden states of earlier tokens instead of K and V
