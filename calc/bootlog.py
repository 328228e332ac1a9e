"""A boot log beside its prediction: which printed figures agree, and which assumption a difference points at.

Nothing here knows an engine: each gives its own lines, settings and suspicions in `calc/engines/<engine>/log.py` as
`LOG`, an `EngineLog`. An engine without that file has no boot logs.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from calc.bootlog_lines import LinePattern, LogFacts, Printed, clean, lines_of, printed_of
from calc.engines import ENGINES
from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Prediction
from onboard.errors import BadLog, Refusal
from onboard.profile import Profile
from onboard.values import Struct, replace


class Finding(Struct, frozen=True):
    """What a difference points at, or what the log says went wrong. `kind` is in kebab-case."""

    kind: str
    message: str


Predicted = tuple[float, float]  # the range that the rounding of the printed inputs, or an interval, leaves


class EngineLog(Protocol):
    """What an engine says about its own logs."""

    engine: str
    marks: tuple[str, ...]  # words of which every log of this engine holds one
    keys: tuple[str, ...]  # a line worth reading holds one of these
    patterns: tuple[LinePattern, ...]
    estimated: frozenset[str]  # quantities that are estimates; the others follow from the pool and the plan alone

    def setting(self, text: str, settings: dict[str, Any]) -> None:
        """Read version and flags from a line into `settings`, by Plan field name; `version` apart."""
        ...

    def plan(self, settings: dict[str, Any], facts: LogFacts, given: Plan) -> Plan:
        """The plan of the boot: what the user gave, then what the log states, then defaults."""
        ...

    def pools(self, profile: Profile, plan: Plan, facts: LogFacts) -> tuple[Plan, ...]:
        """The plan with the pool that the log printed: at the printed figure, and at both ends of its rounding."""
        ...

    def predicted(self, quantity: str, prediction: Prediction) -> Predicted | None:
        """The figure of a prediction that a printed quantity is compared with, None where there is none."""
        ...

    def suspects(self, profile: Profile, plan: Plan) -> tuple[tuple[Finding, Profile, Plan], ...]:
        """Other assumptions to try, each with what it would mean if its figures agree."""
        ...

    def failures(self, facts: LogFacts) -> tuple[Finding, ...]:
        """What the log itself says went wrong."""
        ...

    def remedies(self, facts: LogFacts) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Changes of the plan worth trying for a boot that failed: (flags as the engine spells them, Plan fields)."""
        ...


class LineReport(Struct, frozen=True):
    """One printed figure beside its prediction. `predicted` is None where nothing predicts it."""

    printed: Printed
    predicted: float | None
    within_rounding: bool | None
    estimated: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "line": self.printed.line, "quantity": self.printed.quantity, "printed": self.printed.value,
            "predicted": self.predicted, "within_rounding": self.within_rounding, "rank": self.printed.rank,
            "estimated": self.estimated,
        }  # fmt: skip


class BootReport(Struct, frozen=True):
    lines: tuple[LineReport, ...]
    diagnosis: tuple[Finding, ...]
    flags: tuple[str, ...]
    plan: Plan
    engine: str
    failed: bool

    @property
    def agrees(self) -> bool:
        """Whether every figure that follows from the pool and the plan is within what rounding allows."""
        return all(line.within_rounding is not False for line in self.lines if not line.estimated)

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "lines": [line.to_json() for line in self.lines],
            "diagnosis": [{"kind": f.kind, "message": f.message} for f in self.diagnosis],
            "flags": list(self.flags),
            "plan": self.plan.given(),
        }


def engine_logs() -> dict[str, EngineLog]:
    """The engines that read logs, by name."""
    found: dict[str, EngineLog] = {}
    for name, module in ENGINES.items():
        if find_spec(module) is not None and find_spec(f"{module}.log") is not None:
            found[name] = import_module(f"{module}.log").LOG
    return found


def read_log(path: str | Path) -> tuple[EngineLog, LogFacts]:
    """The engine whose lines the log holds, and what it printed. Raises BadLog where no engine knows a line."""
    logs, path = engine_logs(), Path(path)
    keys = tuple(dict.fromkeys(k.encode() for log in logs.values() for k in log.keys))
    facts = {name: LogFacts() for name in logs}
    marked = dict.fromkeys(logs, 0)
    number = 0
    for number, line in lines_of(path, keys):
        text = clean(line)
        for name, log in logs.items():
            marked[name] += any(mark in text for mark in log.marks)
            for pattern in log.patterns:
                found = printed_of(number, text, pattern)
                if found:
                    facts[name].add(found)
            log.setting(text, facts[name].settings)
    best = max(
        logs, key=lambda name: (len(facts[name].printed), sum(map(bool, facts[name].settings.values())), marked[name])
    )
    if not facts[best].printed and not any(facts[best].settings.values()):
        raise BadLog(
            f"{path.name} holds no line of a known engine among its {number:,}",
            path=str(path),
            hint="the log of an engine's start, as " + ", ".join(logs) + " print it",
        )
    facts[best].num_lines = number
    return logs[best], facts[best]


