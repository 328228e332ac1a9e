"""A value and where it came from. Every figure in a profile is one of these."""

from __future__ import annotations

from typing import Any, Literal

from onboard.values import Struct

Origin = Literal["config", "class-default", "rule", "header", "override"]
Scalar = int | float | str | bool


class Sourced(Struct, frozen=True):
    """`value` with its `origin` and `where` (a config path, a class and attribute, or the rule that computed it)."""

    value: Any
    origin: Origin
    where: str

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "origin": self.origin, "where": self.where}
