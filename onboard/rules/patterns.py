"""What each layer is: one label a layer, from whatever field says so.

Each reader answers for one way of writing a pattern, or None where its field is absent; the first answer wins.
Labels are transformers' layer type names.
"""

from __future__ import annotations

from collections.abc import Callable

from onboard.errors import LayerCountMismatch, WindowMissing
from onboard.facts import Facts
from onboard.rules.counts import layer_count
from onboard.rules.default_patterns import default_labels
from onboard.rules.recurrent_patterns import LIST_READERS, RECURRENT_READERS, named

FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"


def labels(facts: Facts) -> tuple[str, ...]:
    """One label a layer. Raises LayerCountMismatch where a list does not have one entry a layer."""
    count = layer_count(facts)
    for reader in READERS:
        answer = reader(facts, count)
        if answer is not None:
            if len(answer) != count:
                raise LayerCountMismatch(
                    f"{len(answer)} layer kinds for {count} layers",
                    path=facts.prefix + "layer_types", value=len(answer), hint="one entry a layer",
                )
            return answer
    return (FULL,) * count


def _layer_types(facts: Facts, count: int) -> tuple[str, ...] | None:
    types = facts.get("layer_types") if facts.has("layer_types") else None
    return None if types is None else named(facts, types, "layer_types")


def _full_attention_interval(facts: Facts, count: int) -> tuple[str, ...] | None:
    """Layer i is full attention when (i + 1) mod n is 0 (Qwen3-Next class, transformers 5.24)."""
    every = facts.get("full_attention_interval")
    return None if every is None else tuple(FULL if (i + 1) % every == 0 else LINEAR for i in range(count))


def _window_switch(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`use_sliding_window` with `max_window_layers`: layers from that index on slide (Qwen2/Qwen3)."""
    switch = facts.get("use_sliding_window")
    if switch is None:
        return None
    window = facts.get("sliding_window")
    if not switch or window is None:
        return (FULL,) * count
    first = facts.get("max_window_layers")
    first = count if first is None else first
    return tuple(SLIDING if i >= first else FULL for i in range(count))


def _window_pattern(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`sliding_window_pattern` n: every n-th layer is full (Gemma 3, Cohere 2)."""
    every = facts.get("sliding_window_pattern")
    if not isinstance(every, int) or isinstance(every, bool):
        return None
    if facts.get("sliding_window") is None:
        raise WindowMissing("layers slide, but no sliding_window is stated", path=facts.prefix + "sliding_window")
    return tuple(FULL if (i + 1) % every == 0 else SLIDING for i in range(count))


def _window_everywhere(facts: Facts, count: int) -> tuple[str, ...] | None:
    """A window with no pattern and no switch: every layer slides (Mistral v0.1)."""
    return (SLIDING,) * count if facts.get("sliding_window") else None


def _chunks(facts: Facts, count: int) -> tuple[str, ...] | None:
    return (CHUNKED,) * count if facts.get("attention_chunk_size") else None


READERS: tuple[Callable[[Facts, int], tuple[str, ...] | None], ...] = (
    *LIST_READERS,
    _layer_types,
    *RECURRENT_READERS,
    _full_attention_interval,
    default_labels,
    _window_switch,
    _window_pattern,
    _window_everywhere,
    _chunks,
)
