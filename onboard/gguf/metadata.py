"""GGUF metadata behind typed questions, each answer with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.errors import BadGguf, Caution, FieldInvalid, FieldMissing, LayerCountMismatch
from onboard.gguf.reader import LongArray
from onboard.sourced import Sourced

MAX_LAYERS = 4096
LOW, HIGH = 0, 2**40


class Metadata:
    """Keys of one architecture, asked by their name without the prefix. `used` collects facts by our names."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        name = raw.get("general.architecture")
        if not isinstance(name, str) or not name:
            raise BadGguf("the file does not state general.architecture", path="general.architecture", value=name)
        self.arch = name
        self.used: dict[str, Sourced] = {}
        self.cautions: list[Caution] = []
        self.num_blocks = self.need_int("block_count", "num_blocks", low=1)
        if self.num_blocks > MAX_LAYERS:
            raise FieldInvalid(f"block_count {self.num_blocks} is beyond {MAX_LAYERS}", path=self.key("block_count"))

    def key(self, name: str) -> str:
        return f"{self.arch}.{name}"

    def value(self, name: str) -> Any:
        """The raw value, or None where the file does not state it."""
        return self.raw.get(self.key(name))

    def get_int(self, name: str, fact: str = "", *, low: int = LOW) -> int | None:
        """An integer, or None where absent. Raises FieldInvalid for another type or range."""
        value = self.value(name)
        if value is None:
            return None
        number = self._int(name, value, low)
        if fact:
            self.used[fact] = Sourced(number, "header", self.key(name))
        return number

    def need_int(self, name: str, fact: str = "", *, low: int = LOW) -> int:
        number = self.get_int(name, fact, low=low)
        if number is None:
            raise FieldMissing(f"the file states no {self.key(name)}", path=self.key(name), hint="convert it again")
        return number

    def per_layer(self, name: str, num_layers: int) -> tuple[int, ...] | None:
        """One integer a layer, from a scalar or an array; None where absent.

        Raises LayerCountMismatch where an array does not have an entry for every block.
        """
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, (tuple, LongArray)):
            return (self._int(name, value, LOW),) * num_layers
        length = value.num_entries if isinstance(value, LongArray) else len(value)
        if not isinstance(value, tuple) or length not in (num_layers, self.num_blocks):
            raise LayerCountMismatch(
                f"{self.key(name)} has {length} entries for {self.num_blocks} blocks",
                path=self.key(name),
                value=length,
                hint="the file is damaged or was read in part",
            )
        return tuple(self._int(name, v, LOW) for v in value[:num_layers])

    def scalar_fact(self, name: str, fact: str) -> None:
        """Note a value, or its largest entry where it is an array, as a fact."""
        values = self.per_layer(name, self.num_blocks)
        if values:
            self.used[fact] = Sourced(max(values), "header", self.key(name))

    def record(self, fact: str, value: Any, where: str) -> None:
        self.used[fact] = Sourced(value, "rule" if where.startswith("rule") else "header", where)

    def caution(self, kind: str, where: str, message: str) -> None:
        self.cautions.append(Caution(kind, self.key(where), message))

    def _int(self, name: str, value: Any, low: int) -> int:
        if isinstance(value, bool):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise FieldInvalid(f"{self.key(name)} must be an integer", path=self.key(name), value=str(value))
        if not low <= value <= HIGH:
            raise FieldInvalid(f"{self.key(name)} is outside {low} to {HIGH}", path=self.key(name), value=value)
        return value
