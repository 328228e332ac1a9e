"""Options that were given and change nothing, each said in one sentence: silence would read as agreement."""

from __future__ import annotations

from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Note, Prediction
from onboard.errors import Refusal
from onboard.profile import Profile
from onboard.tp import valid_tp
from onboard.values import replace

#: What the breakdown's planning extras need beside their first knob.
_EXTRAS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("compressed_layers", ("compression_ratio", "compressed_head_dim")),
    ("indexer_ratio_layers", ("indexer_head_dim",)),
    ("draft_kv_gb", ("include_draft_kv",)),
    ("include_draft_kv", ("draft_kv_gb",)),
)
#: The knob that each search sets itself.
_SEARCHED = {"vram": ("card", "vram_gib"), "tp": ("tensor_parallel_size",), "kv-cache-dtype": ("kv_cache_dtype",)}


def unused(quantity: str, plan: Plan) -> tuple[Note, ...]:
    """Options that a search for `quantity` overrides."""
    given = plan.given()
    return tuple(
        Note("unused", f"{_option(name)} {given[name]} is left out: {quantity} is what is searched for")
        for name in _SEARCHED.get(quantity, ())
        if name in given
    )


def idle(plan: Plan, *, breakdown: bool) -> tuple[Note, ...]:
    """Options of a plan that no figure depends on: breakdown extras that lack a part, cards that nothing runs on."""
    given = plan.given()
    found = []
    for name, needs in _EXTRAS:
        missing = [_option(n) for n in needs if n not in given]
        if name in given and missing:
            found.append(f"{_option(name)} changes nothing without {' and '.join(missing)}")
        elif name in given and not breakdown:
            found.append(f"{_option(name)} is for --kv-breakdown; the verdict does not use it")
    shares = plan.tensor_split or ()
    if len(shares) > (plan.gpus or 1):
        found.append(f"--tensor-split has {len(shares)} shares for {plan.gpus or 1} card(s): give --gpus {len(shares)}")
    return tuple(Note("unused", text) for text in found)


def format_notes(profile: Profile, plan: Plan, prediction: Prediction) -> tuple[Note, ...]:
    """Whether a narrower KV format than the model's own is worth it: pages padded to a state's give nothing back."""
    if (
        plan.kv_cache_dtype == "auto"
        or not prediction.cache.state_bytes_per_sequence
        or not prediction.cache.pool.groups
    ):
        return ()
    try:
        usual = predict(profile, replace(plan, kv_cache_dtype="auto"))
    except Refusal:
        return ()
    if usual.verdict == "FAIL" or prediction.verdict == "FAIL":
        return ()
    held, before = prediction.cache.pool.max_concurrency, usual.cache.pool.max_concurrency
    if held > before or prediction.resolved.plan.kv_cache_dtype == usual.resolved.plan.kv_cache_dtype:
        return ()
    name, other = prediction.resolved.plan.kv_cache_dtype, usual.resolved.plan.kv_cache_dtype
    text = f"{name} holds {held:.2f} requests, {other} {before:.2f}: its pages are padded to the recurrent state's"
    return (Note("kv-dtype", text),)


def idle_cards(profile: Profile, plan: Plan, *, splits_itself: bool) -> tuple[Note, ...]:
    """Cards of the rig that the plan leaves empty, for engines that do not split over all cards by themselves."""
    used = plan.tensor_parallel_size * plan.pipeline_parallel_size * plan.data_parallel_size
    if splits_itself or plan.gpus is None or plan.gpus <= used:
        return ()
    more = max((t for t in valid_tp(profile) if t <= plan.gpus), default=1)
    text = f"{plan.gpus} cards are given and the plan uses {used}"
    text += f": add --tp {more}" if more > plan.tensor_parallel_size else ""
    return (Note("unused-cards", text),)


def _option(name: str) -> str:
    return "--" + {"vram_gib": "vram"}.get(name, name).replace("_", "-")
