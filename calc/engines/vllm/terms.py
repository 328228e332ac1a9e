"""What vLLM takes besides its cache: weights, estimates, a drafter, adapters."""

from __future__ import annotations

from operator import attrgetter

from calc.adapters import adapters_term
from calc.drafters import drafter_term
from calc.estimates import overhead_terms
from calc.memo import remembered
from calc.plan import Plan
from calc.prediction import Resolved, Term
from calc.weights import weights_term
from onboard.profile import Profile
from onboard.values import fields

#: Plan fields that no fixed term depends on: the profile run is one batch of dummy tokens, whatever is served later.
_OF_THE_CACHE_ALONE = frozenset({"max_model_len", "gpu_memory_utilization", "block_size", "mamba_block_size"})
_relevant = attrgetter(*(f.name for f in fields(Plan) if f.name not in _OF_THE_CACHE_ALONE))


def fixed_terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
    """Weights, activation, graphs, runtime, encoder, a drafter's weights, adapter slots. Raises WeightsUnknown."""
    if resolved.plan.activation_model is not None:  # a named model may look at the length
        return _fixed_terms(profile, resolved)
    key = ("fixed", resolved.version, resolved.card, _relevant(resolved.plan))
    return remembered(profile, key, lambda: _fixed_terms(profile, resolved))


def _fixed_terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
    extra = (drafter_term(profile, resolved), adapters_term(profile, resolved))
    found = tuple(term for term in extra if term is not None)
    return (weights_term(profile, resolved), *overhead_terms(profile, resolved), *found)
