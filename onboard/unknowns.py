"""What a profile does not know, and what would settle it. Computed from the profile; nothing here is stored twice."""

from __future__ import annotations

from onboard.errors import Caution
from onboard.profile import Profile
from onboard.states import UnknownState


def unknowns(profile: Profile) -> tuple[Caution, ...]:
    """One caution for each thing that is missing or assumed, with the step that settles it."""
    found: list[Caution] = []
    if not profile.weights:
        found.append(
            Caution(
                "weights-unknown",
                "weights",
                "no file with weights was listed; add the repository itself, or state weights.<name> in an override",
            )
        )
    if profile.fact("max_model_len") is None:
        found.append(
            Caution(
                "context-unknown", "facts.max_model_len", "no context length is stated; override facts.max_model_len"
            )
        )
    for spec, indices in profile.cache_groups:
        if isinstance(spec, UnknownState):
            message = "the sizes of this state are stated nowhere; state the layers in an override"
            found.append(Caution("state-unknown", f"layers[{indices[0]}]", message))
    for drafter in profile.drafters:
        if drafter.caches_unknown:
            message = (
                "its own caches are not known; give its repository as --drafter, or state its layers in an override"
            )
            found.append(Caution("drafter-caches-unknown", f"drafters.{drafter.name}", message))
    for name, fact in sorted(profile.facts.items()):
        if fact.origin == "class-default" and fact.value not in (False, None):
            found.append(
                Caution(
                    "class-default",
                    f"facts.{name}",
                    f"not in the file; {fact.where} gives {_short(fact.value)}; a boot log or the headers confirm it",
                )
            )
    return tuple(found)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
