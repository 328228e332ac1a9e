"""How far boots stray from their estimates: quantiles by class of boot and term, from boots left out by thread.

A class is as wide as its own residuals, drawn toward a prior; the shape between the quantiles is pooled over classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import fsum, sqrt

from calc.estimates.classes import FLOOR_GIB, PRIOR_GIB, WEIGHT, class_of
from calc.estimates.intervals import TAIL, at
from calc.estimates.reserve import Estimate
from calc.fitting import Boot, Counted, residuals

CAP = 4.0
QUANTILES = 41


def spread_of(pairs: Iterable[tuple[Boot, Estimate]]) -> dict[str, dict[str, list[float]]]:
    """Quantiles of the residual in GiB by class and term: the pooled shape of scaled residuals, times the class's
    scale.
    """
    by_term: dict[str, list[tuple[str, str, float]]] = defaultdict(list)
    for boot, guess in pairs:
        for term, value in residuals(boot, guess).items():
            by_term[term].append((class_of(boot.setup), boot.thread, value))
    spreads: dict[str, dict[str, list[float]]] = {name: {} for name in PRIOR_GIB}
    for term in ("activation", "runtime", "cuda_graphs", "reserve"):
        rows = by_term[term]
        scales = {name: _scale(PRIOR_GIB[name][term], [(t, v) for c, t, v in rows if c == name]) for name in PRIOR_GIB}
        shape = _shape([v / scales[c] for c, _, v in rows], [_share(rows, t) for _, t, _ in rows])
        for name, scale in scales.items():
            spreads[name][term] = [round(z, 4) for z in _no_narrower([scale * z for z in shape], FLOOR_GIB[term])]
    return spreads


def _no_narrower(shape: list[float], floor: float) -> list[float]:
    """The shape, stretched where its 90 % band is narrower than the floor each way."""
    reach = at(shape, 1 - TAIL)
    return [z * floor / reach for z in shape] if 0 < reach < floor else shape


def _scale(prior: float, rows: Sequence[tuple[str, float]]) -> float:
    """Mean absolute residual, each thread weighing as the square root of its rows, drawn toward the prior. One boot
    far from the others widens the shape that all classes share, not its own class alone, so it counts as CAP priors
    at most.
    """
    threads = Counted(t for t, _ in rows)
    total = WEIGHT * prior
    weight = WEIGHT
    for thread, value in rows:
        share = threads[thread] ** -0.5
        total, weight = total + share * min(abs(value), CAP * prior), weight + share
    return total / weight


def _shape(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Weighted quantiles, mirrored (the sign of few residuals proves nothing), with one imaginary value beyond either
    end (the finite-sample correction). Monotone, 0 inside.
    """
    if not values:
        return [4.0 * (i / (QUANTILES - 1) - 0.5) for i in range(QUANTILES)]
    both = [*zip(values, weights, strict=True), *((-v, w) for v, w in zip(values, weights, strict=True))]
    order = sorted(both)
    unit = 2 * fsum(weights) / len(weights)
    low, high = order[0][0], order[-1][0]
    points = [(low - 0.5 * abs(low) - 0.5, unit / 2), *order, (high + 0.5 * abs(high) + 0.5, unit / 2)]
    whole = fsum(w for _, w in points)
    shape, seen, index = [], 0.0, 0
    for i in range(QUANTILES):
        target = i / (QUANTILES - 1) * whole
        while index < len(points) - 1 and seen + points[index][1] < target:
            seen += points[index][1]
            index += 1
        shape.append(points[index][0])
    return shape


def _share(rows: Sequence[tuple[str, str, float]], thread: str) -> float:
    return 1.0 / sqrt(sum(1 for _, t, _ in rows if t == thread))
