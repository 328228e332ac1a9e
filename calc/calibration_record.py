"""What a calibration holds: one measured figure beside its prediction, and all of them."""

from __future__ import annotations

from typing import Any

from onboard.values import Struct, fields


class Record(Struct, frozen=True, kw_only=True):
    """One figure of one anchor, in bytes. `verdict` and `booted` belong to whole boots; `kind` is the class of boot."""

    id: str
    set: str
    model: str
    engine: str
    quantity: str
    source: str
    thread: str
    predicted_bytes: int
    low_bytes: int
    high_bytes: int
    measured_bytes: int
    held_out: bool = True
    verdict: str | None = None
    booted: bool = True
    kind: str = ""
    utilisation_bytes: int = 0  # utilisation x nominal memory: what the specification's check compares with

    @property
    def residual_bytes(self) -> int:
        return self.measured_bytes - self.predicted_bytes

    @property
    def covered(self) -> bool:
        return self.low_bytes <= self.measured_bytes <= self.high_bytes

    def to_json(self) -> dict[str, Any]:
        """The contract's mapping, and `class`."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("kind", "utilisation_bytes")}
        return {**found, "residual_bytes": self.residual_bytes, "class": self.kind}


class Calibration(Struct, frozen=True):
    """Everything `calc calibration` shows. `skipped` are anchors that no rule can speak about, with the reason."""

    records: tuple[Record, ...]
    skipped: tuple[tuple[str, str], ...]

    def of(self, quantity: str, set_name: str = "boots") -> tuple[Record, ...]:
        return tuple(r for r in self.records if r.quantity == quantity and r.set == set_name)
