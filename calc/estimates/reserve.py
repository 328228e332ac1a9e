"""The estimated parts of one boot together: what stands inside the budget and what outside, from one setup."""

from __future__ import annotations

from calc.arithmetic import num
from calc.estimates import activation as act
from calc.estimates import graphs as cuda
from calc.estimates import runtime
from calc.estimates.activation import Part
from calc.estimates.fit import Fit
from calc.estimates.setup import Setup
from calc.estimates.tables import ENCODERS
from calc.units import GIB
from onboard.values import Struct


class Estimate(Struct, frozen=True):
    """Bytes per card of each part. `graphs_inside` says whether the graphs count against the budget."""

    activation: Part
    encoder: Part
    runtime: Part
    graphs: Part
    context: Part
    prefill: Part
    graphs_inside: bool

    @property
    def inside(self) -> float:
        """What is neither weights nor cache inside the budget."""
        return (
            self.activation.bytes
            + self.encoder.bytes
            + self.runtime.bytes
            + (self.graphs.bytes if self.graphs_inside else 0.0)
        )


def estimate(setup: Setup, fit: Fit, model: str = "") -> Estimate:
    """Every estimated part. `model` picks that model's own correction where it has one."""
    peak = act.activation(setup, fit)
    anchors, correction = fit.models.get(model, (0, 0.0))
    if correction:
        peak = Part(
            peak.name,
            max(0.0, peak.bytes + correction * GIB),
            _corrected(peak.rule, correction, anchors),
        )
    return Estimate(
        activation=peak,
        encoder=encoder_part(setup, fit),
        runtime=runtime.inside(setup, fit),
        graphs=cuda.graphs(setup, fit),
        context=runtime.outside(setup, fit),
        prefill=Part("prefill", runtime.delta_prefill_bytes(setup), runtime.delta_prefill_line(setup)),
        graphs_inside=cuda.estimate_is_subtracted(setup),
    )


def encoder_part(setup: Setup, fit: Fit) -> Part:
    """What the encoder's own profile run adds to the text model's peak."""
    if not setup.encoder:
        return Part("encoder", 0.0, "; text only")
    entry = ENCODERS[setup.encoder]
    gib = fit.runtime.get(f"encoder {setup.encoder}", entry.gib)
    return Part("encoder", gib * GIB, f"{num(gib)} GiB; {setup.encoder}: {entry.source}")


def _corrected(rule: str, correction: float, anchors: int) -> str:
    expression, _, remark = rule.partition("; ")
    sign = "+" if correction > 0 else "-"
    learned = f"{num(abs(correction))} GiB learned from this model's anchors"
    return f"max(0, {expression} {sign} {learned}); {remark}, {anchors} anchors"


__all__ = ["Estimate", "Fit", "encoder_part", "estimate"]
