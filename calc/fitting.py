"""Learning from anchors: constants by weighted least squares on the branch that binds, cells by shrunk medians.

Plain Python; nothing is learned for one row, and the specification's rows never enter. A thread weighs as the square
root of its boots, so that one sweep of 60 boots does not outvote 60 logs. How far boots stray is `spreads`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from statistics import median

from calc.anchors import Measured, measured, setup_from
from calc.calibration_models import key_of
from calc.estimates import activation as act
from calc.estimates import runtime
from calc.estimates.classes import class_of
from calc.estimates.fit import MIN_ANCHORS, PRIORS, Fit
from calc.estimates.graphs import FLOOR_GIB as LEAST_GRAPHS
from calc.estimates.graphs import SCALES, graphs
from calc.estimates.reserve import Estimate, encoder_part, estimate
from calc.estimates.setup import Setup
from calc.units import GIB
from onboard.anchor_file import Anchor
from onboard.values import Struct, replace

RIDGE = 0.02  # GiB^2 of imaginary evidence per relative squared step away from a constant's source
HUBER_GIB = 0.05  # beyond this a residual counts linearly: an outlier moves nothing far
MODEL_WEIGHT = 4.0  # imaginary boots without error that a model's correction is drawn toward
CELL_WEIGHT = 3.0  # imaginary boots that a cell of the runtime table starts from


class Boot(Struct, frozen=True):
    """One anchor the rules can speak about."""

    anchor: Anchor
    setup: Setup
    measured: Measured

    @property
    def thread(self) -> str:
        return self.anchor.thread


def boots_of(anchors: Iterable[Anchor]) -> tuple[Boot, ...]:
    """Anchors whose geometry and flags are known, without the specification's."""
    found = []
    for anchor in anchors:
        setup = setup_from(anchor)
        if setup is not None and anchor.set != "specification":
            found.append(Boot(anchor, setup, measured(anchor, setup)))
    return tuple(found)


def learn(boots: Sequence[Boot]) -> Fit:
    """Constants, cells and per-model corrections; spreads are `spread_of`'s."""
    fit = Fit(constants=_constants(boots), runtime=_cells(boots))
    fit = replace(fit, graphs=_graph_scales(boots, fit))
    return replace(fit, models=_models(boots, fit))


def fits_without(boots: Sequence[Boot]) -> dict[str, Fit]:
    """For every thread, a fit that saw nothing of it; under "", the fit from all."""
    threads = sorted({b.thread for b in boots})
    return {"": learn(boots)} | {t: learn([b for b in boots if b.thread != t]) for t in threads}


def left_out(boots: Sequence[Boot], fits: Mapping[str, Fit] | None = None) -> dict[str, tuple[Boot, Estimate]]:
    """For every boot, its estimate by a fit that saw nothing of its thread. By anchor id."""
    fits = fits or fits_without(boots)
    ordered = sorted(boots, key=lambda b: b.thread)
    return {b.anchor.id: (b, estimate(b.setup, fits[b.thread], key_of(b.anchor.model))) for b in ordered}


def residuals(boot: Boot, guess: Estimate) -> dict[str, float]:
    """Measured minus predicted in GiB, for each term the anchor measured; for the graphs, as a share of the
    prediction.
    """
    m, found = boot.measured, {}
    text = not boot.setup.encoder
    if m.activation is not None:
        found["activation"] = m.activation - (guess.activation.bytes + (0 if text else guess.encoder.bytes)) / GIB
    if m.runtime is not None:
        found["runtime"] = m.runtime - guess.runtime.bytes / GIB
    if m.graphs is not None and not boot.setup.eager:
        found["cuda_graphs"] = m.graphs / (guess.graphs.bytes / GIB) - 1
    if m.residual is not None:
        found["reserve"] = m.residual - guess.inside / GIB
    return found


