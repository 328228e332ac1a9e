"""How many tokens a sliding layer sees."""

from __future__ import annotations

from onboard.errors import WindowMissing
from onboard.facts import Facts, whole


def window(facts: Facts, index: int = 0) -> int | None:
    """The window of a layer, or None where none is stated (0 and -1 mean none).

    `local_attention` is the width of a band around the token, of which the past half counts (ModernBERT decoder,
    transformers 5.24 configuration_modernbert_decoder.py).
    """
    stated = facts.layer("sliding_window", index)
    path = facts.path("sliding_window")
    if isinstance(stated, (list, tuple)):
        stated = stated[index] if index < len(stated) else None
    if stated is not None:
        return whole(stated, path, -1, 2**40) if whole(stated, path, -1, 2**40) > 0 else None
    if facts.stated_null("sliding_window"):
        return None
    band = facts.get("local_attention")
    return facts.record("sliding_window", band // 2, "local_attention / 2") if band and band > 1 else None


def need_window(facts: Facts, index: int) -> int:
    """The window of a layer that slides. Raises WindowMissing where none is stated."""
    found = window(facts, index)
    if found is None:
        raise WindowMissing(
            f"layer {index} slides, but no sliding_window is stated",
            path=facts.prefix + "sliding_window", hint="state the window",
        )  # fmt: skip
    return found
