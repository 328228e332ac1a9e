"""Label -> caches, for every label that is not attention alone. Part of `geometry.BUILDERS`."""

from __future__ import annotations

from collections.abc import Callable

from onboard.facts import Facts
from onboard.layers import CacheSpec
from onboard.rules.compressed import compressed_sparse, heavily_compressed, window_only
from onboard.rules.hybrid import hybrid_caches, hybrid_sliding_caches, linear_caches, yoco_cross_caches
from onboard.rules.recurrent import short_conv_caches
from onboard.rules.recurrent_labels import (
    COMPRESSED_SPARSE,
    CONV,
    HEAVILY_COMPRESSED,
    HYBRID,
    HYBRID_SLIDING,
    LINEAR,
    MLP,
    MOE,
    WINDOW_K,
    YOCO_CROSS,
)


def _nothing(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """A layer without attention or state."""
    return ()


STATE_BUILDERS: dict[str, Callable[[Facts, int], tuple[CacheSpec, ...]]] = {
    LINEAR: linear_caches,
    CONV: short_conv_caches,
    HYBRID: hybrid_caches,
    HYBRID_SLIDING: hybrid_sliding_caches,
    COMPRESSED_SPARSE: compressed_sparse,
    HEAVILY_COMPRESSED: heavily_compressed,
    WINDOW_K: window_only,
    YOCO_CROSS: yoco_cross_caches,
    MOE: _nothing,
    MLP: _nothing,
}
