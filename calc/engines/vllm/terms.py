"""What vLLM takes besides its cache: weights, estimates, a drafter, adapters."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter

from calc.engines.vllm.shape import remembered
from calc.estimates import overhead_terms
from calc.plan import Plan
from calc.prediction import Resolved, Term
from calc.shard import weights_term
from calc.speculation import speculation
from onboard.errors import WeightsUnknown
from onboard.profile import Profile

#: Plan fields that no fixed term depends on: the profile run is one batch of dummy tokens, whatever is served later.
_OF_THE_CACHE_ALONE = frozenset({"max_model_len", "gpu_memory_utilization", "block_size", "mamba_block_size"})
_relevant = attrgetter(*(f.name for f in fields(Plan) if f.name not in _OF_THE_CACHE_ALONE))


def fixed_terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
    """Weights, activation, graphs, runtime, encoder, and the drafter's weights. Raises WeightsUnknown."""
    if resolved.plan.activation_model is not None:  # a named model may look at the length
        return _fixed_terms(profile, resolved)
    key = ("fixed", resolved.version, resolved.card, _relevant(resolved.plan))
    return remembered(profile, key, lambda: _fixed_terms(profile, resolved))


def _fixed_terms(profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
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
