"""How far a profile can be trusted: derived, config-verified or calibrated. Computed, so that it cannot be claimed."""

from __future__ import annotations

import re
from typing import Any

from onboard.override_paths import SPENT_ON_LAYERS
from onboard.profile import Profile
from onboard.values import Struct

ANCHORS_NEEDED = 4
GEOMETRY = re.compile(
    SPENT_ON_LAYERS.pattern
    + r"|num_attention_heads|hidden_size|vocab_size|(moe_)?intermediate_size|num_experts.*|max_model_len"
    r"|num_mtp_layers|dtype"
)
GUESSED = ("defaulted-field", "class-default", "custom-config-class")


class Status(Struct, frozen=True):
    """`name`, the number of anchors, and why it is not the next one up."""

    name: str
    num_anchors: int
    because: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "num_anchors": self.num_anchors, "because": self.because}


def status_of(profile: Profile, num_anchors: int) -> Status:
    """The status a profile has earned.

    calibrated: at least four measured anchors of this very model. config-verified: read verbatim from a named source
    (a commit on the Hub, or a copy whose source.txt says verbatim), and no value of it a class default or an
    assumption. derived: anything less.
    """
    if num_anchors >= ANCHORS_NEEDED:
        return Status("calibrated", num_anchors, f"{num_anchors} anchors of this model")
    reason = _not_verbatim(profile)
    if reason:
        return Status("derived", num_anchors, reason)
    return Status("config-verified", num_anchors, f"{num_anchors} of {ANCHORS_NEEDED} anchors")


def _not_verbatim(profile: Profile) -> str:
    """The first reason why the profile is not config-verified, or nothing."""
    source = profile.source
    named = (source.kind == "hub" and source.revision) or source.read_from.rstrip(". ").endswith("verbatim")
    if not named:
        return "the config is not a verbatim copy from a named source"
    for name, fact in sorted(profile.facts.items()):
        if fact.origin == "class-default" and GEOMETRY.fullmatch(name):
            return f"{name} is a class default ({fact.where})"
    for warning in profile.warnings:
        if warning.kind in GUESSED:
            return f"{warning.where}: {warning.message}"
    return ""
