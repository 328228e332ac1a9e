"""A profile that is used as a draft -> what it adds to the model that it drafts for."""

from __future__ import annotations

from onboard.profile import DrafterRef, Profile
from onboard.rules.drafters import DRAFT_MARKS, NAME_MARKS


def drafter_from_profile(draft: Profile, weights: str | None = None) -> DrafterRef:
    """The draft's own layers and bytes. `weights` names the variant, else its default or only one.

    The method is the config's own (`draft_method`), else what the repository's name says to vLLM, else a plain model.
    A draft that reads its target's cache has layers that keep nothing.
    """
    wanted = weights or draft.default_weights
    variant = next((w for w in draft.weights if wanted is None or w.name == wanted), None)
    return DrafterRef(
        name=draft.id,
        method=draft_method(draft),
        num_bytes=None if variant is None else variant.num_bytes,
        layers=tuple(layer for layer in draft.layers if layer.caches and "shared" not in layer.kinds()),
        source=draft.source.name,
    )


def draft_method(draft: Profile) -> str:
    """How the draft works: `eagle`, `eagle3`, `dflash`, ..., `draft_model` for an ordinary small model."""
    stated = draft.fact("draft_method")
    if isinstance(stated, str) and any(mark.method == stated for mark in DRAFT_MARKS):
        return stated
    names = f"{draft.id} {draft.source.name}".lower()
    return next((method for part, method in NAME_MARKS if part in names), "draft_model")
