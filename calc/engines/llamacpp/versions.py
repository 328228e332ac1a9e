"""Versions of llama.cpp whose rules are known, by month, and what differed: how a window cache is padded.

Source: pull requests 13194 (May 2025), 13833 and 14363 (June and July 2025), 16812 (28 October 2025) and 17046
(6 November 2025). A version is a month (`llamacpp@2025.10`); without one the newest rules
hold, of commit 0c1e57098 (October 2026).
"""

from __future__ import annotations

from onboard.errors import UnknownEngine

NEWEST, NEWEST_TEXT = (2026, 10), "0.5.0-dev (0c1e57098, 2026.10)"
OLDEST = (2025, 6)
# first month of each rule -> cells a window cache is rounded up to
_SWA_PADS: tuple[tuple[tuple[int, int], int], ...] = (((2025, 6), 256), ((2025, 10), 1), ((2025, 11), 256))


def version_of(spec: str | None) -> tuple[tuple[int, int], str]:
    """Numbers and text of a version. Raises UnknownEngine where it is not a month from OLDEST on."""
    if spec is None:
        return NEWEST, NEWEST_TEXT
    parts = spec.replace("-", ".").split(".")
    if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit():
        month = int(parts[0]), int(parts[1])
        if OLDEST <= month <= (2100, 12) and 1 <= month[1] <= 12:
            return month, f"{month[0]}.{month[1]:02d}"
    raise UnknownEngine(
        f"no rules for llama.cpp {spec!r}",
        path="--engine",
        value=spec,
        hint="a month from 2025.06, as in llamacpp@2025.10, or no version for the newest",
    )


def swa_pad(version: tuple[int, ...]) -> int:
    """What the window cache's cells are padded to."""
    return next(pad for first, pad in reversed(_SWA_PADS) if version >= first)
