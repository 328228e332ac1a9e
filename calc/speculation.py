"""Speculative decoding: which layers and weights a draft adds, and how many tokens it proposes."""

from __future__ import annotations

from calc.plan import Plan
from calc.prediction import Note
from onboard.errors import UsageError
from onboard.layers import Layer
from onboard.profile import Profile
from onboard.values import Struct

BUILT_IN = ("none", "ngram", "mtp")


class Speculation(Struct, frozen=True, kw_only=True):
    """`layers` join the target's pool; `weights_bytes` is None where a draft's weights are not known."""

    method: str
    num_tokens: int
    layers: tuple[Layer, ...] = ()
    weights_bytes: int | None = 0
    name: str = ""


def uncounted_caches(profile: Profile, plan: Plan) -> tuple[Note, ...]:
    """A note where the draft model keeps caches of its own and its layers are not known: they are in no term."""
    return tuple(
        Note(
            "drafter-kv",
            f"drafter's KV is not counted: the layers of {d.name} are not known, so the real need is larger; "
            f"give its repository as --drafter, or state drafters.{d.name}.layers in an override",
        )
        for d in profile.drafters
        if plan.drafter in (d.name, d.source) and d.caches_unknown
    )


def speculation(profile: Profile, plan: Plan) -> Speculation | None:
    """What the plan's `drafter` and `num_speculative_tokens` mean for this model, or None where nothing speculates."""
    tokens, drafter = plan.num_speculative_tokens, plan.drafter
    if drafter == "none" or (drafter is None and not tokens):
        return None
    if drafter is None:
        drafter = "mtp" if profile.mtp_layers else "ngram"
    count = tokens if tokens is not None else 1
    if drafter == "ngram":
        return Speculation(method="ngram", num_tokens=count)
    if drafter == "mtp":
        if not profile.mtp_layers:
            raise UsageError(
                f"{profile.id} has no built-in MTP head",
                path="--drafter",
                value="mtp",
                hint="--drafter ngram, or name a draft model",
            )
        return Speculation(method="mtp", num_tokens=count, layers=profile.mtp_layers)
    for known in profile.drafters:
        if drafter in (known.name, known.source):
            stated = None if plan.drafter_gb is None else round(plan.drafter_gb * 10**9)
            return Speculation(
                method=known.method, num_tokens=count, layers=known.layers,
                weights_bytes=known.num_bytes if stated is None else stated, name=known.name,
            )  # fmt: skip
    raise UsageError(
        f"{profile.id} has no drafter called {drafter!r}",
        path="--drafter",
        value=drafter,
        hint="known: none, ngram, mtp" + "".join(f", {d.name}" for d in profile.drafters),
    )
