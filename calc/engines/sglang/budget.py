"""Terms outside the cache, and the budget that weights and pools share.

Source: mem_cache/kv_cache_configurator.py _profile_available_bytes (0.5.23). Memory that is free before the weights are
loaded is learned from boots: on RTX 3090s at TP 2 it is 22.82 to 22.91 GiB of 23.58, at TP 1 about 23.1 of 23.5, on a
GB10, where the operating system shares it, 112.1 of 121.69.
"""

from __future__ import annotations

from calc.arithmetic import num
from calc.drafters import drafter_term
from calc.engines.sglang.settings import Settings
from calc.estimates import overhead_terms
from calc.prediction import Resolved, Term
from calc.units import GIB
from calc.weights import weights_term
from onboard.profile import Profile

# GiB taken before weights, by the CUDA context and collectives: (low, used, high), on one card, on several, on one
# whose memory the operating system shares.
BEFORE_WEIGHTS = {"one": (0.30, 0.45, 0.82), "several": (0.30, 0.71, 0.90), "unified": (4.0, 9.6, 20.0)}


def before_weights_bytes(resolved: Resolved, column: int = 1) -> int:
    """Bytes taken on each card before weights are loaded."""
    several = resolved.plan.tensor_parallel_size * resolved.plan.pipeline_parallel_size > 1
    kind = "unified" if resolved.card.kind == "unified" else "several" if several else "one"
    return round(BEFORE_WEIGHTS[kind][column] * GIB)


def budget_bytes(resolved: Resolved, settings: Settings) -> int:
    """`mem_fraction_static` of what is free before weights; weights, a drafter, images' reserve and pools share it."""
    free = resolved.card.usable_bytes - before_weights_bytes(resolved)
    return int(free * settings.mem_fraction_static)


def fixed_terms(profile: Profile, resolved: Resolved, settings: Settings) -> tuple[Term, ...]:
    """Weights, drafter, images' reserve (inside the budget); activation, graphs and runtime (outside)."""
    terms = [weights_term(profile, resolved)]
    drafter = drafter_term(profile, resolved)  # loaded before the pool is sized: inside the budget
    if drafter is not None:
        terms.append(drafter)
    if settings.multimodal_reserve_bytes:
        terms.append(
            Term(
                name="multimodal_reserve",
                bytes=settings.multimodal_reserve_bytes,
                origin="default",
                rule=f"{num(settings.multimodal_reserve_bytes / 2**20)} MiB; kept back for image embeddings"
                " (SGLANG_VLM_CACHE_SIZE_MB, or the transport's buffer)",
            )
        )
    overhead = overhead_terms(profile, resolved)
    terms += overhead
    if not any(t.name in ("runtime", "context") for t in overhead):
        terms.append(
            Term(
                name="runtime",
                bytes=before_weights_bytes(resolved),
                low_bytes=before_weights_bytes(resolved, 0),
                high_bytes=before_weights_bytes(resolved, 2),
                inside_budget=False,
                origin="anchor",
                rule=f"{before_weights_bytes(resolved):,} B; CUDA context and collectives, before weights are loaded",
            )
        )
    return tuple(terms)
