"""Facts: one question at a time of a config, by our names, each answer with its origin.

Order: the file (an explicit null suppresses the class's constant, as it does in the class itself), then the
class's default. What is asked is recorded, so a profile lists every value it rests on and a warning names
every value that the file does not state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.errors import Caution, FieldInvalid, FieldMissing
from onboard.fields import FIELDS, Field
from onboard.sourced import Sourced

_MISSING = object()


class Facts:
    """The text model's mapping, the whole file's, and the class defaults, behind typed getters."""

    def __init__(
        self,
        text: Mapping[str, Any],
        *,
        root: Mapping[str, Any] | None = None,
        prefix: str = "",
        defaults: Mapping[str, Any] | None = None,
        class_name: str = "",
    ) -> None:
        self.text = text
        self.root = text if root is None else root
        self.prefix = prefix
        self._defaults = defaults or {}
        self._class_name = class_name
        self.used: dict[str, Sourced] = {}
        self.cautions: list[Caution] = []

    # --- asking -------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Sourced | None:
        """The value of `name` with its origin, or None where neither file nor class states it."""
        if name in self.used:
            return self.used[name]
        spec = FIELDS[name]
        spelling, value = self._spelled(spec)
        if value is not _MISSING and value is not None:
            found = Sourced(self._checked(name, spec, spelling, value), "config", self.prefix + spelling)
        elif value is None:
            return None
        else:
            default_spelling = next((s for s in spec.spellings if self._defaults.get(s) is not None), None)
            if default_spelling is None:
                return None
            found = Sourced(
                self._checked(name, spec, default_spelling, self._defaults[default_spelling]),
                "class-default",
                f"{self._class_name}.{default_spelling}",
            )
        self.used[name] = found
        return found

    def get(self, name: str) -> Any:
        """The bare value of `name`, or None."""
        found = self.find(name)
        return None if found is None else found.value

    def need(self, name: str, why: str = "") -> Any:
        """The bare value of `name`. Raises FieldMissing with the spellings that were looked for."""
        found = self.find(name)
        if found is None:
            spellings = FIELDS[name].spellings
            raise FieldMissing(
                f"the config states no {spellings[0]}" + (f", which {why}" if why else ""),
                path=self.prefix + spellings[0],
                hint="looked for " + ", ".join(spellings) + "; state it in the config or in an override",
            )
        return found.value

    def has(self, name: str) -> bool:
        """Whether the file itself states `name` (a null counts as not stated)."""
        return self._spelled(FIELDS[name])[1] not in (_MISSING, None)

    def stated_null(self, name: str) -> bool:
        """Whether the file states `name` as null."""
        return self._spelled(FIELDS[name])[1] is None

    def record(self, name: str, value: Any, where: str, origin: Any = "rule") -> Any:
        """Note a value that a rule computed, and return it."""
        self.used[name] = Sourced(value, origin, where)
        return value

    def caution(self, kind: str, where: str, message: str) -> None:
        entry = Caution(kind, self.prefix + where, message)
        if entry not in self.cautions:
            self.cautions.append(entry)

    # --- reading ------------------------------------------------------------------------------------------------

    def _spelled(self, spec: Field) -> tuple[str, Any]:
        null = ""
        for spelling in spec.spellings:
            if spelling in self.text:
                if self.text[spelling] is not None:
                    return spelling, self.text[spelling]
                null = null or spelling
        return (null, None) if null else ("", _MISSING)

    def _checked(self, name: str, spec: Field, spelling: str, value: Any) -> Any:
        path = self.prefix + spelling
        if spec.type == "int":
            if spec.per_layer and isinstance(value, (list, tuple)):
                return tuple(self._int(spec, f"{path}[{i}]", v) for i, v in enumerate(value))
            return self._int(spec, path, value)
        wanted: dict[str, type | tuple[type, ...]] = {
            "float": (int, float), "bool": bool, "str": str, "list": (list, tuple), "dict": Mapping,
        }
        if spec.type != "any" and not isinstance(value, wanted[spec.type]):
            raise FieldInvalid(f"{path} must be a {spec.type}, not {type(value).__name__}", path=path, value=value)
        return tuple(value) if spec.type == "list" else value

    @staticmethod
    def _int(spec: Field, path: str, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldInvalid(f"{path} must be an integer, not {type(value).__name__}", path=path, value=value)
        if not spec.low <= value <= spec.high:
            raise FieldInvalid(
                f"{path} is outside {spec.low} to {spec.high}", path=path, value=value, hint="correct the config"
            )
        return value
