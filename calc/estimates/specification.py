"""The specification's own activation model, selectable by name (`activation_model = "specification"`).

Per (model, KV format) coefficients and `overhead = 0.5 + 1.0 x utilisation + 0.3 x (TP - 1)` GB, as its page prints
them, in
GB (10^9). They grow with context, which boots do not show (docs/accuracy.md sets the two side by side); they are kept
so that
the page's figures can be reproduced. Other models have no coefficients there and are refused.
"""

from __future__ import annotations

from calc.estimates.measured_model import measured_name
from calc.prediction import Resolved, Term
from onboard.errors import UsageError
from onboard.profile import Profile

GB = 10**9
NAME = "specification"

# B per recurrent layer and token, by class of KV format; projected ranges stand as their middle.
_PER_LAYER: dict[str, dict[str, float]] = {
    "qwen3.6-27b": {"16": 135.0, "8": 130.0, "4": 155.0, "3": 165.0},
    "qwen3.6-35b-a3b": {"16": 122.5, "8": 117.5, "3": 147.5},
}
# GB for the whole model, divided by TP: "~1.5-2.5 GB at TP=2 dual-card", of which the page's tool uses 1.5 in all.
_FLAT: dict[str, float] = {"gemma-4-31b": 1.5, "gemma-4-26b-a4b": 1.8}


def specification_terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
    """`activation` and `runtime` by the page's formulas. Raises UsageError for a model that the page has no figures
    for.
    """
    plan = resolved.plan
    tp, length = plan.tensor_parallel_size, plan.max_model_len or int(profile.fact("max_model_len") or 0)
    name = measured_name(profile)
    if name in _PER_LAYER:
        coefficients = _PER_LAYER[name]
        group = format_class(plan.kv_cache_dtype)
        if group not in coefficients:
            raise _refused(
                f"the specification has no coefficient for {profile.id} with {plan.kv_cache_dtype}", plan.kv_cache_dtype
            )
        layers = sum(1 for layer in profile.layers if any(c.kind == "state" for c in layer.caches))
        size = layers * coefficients[group] * length / tp
        rule = f"{layers} layers x {coefficients[group]:g} B x {length:,} tokens / TP {tp}"
    elif name in _FLAT:
        size, rule = _FLAT[name] * GB / tp, f"{_FLAT[name]:g} GB / TP {tp}"
    else:
        raise _refused(f"the specification has no activation coefficient for {profile.id}", profile.id)
    utilisation = plan.gpu_memory_utilization or 0.92
    overhead = 0.5 + utilisation + 0.3 * (tp - 1)
    return (
        Term(name="activation", bytes=round(size), rule=rule, origin="anchor"),
        Term(
            name="runtime",
            bytes=round(overhead * GB),
            rule=f"(0.5 + 1.0 x {utilisation!r} + 0.3 x {tp - 1}) GB",
            origin="anchor",
        ),
    )


def format_class(kv_cache_dtype: str) -> str:
    """The page's row for a KV format: 16, 8, 4 or 3."""
    if kv_cache_dtype.startswith(("turboquant_3", "tq3")):
        return "3"
    if kv_cache_dtype.startswith(("q4", "k8v4", "turboquant_k8v4")):
        return "4"
    return "8" if kv_cache_dtype.startswith(("fp8", "int8")) else "16"


def _refused(message: str, value: object) -> UsageError:
    return UsageError(
        message,
        path="activation_model",
        value=value,
        hint="leave activation_model out: the mechanisms know every model",
    )
