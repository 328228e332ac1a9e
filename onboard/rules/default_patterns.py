"""The pattern that a class builds where the file states none: one entry a model type, with its source.

All from transformers 5.24 `models/<model_type without _text>/configuration_*.py`, `__post_init__`.
"""

from __future__ import annotations

from collections.abc import Callable

from onboard.facts import Facts
from onboard.rules.recurrent_labels import (
    COMPRESSED_SPARSE,
    CONV,
    FULL,
    HEAVILY_COMPRESSED,
    HYBRID,
    HYBRID_SLIDING,
    INDEXED,
    LINEAR,
    MLP,
    MOE,
    SLIDING,
)

Pattern = Callable[[int], tuple[str, ...]]


def default_labels(facts: Facts, count: int) -> tuple[str, ...] | None:
    """The class's own pattern, with a caution that the file does not state it."""
    model_type = facts.model_type
    pattern = DEFAULT_PATTERNS.get(model_type)
    if pattern is None:
        return None
    facts.caution("defaulted-field", "layer_types", f"not stated; the pattern that {model_type} builds")
    return pattern(count)


def _every(n: int, last: str, others: str) -> Pattern:
    """`last` on every n-th layer."""
    return lambda count: tuple(others if (i + 1) % n else last for i in range(count))


def _all(label: str) -> Pattern:
    return lambda count: (label,) * count


def _cycle(*labels: str) -> Pattern:
    return lambda count: tuple(labels[i % len(labels)] for i in range(count))


def _olmo_hybrid(count: int) -> tuple[str, ...]:
    """Every fourth layer is attention; where there are fewer than four, the last."""
    labels = _every(4, FULL, LINEAR)(count)
    return labels if FULL in labels else (*labels[:-1], FULL)


def _lfm3(count: int) -> tuple[str, ...]:
    return tuple(FULL if i % 4 == 2 else SLIDING if i and i % 4 == 0 else CONV for i in range(count))


def _kimi_linear(count: int) -> tuple[str, ...]:
    """Unlike the published files, the class's own pattern starts with four recurrent layers."""
    return tuple(FULL if i and i % 4 == 0 else LINEAR for i in range(count))


def _zamba2(count: int) -> tuple[str, ...]:
    block = (LINEAR,) * 5 + (HYBRID,)
    tail = (LINEAR,) * 4 + (HYBRID,) + (LINEAR,) * 3 + (HYBRID,) + (LINEAR,) * 2
    return ((LINEAR,) + block * 7 + tail)[:count]


def _deepseek_v4(count: int) -> tuple[str, ...]:
    later = tuple(COMPRESSED_SPARSE if i % 2 else HEAVILY_COMPRESSED for i in range(max(count - 2, 0)))
    return (HEAVILY_COMPRESSED,) * min(count, 2) + later


DEFAULT_PATTERNS: dict[str, Pattern] = {
    "qwen3_next": _every(4, FULL, LINEAR),
    "qwen3_5": _every(4, FULL, LINEAR),
    "qwen3_5_text": _every(4, FULL, LINEAR),
    "qwen3_5_moe": _every(4, FULL, LINEAR),
    "qwen3_5_moe_text": _every(4, FULL, LINEAR),
    "qwen4_exp": _every(4, INDEXED, LINEAR),
    "qwen4_exp_text": _every(4, INDEXED, LINEAR),
    "olmo_hybrid": _olmo_hybrid,
    "lara_mini": _cycle(LINEAR, SLIDING, LINEAR, FULL, SLIDING),
    "bamba": _all(LINEAR),
    "granitemoehybrid": _all(LINEAR),
    "falcon_h1": _all(HYBRID),
    "nemotron_h": lambda count: (LINEAR, MOE, FULL, MLP)[:count],
    "zamba2": _zamba2,
    "kimi_linear": _kimi_linear,
    "glm5_next": _every(4, INDEXED, LINEAR),
    "glm5_next_text": _every(4, INDEXED, LINEAR),
    "minimax": _cycle(FULL, LINEAR),
    "lfm2": _all(FULL),
    "lfm2_moe": _all(FULL),
    "lfm3": _lfm3,
    "zaya": _all(HYBRID),
    "inkling_text": _every(6, HYBRID, HYBRID_SLIDING),
    "inkling2_text": _every(6, HYBRID, HYBRID_SLIDING),
    "inkling2_loop_text": _every(6, HYBRID, HYBRID_SLIDING),
    "deepseek_v4": _deepseek_v4,
    "dory": _every(4, FULL, SLIDING),
}
