"""What every recurrent state is made of: named tensors on one card."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar

from onboard.errors import FieldMissing
from onboard.layers import CacheSpec
from onboard.values import Struct


class StateTensor(Struct, frozen=True):
    """One tensor of a state: shape in elements on one card, dtype name ("model" is the model's own)."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "model"

    @property
    def elements(self) -> int:
        return prod(self.shape)


class StateCache(CacheSpec, frozen=True):
    """Base of every recurrent state. `family` names the mechanism, as in the contract."""

    kind: ClassVar[str] = "state"
    family: ClassVar[str] = ""

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        """The tensors that one of `tp` cards holds for one sequence."""
        raise NotImplementedError

    def undivided(self, tp: int) -> str | None:
        """Why `tp` cards cannot share the state, or None."""
        return next((f"{n} {what} do not divide by {tp}" for what, n in self.divided().items() if n % tp), None)

    def divided(self) -> Mapping[str, int]:
        """What TP cuts: the thing's name and how many of them there are. Empty where every card keeps all."""
        return {}

    def state_elements(self) -> int:
        return sum(t.elements for t in self.tensors())

    def to_json(self, model_dtype: str = "model") -> dict[str, Any]:
        return {
            "family": self.family,
            "states": [
                {"name": t.name, "shape": list(t.shape), "dtype": model_dtype if t.dtype == "model" else t.dtype}
                for t in self.tensors()
            ],
        }


class UnknownState(StateCache, frozen=True):
    """A recurrent layer whose sizes are stated nowhere: which layers is known, their bytes are not and are refused."""

    family: ClassVar[str] = "unknown"
    missing: str

    def tensors(self, tp: int = 1) -> tuple[StateTensor, ...]:
        raise FieldMissing(
            "the sizes of the recurrent state are stated nowhere",
            path=self.missing,
            hint="state them in the config, or the layers in an override",
        )

    def to_json(self, model_dtype: str = "model") -> dict[str, Any]:
        return {"family": self.family, "states": []}
