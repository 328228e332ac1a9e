"""The largest or smallest value of one knob that still fits, exact for the rules of `predict`.

Each answer satisfies: the plan with it fits, the plan one step further does not. Steps are one token, one
sequence, one valid TP size, one GiB, one KV format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calc.engines import engine_of
from calc.kv_formats import formats_of
from calc.plan import Plan
from calc.predict import fits, predict
from calc.prediction import Prediction
from calc.units import GIB
from onboard.errors import Refusal, UsageError
from onboard.profile import Profile
from onboard.tp import valid_tp
from onboard.values import Struct, replace

LONGEST = 2**27  # where a model states no maximum
MOST_SEQUENCES = 2**16
LARGEST_CARD_GIB = 2048
MOST_CARDS = 64
MOST_SPREAD = 16  # llama.cpp's GGML_CUDA_MAX_DEVICES


class Solution(Struct, frozen=True, kw_only=True):
    """`value` is None where nothing fits; `prediction` is then that of the most modest plan tried."""

    quantity: str
    value: int | str | None
    require: str
    prediction: Prediction
    bound: str = ""  # what stopped the search, where that is not memory
    tried: int | str | None = None  # the value that `prediction` is for

    def to_json(self) -> dict[str, Any]:
        return {
            "for": self.quantity, "value": self.value, "require": self.require, "bound": self.bound,
            "tried": self.value if self.tried is None else self.tried, "prediction": self.prediction.to_json(),
        }  # fmt: skip


def solve(profile: Profile, plan: Plan, quantity: str, require: str = "start") -> Solution:
    """The best value of `quantity` (a key of SOLVERS) under `require` start or pass. Raises UsageError for others."""
    name = quantity.replace("_", "-")
    if name not in SOLVERS:
        raise UsageError(
            f"nothing is solved for {quantity!r}", path="--for", value=quantity, hint="one of " + ", ".join(SOLVERS)
        )
    if require not in ("start", "pass"):
        raise UsageError("--require is start or pass", path="--require", value=require)
    return SOLVERS[name](profile, plan, require)


def _largest(profile: Profile, plan: Plan, require: str, knob: str, high: int, name: str, bound: str) -> Solution:
    """Bisect an integer knob whose need never falls as it grows."""

    def at(value: int) -> Prediction:
        return predict(profile, replace(plan, **{knob: value}))

    top = at(high)
    if fits(top, require):
        return Solution(quantity=name, value=high, require=require, prediction=top, bound=bound)
    low, best = 1, at(1)
    if not fits(best, require):
        return Solution(quantity=name, value=None, require=require, prediction=best, tried=1)
    while high - low > 1:
        middle = (low + high) // 2
        tried = at(middle)
        if fits(tried, require):
            low, best = middle, tried
        else:
            high = middle
    return Solution(quantity=name, value=low, require=require, prediction=best)


def _max_model_len(profile: Profile, plan: Plan, require: str) -> Solution:
    limit = plan.max_model_len or profile.fact("max_model_len")
    bound = "the value given" if plan.max_model_len else "the model's own maximum"
    return _largest(profile, plan, require, "max_model_len", limit or LONGEST, "max-model-len", bound)


def _max_num_seqs(profile: Profile, plan: Plan, require: str) -> Solution:
    return _largest(
        profile, plan, require, "max_num_seqs", MOST_SEQUENCES, "max-num-seqs", f"the search stops at {MOST_SEQUENCES}"
    )


def _first(profile: Profile, require: str, name: str, plans: list[tuple[int | str, Plan]]) -> Solution:
    """The first plan that fits, in the order given. A value the engine refuses outright does not fit."""
    last: Prediction | None = None
    tried: int | str | None = None
    refusal: Refusal | None = None
    for value, candidate in plans:
        try:
            last, tried = predict(profile, candidate), value
        except Refusal as error:
            refusal = error
            continue
        if fits(last, require):
            return Solution(quantity=name, value=value, require=require, prediction=last)
    if last is None:
        raise refusal or UsageError("nothing to try", path="--for", value=name)
    return Solution(quantity=name, value=None, require=require, prediction=last, tried=tried)


def _tp(profile: Profile, plan: Plan, require: str) -> Solution:
    """The fewest cards: valid TP sizes, or any number for an engine that spreads layers over them."""
    plans: list[tuple[int | str, Plan]] = [
        (n, spread(replace(plan, gpus=None), n)) for n in card_counts(profile, plan, plan.gpus or MOST_CARDS)
    ]
    return _first(profile, require, "tp", plans)


def spread(plan: Plan, cards: int) -> Plan:
    """The plan over that many cards, by the knob its engine has for it."""
    return replace(plan, **{engine_of(plan.engine)[0].cards_knob: cards})


def card_counts(profile: Profile, plan: Plan, most: int) -> list[int]:
    """Numbers of cards worth trying, up to `most`."""
    if engine_of(plan.engine)[0].cards_knob == "tensor_parallel_size":
        return [t for t in valid_tp(profile) if t <= most]
    return list(range(1, min(most, MOST_SPREAD) + 1))


def _vram(profile: Profile, plan: Plan, require: str) -> Solution:
    """Whole GiB, all usable. Larger cards get larger defaults, so sizes are walked, from the weights upward."""
    base = replace(plan, card=None)
    weights = next(
        (
            t.bytes
            for t in predict(profile, replace(base, vram_gib=float(LARGEST_CARD_GIB))).terms
            if t.name == "weights"
        ),
        0,
    )
    start = max(1, weights // GIB)
    return _first(
        profile, require, "vram", [(g, replace(base, vram_gib=float(g))) for g in range(start, LARGEST_CARD_GIB + 1)]
    )


def _kv_cache_dtype(profile: Profile, plan: Plan, require: str) -> Solution:
    """The widest format that fits: the least is given up."""
    names = [f.name for f in formats_of(engine_of(plan.engine)[0].name)]
    return _first(profile, require, "kv-cache-dtype", [(n, replace(plan, kv_cache_dtype=n)) for n in names])


SOLVERS: dict[str, Callable[[Profile, Plan, str], Solution]] = {
    "max-model-len": _max_model_len,
    "max-num-seqs": _max_num_seqs,
    "tp": _tp,
    "vram": _vram,
    "kv-cache-dtype": _kv_cache_dtype,
}