class Counted(dict[str, int]):
    """How often each thread stands in a list."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        for name in names:
            self[name] = self.get(name, 0) + 1


# --- constants ------------------------------------------------------------------------------------------------------


def _constants(boots: Sequence[Boot]) -> dict[str, float]:
    """Least squares on logged activations of text models, each row linear in the constants of the branch that binds."""
    rows = [
        b
        for b in boots
        if b.measured.activation is not None
        and not b.setup.encoder
        and class_of(b.setup) not in ("unified", "uncovered")
    ]
    counts = Counted(b.thread for b in rows)
    names = tuple(PRIORS)
    values = dict(PRIORS)
    for _ in range(6):
        left = [[0.0] * len(names) for _ in names]
        right = [0.0] * len(names)
        for i, name in enumerate(names):  # the ridge: relative steps away from the source's value
            left[i][i] = RIDGE / PRIORS[name] ** 2
        fit = Fit(constants=values)
        for boot in rows:
            slopes, fixed = _linear(boot.setup, fit)
            target = (boot.measured.activation or 0.0) - fixed - fsum(slopes.get(n, 0.0) * PRIORS[n] for n in names)
            miss = (boot.measured.activation or 0.0) - fixed - fsum(slopes.get(n, 0.0) * values[n] for n in names)
            weight = counts[boot.thread] ** -0.5 * min(1.0, HUBER_GIB / max(abs(miss), 1e-9))
            for i, a in enumerate(names):
                if a not in slopes:
                    continue
                right[i] += weight * slopes[a] * target
                for j, b in enumerate(names):
                    left[i][j] += weight * slopes[a] * slopes.get(b, 0.0)
        steps = _solve(left, right)
        values = {n: PRIORS[n] + s for n, s in zip(names, steps, strict=True)}
    return {n: round(v, 5) for n, v in values.items()}


def _linear(setup: Setup, fit: Fit) -> tuple[dict[str, float], float]:
    """Slopes in GiB per unit of each constant on the binding branch, and what does not depend on any."""
    slopes = {"base_gib": 1.0}
    tokens = setup.max_num_batched_tokens
    if act.sampler_part(setup, fit).bytes >= act.forward_part(setup, fit).bytes:
        slopes["sampler_flashinfer_bytes" if act.sampler_class(setup) == "flashinfer" else "sampler_sort_bytes"] = (
            setup.sequences * setup.vocab / GIB
        )
        if act.keeps_workspace(setup):
            slopes["moe_kept_factor"] = act.moe_workspace(setup) / GIB
        return slopes, 2 * tokens * setup.hidden / GIB
    hidden = "hidden_v1_bytes" if not setup.v0 else f"hidden_{setup.era}_bytes"
    slopes[hidden] = tokens * setup.hidden / GIB
    fixed = act.dequantised_bytes(setup) / GIB
    fixed += 2.0 * tokens * setup.hidden / GIB if setup.era == "v0" and setup.tp > 1 else 0.0
    if setup.experts:
        slopes["moe_forward_factor"] = act.moe_workspace(setup) / GIB
        return slopes, fixed
    return slopes, fixed + (6 if setup.gated else 4) * tokens * setup.intermediate / setup.tp / GIB


def _solve(left: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination; the ridge keeps every pivot above zero."""
    n = len(right)
    rows = [[*left[i], right[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, n):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    answer = [0.0] * n
    for i in reversed(range(n)):
        answer[i] = (rows[i][n] - fsum(rows[i][j] * answer[j] for j in range(i + 1, n))) / rows[i][i]
    return answer


# --- cells ----------------------------------------------------------------------------------------------------------


def _cells(boots: Sequence[Boot]) -> dict[str, float]:
    """Each cell of the runtime table: the median over threads (of each thread's median), drawn toward the table's
    value.
    """
    seen: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for boot in boots:
        if boot.measured.runtime is not None:
            seen[runtime.runtime_key(boot.setup)][boot.thread].append(boot.measured.runtime)
    cells = {}
    for key, threads in sorted(seen.items()):
        middle = [median(v) for v in threads.values()]
        prior = runtime.table_value(key, Fit(constants={}))
        cells[key] = round((len(middle) * median(middle) + CELL_WEIGHT * prior) / (len(middle) + CELL_WEIGHT), 4)
    return cells


def _graph_scales(boots: Sequence[Boot], fit: Fit) -> dict[str, float]:
    """One factor a class of versions on the graphs' formula, from captured sizes, discrete cards only."""
    scales = {}
    for (_, name, prior), upper in zip(SCALES, ((99,), SCALES[0][0], SCALES[1][0]), strict=True):
        low = next(v for v, n, _ in SCALES if n == name)
        threads: dict[str, list[float]] = defaultdict(list)
        for b in boots:
            if (
                b.measured.graphs is None
                or b.setup.v0
                or b.setup.sparse
                or not low <= b.setup.version < upper
                or b.setup.link == "unified"
            ):
                continue
            plain = graphs(b.setup, Fit(constants=fit.constants, graphs={name: 1.0})).bytes / GIB
            if plain > 2 * LEAST_GRAPHS:
                threads[b.thread].append((b.measured.graphs - LEAST_GRAPHS) / (plain - LEAST_GRAPHS))
        middle = [median(v) for v in threads.values()]
        scales[name] = round((fsum(middle) + 3 * prior) / (len(middle) + 3), 4)
    return scales


def _models(boots: Sequence[Boot], fit: Fit) -> dict[str, tuple[int, float]]:
    """A model's own correction of the activation, from at least MIN_ANCHORS logged peaks, drawn toward none."""
    misses: dict[str, list[float]] = defaultdict(list)
    for b in boots:
        if b.measured.activation is not None:
            guess = act.activation(b.setup, fit).bytes + encoder_part(b.setup, fit).bytes
            misses[key_of(b.anchor.model)].append(b.measured.activation - guess / GIB)
    return {
        model: (len(values), round(len(values) * median(values) / (len(values) + MODEL_WEIGHT), 4))
        for model, values in sorted(misses.items())
        if len(values) >= MIN_ANCHORS
    }
