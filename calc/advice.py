"""What to do next, in the user's terms: each line is a plan that was tried and starts."""

from __future__ import annotations

from typing import Any

from calc.engines import engine_of
from calc.kv_formats import formats_of, kv_format
from calc.plan import Plan
from calc.predict import fits, predict
from calc.prediction import Note, Prediction
from calc.solve import MOST_CARDS, card_counts, solve, spread
from onboard.errors import Refusal
from onboard.profile import Profile
from onboard.values import replace


def next_steps(profile: Profile, plan: Plan, prediction: Prediction) -> tuple[Note, ...]:
    """Changes of one knob that turn FAIL into a start, or TIGHT into PASS; () for PASS."""
    if prediction.verdict == "PASS":
        return ()
    require = "start" if prediction.verdict == "FAIL" else "pass"
    asked = prediction.resolved.plan
    verb = "fits" if require == "start" else "holds what was asked"
    used = asked.gpu_memory_utilization
    found = [
        *_one_knob(profile, plan, prediction, require, verb, MILD),
        _more_utilisation(profile, plan, used, require, verb),
        _narrower(profile, plan, prediction, require, verb),
        _shorter(profile, plan, require, verb),
        *_one_knob(profile, plan, prediction, require, verb, COSTLY),
        *_lighter(profile, plan, require, verb),
        _wider(profile, plan, require, verb),
    ]
    return tuple(Note("next-step", text) for text in [f for f in found if f][:MOST_STEPS])


MOST_STEPS = 5
Knob = tuple[str, tuple[Any, ...], str]
# One change of one knob: what costs no quality and little speed, then what slows every request. A knob the engine
# lacks is passed over.
MILD: tuple[Knob, ...] = (
    ("max_num_seqs", (128, 64, 32, 16, 8, 4, 2, 1), "--max-num-seqs {}"),
    ("max_num_batched_tokens", (4096, 8192, 16384), "--max-num-batched-tokens {}"),
)
COSTLY: tuple[Knob, ...] = (
    ("enforce_eager", (True,), "--enforce-eager"),
    ("enable_prefix_caching", (False,), "--no-enable-prefix-caching"),
)


def _one_knob(
    profile: Profile, plan: Plan, prediction: Prediction, require: str, verb: str, knobs: tuple[Knob, ...]
) -> list[str]:
    """The mildest value of each knob that is enough. Sequences the user asked for are left alone."""
    used = prediction.resolved.plan
    found = []
    for name, values, flag in knobs:
        now = getattr(used, name)
        if now is None or (name == "max_num_seqs" and plan.max_num_seqs is not None):
            continue
        for value in values:
            if (
                value == now
                or (name == "max_num_seqs" and value > now)
                or (name == "max_num_batched_tokens" and value < now)
            ):
                continue
            if _try(profile, replace(plan, **{name: value}), require):
                found.append(f"{verb} with " + flag.format(value))
                break
    return found


def _try(profile: Profile, plan: Plan, require: str) -> bool:
    try:
        return fits(predict(profile, plan), require)
    except Refusal:
        return False


def _shorter(profile: Profile, plan: Plan, require: str, verb: str) -> str:
    try:
        answer = solve(profile, plan, "max-model-len", require)
    except Refusal:
        return ""
    return (
        f"{verb} at {answer.value:,} tokens (--max-model-len {answer.value})" if isinstance(answer.value, int) else ""
    )


def _narrower(profile: Profile, plan: Plan, prediction: Prediction, require: str, verb: str) -> str:
    used = prediction.resolved.plan.kv_cache_dtype
    try:
        width = kv_format(used).bytes_of(128, 128)
    except Refusal:
        width = 1 << 30
    for candidate in formats_of(prediction.resolved.engine):
        if candidate.bytes_of(128, 128) < width and _try(
            profile, replace(plan, kv_cache_dtype=candidate.name), require
        ):
            return f"{verb} with --kv-cache-dtype {candidate.name}"
    return ""


def _lighter(profile: Profile, plan: Plan, require: str, verb: str) -> list[str]:
    """Other sets of weights of the profile that are enough, the largest of them first."""
    if plan.weights_gb is not None or len(profile.weights) < 2:
        return []
    used = plan.weights or profile.default_weights or profile.weights[0].name
    others = sorted((v for v in profile.weights if v.name != used), key=lambda v: -v.num_bytes)
    enough = (v.name for v in others if _try(profile, replace(plan, weights=v.name), require))
    return [f"{verb} with --weights {name}" for name in enough][:3]


def _more_utilisation(profile: Profile, plan: Plan, used: float | None, require: str, verb: str) -> str:
    if used is None:
        return ""
    for percent in range(int(used * 100) + 1, 99):
        if _try(profile, replace(plan, gpu_memory_utilization=percent / 100), require):
            return f"{verb} with --gpu-memory-utilization {percent / 100:.2f}, if that much of the card is free"
    return ""


def _wider(profile: Profile, plan: Plan, require: str, verb: str) -> str:
    knob = engine_of(plan.engine)[0].cards_knob
    flag = {"tensor_parallel_size": "--tp"}.get(knob, f"--{knob}")
    for cards in card_counts(profile, plan, MOST_CARDS):
        if cards > (getattr(plan, knob) or 1) and _try(profile, spread(plan, cards), require):
            return f"{verb} on {cards} cards ({flag} {cards})"
    return ""
