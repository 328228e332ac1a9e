"""The units, and bytes -> text with the unit always printed."""

from __future__ import annotations

GIB = 2**30
MIB = 2**20
GB = 10**9


def gib(size: int | float) -> str:
    """`11.07 GiB`; MiB below a tenth of a GiB, bytes below a MiB."""
    if abs(size) >= GIB / 10 or size == 0:
        return f"{size / GIB:.2f} GiB"
    return f"{size / MIB:.1f} MiB" if abs(size) >= MIB else f"{size:,.0f} B"


def gb(size: int | float) -> str:
    """`8.59 GB` (10^9)."""
    return f"{size / GB:.2f} GB"
