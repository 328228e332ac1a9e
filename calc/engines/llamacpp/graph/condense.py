"""A stack that repeats itself, cut down to what sets the peak: the allocator returns to a state after some periods.

After how many is not known beforehand, so a peak counts only where two cuts by different numbers of periods agree.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

KEPT, KEPT_IN_PIPELINES = 2, 6  # periods of each kind that stay at least; copies of inputs take longer to settle
CUTS = (2, 3)  # periods that go at a time, in one cut and the other
LONGEST_PERIOD = 12


def condensed(keys: Sequence[Hashable], dropped: int, least: int = KEPT) -> tuple[int, ...]:
    """Indices of the layers that stay. Layers with equal keys are alike in widths, device and everything else."""
    numbers: dict[Hashable, int] = {}
    kinds = [numbers.setdefault(key, len(numbers)) for key in keys]
    kept = list(range(len(keys)))
    for period in range(1, LONGEST_PERIOD + 1):
        size, gone = (least + dropped) * period, dropped * period
        start = 0
        while start + size <= len(kinds):
            if kinds[start : start + size - period] == kinds[start + period : start + size]:
                del kept[start + size - gone : start + size], kinds[start + size - gone : start + size]
            else:
                start += 1
    return tuple(kept)
