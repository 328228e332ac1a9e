"""What vLLM takes besides its cache: weights, estimates, a drafter, adapters."""

from __future__ import annotations

from calc.estimates import overhead_terms
from calc.prediction import Resolved, Term
from calc.shard import weights_term
from calc.speculation import speculation
from onboard.errors import WeightsUnknown
from onboard.profile import Profile


def fixed_terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
    """Weights, activation, graphs, runtime, encoder, and the drafter's weights. Raises WeightsUnknown."""
    terms = (weights_term(profile, resolved), *overhead_terms(profile, resolved))
    draft = _drafter(profile, resolved)
    return (*terms, draft) if draft else terms


def _drafter(profile: Profile, resolved: Resolved) -> Term | None:
    """The draft model's weights, sharded like the target's. A built-in head is part of the checkpoint."""
    spec = speculation(profile, resolved.plan)
    if spec is None or spec.weights_bytes == 0:
        return None
    if spec.weights_bytes is None:
        raise WeightsUnknown(
            f"the weights of the drafter {spec.name} are not known",
            path="--drafter-gb",
            hint="give --drafter-gb X (10^9 bytes)",
        )
    tp = resolved.plan.tensor_parallel_size
    return Term(
        name="drafter",
        bytes=-(-spec.weights_bytes // tp),
        rule=f"{spec.weights_bytes:,} bytes of {spec.name or spec.method} / {tp} cards",
        origin="option" if resolved.plan.drafter_gb is not None else "config",
    )
