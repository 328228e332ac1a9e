"""Estimated terms: activation peak, CUDA graphs, runtime. Each says how sure it is and where it was learned."""

from __future__ import annotations

from calc.prediction import Resolved, Term
from onboard.profile import Profile


def overhead_terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
    """`activation`, `cuda_graphs`, `runtime` and `encoder` for the resolved plan, with low and high."""
    return ()
