"""How sure an estimate is: the band that 90 % of comparable boots keep to, and the share of boots that start.

A class of boot has, for each term, the quantiles of measured minus predicted over boots whose whole thread was left out
of the fit (`calc.spreads`). A band is their 5 % and 95 %; a probability is where a margin falls among them.
"""

from __future__ import annotations

from collections.abc import Sequence

from calc.estimates.classes import CONTEXT_GIB, PRIOR_GIB, class_of
from calc.estimates.fit import Fit, load_fit
from calc.estimates.setup import Setup, setup_of
from calc.estimates.tables import ENCODERS
from calc.prediction import Resolved
from calc.units import GIB
from onboard.profile import Profile

TAIL = 0.05


def quantiles(setup: Setup, term: str, fit: Fit) -> Sequence[float]:
    """Quantiles in GiB of a term's residual for the setup's class, evenly spaced; before any fit, twice the prior
    each way.
    """
    name = class_of(setup)
    found = fit.spreads.get(name, {}).get(term)
    if found:
        return found
    half = 2.2 * PRIOR_GIB[name][term]
    return (-half, 0.0, half)


def band(setup: Setup, term: str, size: float, fit: Fit) -> tuple[float, float]:
    """Offsets in bytes from an estimate of `size` bytes to its low and high; low <= 0 <= high."""
    if term == "context":
        return CONTEXT_GIB[0] * GIB, CONTEXT_GIB[1] * GIB
    if term == "encoder":
        entry = ENCODERS[setup.encoder]
        return (entry.low - entry.gib) * GIB, (entry.high - entry.gib) * GIB
    values = quantiles(setup, term, fit)
    unit = size if term == "cuda_graphs" else GIB
    return min(0.0, at(values, TAIL)) * unit, max(0.0, at(values, 1 - TAIL)) * unit


def at(values: Sequence[float], share: float) -> float:
    """The quantile at `share`, between two stored ones by a straight line."""
    place = share * (len(values) - 1)
    index = min(int(place), len(values) - 2)
    return values[index] + (values[index + 1] - values[index]) * (place - index)


def share_below(values: Sequence[float], limit: float) -> float:
    """The share of boots whose residual is at most `limit`; from 0.01 to 0.99, since no sample proves more."""
    if limit <= values[0]:
        return 0.01
    if limit >= values[-1]:
        return 0.99
    index = next(i for i in range(len(values) - 1) if values[i] <= limit <= values[i + 1])
    width = values[index + 1] - values[index]
    place = index + ((limit - values[index]) / width if width > 0 else 1.0)
    return min(0.99, max(0.01, place / (len(values) - 1)))


def confidence(profile: Profile, resolved: Resolved, headroom_bytes: int) -> float:
    """The share of comparable boots that start, where `headroom_bytes` is left (or lacking) once the estimates are
    taken.

    0.5 where the estimate leaves exactly nothing; near 1 or 0 where the answer does not hang on the estimate.
    """
    return share_below(quantiles(setup_of(profile, resolved), "reserve", load_fit()), headroom_bytes / GIB)


def hangs_on_estimate(share: float) -> bool:
    """Whether a verdict is worth a sentence about its probability: more than one boot in twenty goes the other way."""
    return TAIL < share < 1 - TAIL
