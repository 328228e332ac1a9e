"""A boot log beside its prediction: which printed figures agree, and which assumption a difference points at.

Nothing here knows an engine: each gives its own lines, settings and suspicions in `calc/engines/<engine>/log.py` as
`LOG`, an `EngineLog`. An engine without that file has no boot logs.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calc.bootlog_lines import ENCODED, LogFacts, Printed, clean, lines_of, printed_of
from calc.cards import card_of
from calc.engine_log import EngineLog, Finding
from calc.engines import ENGINES
from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Prediction
from onboard.errors import BadLog, Refusal
from onboard.profile import Profile
from onboard.values import Struct, replace


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
    """A boot as its log tells it: each figure beside its prediction, what differences point at, and what to try."""

    lines: tuple[LineReport, ...]
    diagnosis: tuple[Finding, ...]
    flags: tuple[str, ...]
    plan: Plan
    engine: str
    failed: bool
    num_boots: int = 1  # in the file; the last is reported
    first_line: int = 1

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
            "num_boots": self.num_boots,
            "first_line": self.first_line,
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
    keys = (*ENCODED, *dict.fromkeys(k.encode() for log in logs.values() for k in log.keys))
    facts = {name: LogFacts() for name in logs}
    before: dict[str, LogFacts] = {}
    marked = dict.fromkeys(logs, 0)
    number = 0
    for number, line in lines_of(path, keys):
        text = clean(line)
        for name, log in logs.items():
            if facts[name].printed and log.starts.search(text):  # another boot: only the last one counts
                before[name] = facts[name]
                facts[name] = LogFacts(num_boots=before[name].num_boots + 1, first_line=number)
            marked[name] += any(mark in text for mark in log.marks)
            for pattern in log.patterns:
                found = printed_of(number, text, pattern)
                if found:
                    facts[name].add(found)
            log.setting(text, facts[name].settings)
    for name, earlier in before.items():
        if not facts[name].printed and not logs[name].failures(facts[name]):  # it had only begun
            facts[name] = earlier
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
    failed = bool(findings)
    if any(line.within_rounding is False for line in lines if not line.estimated):
        suspicions, answers = _suspicions(profile, plan, log, facts, lines)
        findings += suspicions
        findings += _estimates_off(tuple(_line(p, answers, log) for p in facts.printed) if answers else lines)
    else:
        findings += _batches_off(profile, plan, log, facts, lines)
        findings += _estimates_off(lines)
    return BootReport(
        lines=lines,
        diagnosis=tuple(findings),
        flags=_remedies(profile, plan, log, facts) if failed else (),
        plan=plan,
        engine=log.engine,
        failed=failed,
        num_boots=facts.num_boots,
        first_line=facts.first_line,
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
) -> tuple[list[Finding], list[Prediction]]:
    """The assumptions under which every cache figure agrees, those alone that contradict least else of the log, and
    the predictions under the first; where none agrees, the size of the difference.
    """
    compared = [x.printed for x in lines if not x.estimated and x.within_rounding is not None]
    agreeing: list[tuple[int, Finding, list[Prediction]]] = []
    for finding, other, changed in log.suspects(profile, plan):
        try:
            answers = _answers(other, changed, log, facts)
        except Refusal:
            continue
        if all(_line(p, answers, log).within_rounding is not False for p in compared):
            loaded = (_line(p, answers, log) for p in facts.all("weights"))
            against = any(line.within_rounding is False for line in loaded) + _against(changed, plan, facts.settings)
            agreeing.append((against, finding, answers))
    if agreeing:
        least = min(against for against, _, _ in agreeing)
        best = [(finding, answers) for against, finding, answers in agreeing if against == least]
        kinds: dict[str, Finding] = {}
        for finding, _ in best:
            kinds.setdefault(finding.kind, finding)
        if len(kinds) > 1:  # a mistake of counting is the last thing to suspect of an engine
            kinds.pop("layer-set", None)
        return list(kinds.values()), next(answers for finding, answers in best if finding.kind in kinds)
    ratios = [
        f"line {line.printed.line} {line.printed.quantity}: printed is "
        f"{line.printed.value / line.predicted:.4g} times the prediction"
        for line in lines
        if line.within_rounding is False and line.predicted and not line.estimated
    ]
    return [Finding("unexplained", "; ".join(ratios[:4]) or "no single assumption explains the difference")], []


#: A process count that did not take effect is what a difference often means, whatever the log states.
_DOUBTED = frozenset({"tensor_parallel_size"})


def _against(changed: Plan, plan: Plan, settings: dict[str, Any]) -> int:
    """How many knobs an assumption changes that the log itself states."""
    stated = {k for k, v in settings.items() if v != "auto" and k not in _DOUBTED}
    if "version" in stated:
        stated.add("engine")
    return sum(name in stated and getattr(changed, name) != getattr(plan, name) for name in Plan.__struct_fields__)


#: Batch flags that the activation peak depends on, and the values worth trying where a log does not state them.
BATCHES: dict[str, tuple[int, ...]] = {
    "max_num_seqs": (16, 64, 128, 256, 512, 1024),
    "max_num_batched_tokens": (2048, 4096, 8192, 16384),
}


def _batches_off(
    profile: Profile, plan: Plan, log: EngineLog, facts: LogFacts, lines: tuple[LineReport, ...]
) -> list[Finding]:
    """The batch flags, one at a time, under which a printed activation peak that differs would be as predicted."""
    if not any(x.printed.quantity == "activation" and x.within_rounding is False for x in lines):
        return []
    found = []
    for name, sizes in BATCHES.items():
        if name in facts.settings:
            continue
        for size in sizes:
            if size == getattr(plan, name):
                continue
            try:
                answers = _answers(profile, replace(plan, **{name: size}), log, facts)
            except Refusal:
                continue
            tried = [_line(p, answers, log) for p in facts.printed]
            figures = [x for x in tried if x.printed.quantity == "activation" or not x.estimated]
            if all(x.within_rounding is not False for x in figures):
                flag = name.replace("_", "-")
                kind = "batched-tokens" if name == "max_num_batched_tokens" else "max-num-seqs"
                found.append(Finding(kind, f"the activation peak printed is that of --{flag} {size:,}"))
                break
    return found


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
            pool = log.pools(profile, replace(plan, **change), facts)[0]
            if predict(profile, _resized(pool, plan)).verdict != "FAIL":
                found.append(flag)
        except Refusal:
            continue
    return tuple(dict.fromkeys(found))


def _resized(pool: Plan, before: Plan) -> Plan:
    """A printed pool was sized by the old share of the card: what another share adds or takes moves it."""
    now, old = pool.gpu_memory_utilization, before.gpu_memory_utilization
    if pool.kv_cache_memory_bytes is None or now is None or now == old:
        return pool
    if old is None:
        return replace(pool, kv_cache_memory_bytes=None)
    moved = round((now - old) * card_of(pool.card, pool.vram_gib).usable_bytes)
    return replace(pool, kv_cache_memory_bytes=max(0, pool.kv_cache_memory_bytes + moved))
