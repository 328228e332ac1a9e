"""Layer indices as people read them: `0-2, 4-6`, or with a step `3-63/4`; and back."""

from __future__ import annotations

from collections.abc import Sequence

from onboard.errors import BadProfile

MAX_INDEX = 100_000


def to_text(indices: Sequence[int]) -> str | int:
    """Ascending indices as ranges; a single one as the number. A step is used where three or more are evenly apart."""
    if len(indices) == 1:
        return indices[0]
    parts: list[str] = []
    at = 0
    while at < len(indices):
        step, end = 1, _run(indices, at, 1)
        if end == at and at + 1 < len(indices):
            wide = indices[at + 1] - indices[at]
            stop = _run(indices, at, wide)
            if stop - at >= 2:
                step, end = wide, stop
        first, last = indices[at], indices[end]
        parts.append(str(first) if first == last else f"{first}-{last}" + (f"/{step}" if step > 1 else ""))
        at = end + 1
    return ", ".join(parts)


def _run(indices: Sequence[int], at: int, step: int) -> int:
    while at + 1 < len(indices) and indices[at + 1] - indices[at] == step:
        at += 1
    return at


def parse(text: object, path: str) -> tuple[int, ...]:
    """Indices of a range text. Raises BadProfile where it is not one."""
    if isinstance(text, int) and not isinstance(text, bool) and 0 <= text < MAX_INDEX:
        return (text,)
    if not isinstance(text, str) or len(text) > 10_000:
        raise BadProfile("not a range of layers", path=path, value=text, hint="write 0-2, 4-6 or 3-63/4")
    found: list[int] = []
    for part in text.split(","):
        span, _, step_text = part.strip().partition("/")
        low_text, dash, high_text = span.partition("-")
        numbers = [low_text, high_text if dash else low_text, step_text or "1"]
        if not all(n.isascii() and n.isdigit() and len(n) <= 6 for n in numbers):
            raise BadProfile("not a range of layers", path=path, value=text, hint="write 0-2, 4-6 or 3-63/4")
        low, high, step = (int(n) for n in numbers)
        if not (0 <= low <= high < MAX_INDEX and step >= 1):
            raise BadProfile("not a range of layers", path=path, value=text, hint="write 0-2, 4-6 or 3-63/4")
        found.extend(range(low, high + 1, step))
    if len(set(found)) != len(found):
        raise BadProfile("names a layer twice", path=path, value=text)
    return tuple(sorted(found))