def compare(profile: Profile, given: Plan, log: EngineLog, facts: LogFacts) -> BootReport:
    """Every printed figure beside the prediction for the boot's own plan and pool."""
    plan = log.plan(facts.settings, facts, given)
    answers = _answers(profile, plan, log, facts)
    lines = tuple(_line(printed, answers, log) for printed in facts.printed)
    findings = list(log.failures(facts))
    if any(line.within_rounding is False for line in lines if not line.estimated):
        findings += _suspicions(profile, plan, log, facts, lines)
    findings += _estimates_off(lines)
    failed = bool(log.failures(facts))
    return BootReport(
        lines=lines,
        diagnosis=tuple(findings),
        flags=_remedies(profile, plan, log, facts) if failed else (),
        plan=plan,
        engine=log.engine,
        failed=failed,
    )


def _answers(profile: Profile, plan: Plan, log: EngineLog, facts: LogFacts) -> list[Prediction]:
    return [predict(profile, one) for one in log.pools(profile, plan, facts)]


def _line(printed: Printed, answers: list[Prediction], log: EngineLog) -> LineReport:
    """The first answer is at the printed pool; the others at the ends of its rounding."""
    ranges = [r for r in (log.predicted(printed.quantity, answer) for answer in answers) if r is not None]
    estimated = printed.quantity in log.estimated
    if not ranges:
        return LineReport(printed, None, None, estimated)
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    middle = (ranges[0][0] + ranges[0][1]) / 2
    shown = int(middle) if float(middle).is_integer() else round(middle, 4)
    return LineReport(printed, shown, printed.holds(low, high), estimated)


def _suspicions(
    profile: Profile, plan: Plan, log: EngineLog, facts: LogFacts, lines: tuple[LineReport, ...]
) -> list[Finding]:
    """The assumptions under which every cache figure agrees; where none does, the size of the difference."""
    compared = [x.printed for x in lines if not x.estimated and x.within_rounding is not None]
    found = []
    for finding, other, changed in log.suspects(profile, plan):
        try:
            answers = _answers(other, changed, log, facts)
        except Refusal:
            continue
        if all(_line(p, answers, log).within_rounding is not False for p in compared):
            found.append(finding)
    if found:
        return found
    ratios = [
        f"line {line.printed.line} {line.printed.quantity}: printed is "
        f"{line.printed.value / line.predicted:.4g} times the prediction"
        for line in lines
        if line.within_rounding is False and line.predicted and not line.estimated
    ]
    return [Finding("unexplained", "; ".join(ratios[:4]) or "no single assumption explains the difference")]


def _estimates_off(lines: tuple[LineReport, ...]) -> list[Finding]:
    """Sizes that are estimated, or depend on which weights were loaded: one finding a quantity."""
    found: dict[str, Finding] = {}
    for line in lines:
        name, predicted = line.printed.quantity, line.predicted
        if line.within_rounding is not False or not line.estimated or predicted is None:
            continue
        printed = line.printed.value / 2**30
        message = f"{printed:.2f} GiB printed, {predicted / 2**30:.2f} GiB predicted"
        if name == "weights":
            message += ": other weights were loaded; name them with --weights or --weights-gb"
        found.setdefault(name, Finding("weights" if name == "weights" else "estimate", f"{name}: {message}"))
    if "weights" in found:  # what is left for the cache differs for the same reason
        found.pop("kv_available", None)
    return list(found.values())


def _remedies(profile: Profile, plan: Plan, log: EngineLog, facts: LogFacts) -> tuple[str, ...]:
    """Flags under which the same card's pool would have started, each tried by a prediction."""
    found = []
    for flag, change in log.remedies(facts):
        if not change:
            found.append(flag)
            continue
        try:
            pools = log.pools(profile, replace(plan, **change), facts)
            if predict(profile, pools[0]).verdict != "FAIL":
                found.append(flag)
        except Refusal:
            continue
    return tuple(dict.fromkeys(found))
