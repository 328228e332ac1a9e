"""Weights of what drafts: the model's own MTP head, or a separate draft model, on the fullest card."""

from __future__ import annotations

from calc.prediction import Resolved, Term
from calc.shard import card_bytes, served, split_of
from calc.speculation import speculation
from calc.weights import chosen_variant
from onboard.errors import WeightsUnknown
from onboard.profile import Profile


def drafter_term(profile: Profile, resolved: Resolved) -> Term | None:
    """The `drafter` term, or None where nothing with weights drafts. Raises WeightsUnknown where they are not known.

    A draft model runs at the target's TP and shares its embedding and head (vLLM 0.33 v1/spec_decode/eagle.py).
    """
    plan, split = resolved.plan, split_of(resolved)
    spec = speculation(profile, plan)
    if spec is None or spec.method == "ngram":
        return None
    if plan.drafter_gb is not None:
        total = round(plan.drafter_gb * 10**9)
        return _divided(total, split.tp, f"--drafter-gb {plan.drafter_gb:g}", "option")
    if spec.method == "mtp" and not spec.weights_bytes:
        return _built_in(profile, resolved)
    if spec.weights_bytes is None:
        raise WeightsUnknown(
            f"the weights of the drafter {spec.name} are not known", path="--drafter", value=spec.name,
            hint="give --drafter-gb X (10^9 bytes)",
        )  # fmt: skip
    return _divided(spec.weights_bytes, split.tp, spec.name, "header")


def _built_in(profile: Profile, resolved: Resolved) -> Term | None:
    plan, split = resolved.plan, split_of(resolved)
    if plan.weights_gb is not None or not profile.weights:
        return None  # a stated total holds the head already
    variant = chosen_variant(profile, plan.weights)
    groups = tuple(g for g in variant.groups if g.part == "mtp" and served(g, drafts=True))
    if not groups:
        return None
    size = sum(card_bytes(g, split) * g.copies for g in groups)
    margin = size * variant.error_ppm // 10**6
    stored = sum(g.num_bytes * g.copies for g in groups)
    return Term(
        name="drafter", bytes=size, low_bytes=size - margin, high_bytes=size + margin, origin=variant.origin,
        rule=f"{size:,} B on the fullest card; built-in MTP head, {stored:,} B stored, {split.text}",
    )  # fmt: skip


def _divided(total: int, tp: int, where: str, origin: str) -> Term:
    size = -(-total // tp)
    return Term(name="drafter", bytes=size, rule=f"{total:,} B / TP {tp}; {where}", origin=origin)
