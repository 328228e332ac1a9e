"""Anchors by model: one key for the many spellings of a name, and how many anchors speak about each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import mean

from calc.calibration_record import Record
from calc.estimates.fit import MIN_ANCHORS
from onboard.anchor_file import Anchor

STEP = 2**24  # an error is told to 16 MiB: more digits would change with every block


def key_of(model: str) -> str:
    """A model's name as the catalogue spells an id: the repo's own name in lower case."""
    return model.rpartition("/")[2].strip().lower()


def anchored(anchors: Sequence[Anchor], records: Sequence[Record]) -> dict[str, tuple[int, int | None]]:
    """For each model: how many anchors, and the mean absolute error of what was predicted for the cache (or the
    peak).
    """
    counts: dict[str, set[str]] = defaultdict(set)
    misses: dict[str, list[int]] = defaultdict(list)
    for anchor in anchors:
        counts[key_of(anchor.model)].add(anchor.id)
    for record in records:
        if record.quantity in ("kv_available", "reserved", "activation"):
            misses[record.model].append(abs(record.residual_bytes))
    return {
        m: (len(ids), STEP * round(mean(misses[m]) / STEP) if misses[m] else None) for m, ids in sorted(counts.items())
    }


def status(num_anchors: int) -> str:
    """`calibrated`, or `calibration pending` below MIN_ANCHORS."""
    return "calibrated" if num_anchors >= MIN_ANCHORS else "calibration pending"
