"""The contract of an engine's logs: the lines it prints, what they state, and what a difference may point at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

from calc.bootlog_lines import LinePattern, LogFacts
from calc.plan import Plan
from calc.prediction import Prediction, Term
from onboard.profile import Profile
from onboard.values import Struct


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
    starts: re.Pattern[str]  # a line with which a boot begins, before any figure of it
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


def loaded_range(terms: Iterable[Term]) -> Predicted | None:
    """What weights take, low to high. A size given by hand is meant to about its second digit."""
    found = list(terms)
    slack = [t.bytes // 100 if t.origin == "option" else 0 for t in found]
    low = sum(t.low - s for t, s in zip(found, slack, strict=True))
    return (float(low), float(sum(t.high + s for t, s in zip(found, slack, strict=True)))) if found else None
