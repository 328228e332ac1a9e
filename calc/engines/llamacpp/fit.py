"""`--fit`: what llama.cpp changes of its own accord so that every card keeps its margin free.

Source: llama.cpp 0c1e57098 common/fit.cpp:178-360. Only the context length, where none was given, is recomputed here;
layers moved to the host are advice.
"""

from __future__ import annotations

from collections.abc import Callable

from calc.engines.llamacpp.memory import Footprint
from calc.engines.llamacpp.settings import PAD

FIT_CTX = 4096  # --fit-ctx: the shortest context it goes down to


def fitted_context(measure: Callable[[int], Footprint], longest: int, streams: int, budget: int) -> int:
    """The context length --fit would write: the model's where it fits, else interpolated and rounded down."""
    full = measure(longest)
    cards = range(full.placement.num_gpus)
    if not cards or all(full.total(c) <= budget for c in cards):
        return longest
    shortest = FIT_CTX * streams
    if longest <= shortest:
        return longest
    least = measure(shortest)
    used_full, used_least = (sum(f.total(c) for c in cards) for f in (full, least))
    target = budget * len(cards)
    if used_full <= target and len(cards) > 1:
        return longest
    if len(cards) > 1:
        layers = sum(d >= 0 for d in full.placement.layers) or 1
        target -= (len(cards) + 1) * (sum(full.weights[c] for c in cards) // layers) // 2
    if target <= used_least:
        return shortest
    length = shortest + (longest - shortest) * (target - used_least) // max(1, used_full - used_least)
    step = PAD * streams
    return max(length - length % step, shortest)


def longest_context(measure: Callable[[int], Footprint], most: int, budget: int, streams: int = 1) -> int:
    """The largest context, in steps of 256 a stream, that leaves every card its margin; 0 where none does."""

    def fits(steps: int) -> bool:
        held = measure(steps * PAD * streams)
        cards = range(held.placement.num_gpus) if held.placement.num_gpus else (held.fullest,)
        return all(held.total(c) <= budget for c in cards)

    high = max(1, most // (PAD * streams))
    if fits(high):
        return most if high * PAD * streams <= most else high * PAD * streams
    if not fits(1):
        return 0
    low = 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * PAD * streams
