"""Estimated terms: activation peak, CUDA graphs, runtime. Each says how sure it is and where it was learned.

`overhead_terms` is what an engine asks. `confidence` and `advice` are for whoever prints. Rules by mechanism lie in
`activation`, `graphs`, `runtime` and `tables`; what boots taught lies in `calibration/fit.json`, read by `fit`.
"""

from __future__ import annotations

from calc.arithmetic import remarked
from calc.estimates.activation import Part, forward_part
from calc.estimates.classes import class_of, unmodelled
from calc.estimates.fit import Fit, calibration_status, load_fit
from calc.estimates.intervals import band, confidence, hangs_on_estimate
from calc.estimates.measured_model import measured_name
from calc.estimates.notes import advice, trust
from calc.estimates.reserve import estimate
from calc.estimates.runtime import outside
from calc.estimates.setup import Setup, setup_of
from calc.estimates.sglang import sglang_graphs
from calc.estimates.specification import NAME, specification_terms
from calc.estimates.unstated import completed, unstated, widened, words
from calc.prediction import Resolved, Term
from onboard.errors import UsageError
from onboard.profile import Profile


def overhead_terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
    """`activation`, `encoder`, `cuda_graphs` and `runtime` for the resolved plan, with low and high; and what stands
    outside the engine's budget: `context` (the CUDA context and later workspaces), `prefill` (recurrent chunk states).

    Where the model states no width that the peak depends on, the terms span those of published models (`unstated`).
    """
    model = resolved.plan.activation_model
    if model not in (None, NAME, "mechanisms"):
        raise UsageError(
            f"no activation model is called {model!r}",
            path="activation_model",
            value=model,
            hint=f"mechanisms or {NAME}",
        )
    if model == NAME:
        return specification_terms(profile, resolved)
    missing = unstated(profile)
    if not missing:
        return _terms(profile, resolved)
    low, usual, high = (_terms(each, resolved) for each in completed(profile))
    return widened(low, usual, high, words(missing))


def _terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
    terms = {"vllm": _vllm, "sglang": _sglang}.get(resolved.engine, _others)
    return terms(setup_of(profile, resolved), load_fit(), measured_name(profile), resolved)


def _vllm(setup: Setup, fit: Fit, model: str, resolved: Resolved) -> tuple[Term, ...]:
    found = estimate(setup, fit, model)
    missing = "; ".join(unmodelled(setup))
    terms = [
        _term("activation", found.activation, setup, fit, more=missing),
        _term("cuda_graphs", found.graphs, setup, fit, inside=found.graphs_inside),
        _term("runtime", found.runtime, setup, fit),
        _term("context", found.context, setup, fit, inside=False),
    ]
    if setup.encoder:
        terms.insert(1, _term("encoder", found.encoder, setup, fit))
    if found.prefill.bytes:
        size = round(found.prefill.bytes)
        terms.append(
            Term(
                name="prefill",
                bytes=size,
                rule=found.prefill.rule,
                inside_budget=False,
                low_bytes=0,
                high_bytes=4 * size,
            )
        )
    return tuple(terms)


def _sglang(setup: Setup, fit: Fit, model: str, resolved: Resolved) -> tuple[Term, ...]:
    """SGLang profiles nothing: what mem_fraction_static leaves must hold the forward pass of a chunk, the graphs and
    the context.
    """
    return (
        _term("activation", forward_part(setup, fit), setup, fit, inside=False),
        sglang_graphs(setup, resolved.derived),
        _term("context", outside(setup, fit), setup, fit, inside=False),
    )


def _others(setup: Setup, fit: Fit, model: str, resolved: Resolved) -> tuple[Term, ...]:
    """llama.cpp computes its own compute buffers exactly; the device context stands outside them."""
    return (_term("context", outside(setup, fit), setup, fit, inside=False),)


def _term(name: str, part: Part, setup: Setup, fit: Fit, *, inside: bool = True, more: str = "") -> Term:
    low, high = band(setup, name, part.bytes, fit) if part.bytes else (0.0, 0.0)
    rule = remarked(part.rule, more)
    return Term(
        name=name,
        bytes=round(part.bytes),
        rule=rule,
        origin="anchor",
        inside_budget=inside,
        low_bytes=max(0, round(part.bytes + low)),
        high_bytes=round(part.bytes + high),
    )


__all__ = [
    "Setup", "advice", "calibration_status", "class_of", "confidence", "hangs_on_estimate", "overhead_terms", "trust",
]  # fmt: skip
