"""Weights on one card: what an engine divides, replicates or pads over TP / EP / PP, as rules on tensor groups."""

from __future__ import annotations

from calc.prediction import Resolved, Term
from onboard.errors import WeightsUnknown
from onboard.profile import Profile, WeightVariant


def chosen_variant(profile: Profile, name: str | None) -> WeightVariant:
    """The variant the plan names, else the profile's default, else its only one. Raises WeightsUnknown."""
    wanted = name or profile.default_weights
    for variant in profile.weights:
        if wanted is None or variant.name == wanted:
            return variant
    raise WeightsUnknown(
        f"the weights of {profile.id} are not known" if wanted is None else f"{profile.id} has no weights called {wanted!r}",
        path="--weights", value=wanted,
        hint="give --weights-gb X (10^9 bytes, the checkpoint's size)" + "".join(f", or --weights {w.name}" for w in profile.weights),
    )


def weights_term(profile: Profile, resolved: Resolved) -> Term:
    """Bytes of weights on the fullest card."""
    plan = resolved.plan
    shares = plan.tensor_parallel_size * plan.pipeline_parallel_size
    if plan.weights_gb is not None:
        total, origin = round(plan.weights_gb * 10**9), "option"
    else:
        variant = chosen_variant(profile, plan.weights)
        total, origin = variant.num_bytes, variant.origin
    return Term(name="weights", bytes=-(-total // shares), rule=f"{total} / {shares} cards", origin=origin)
