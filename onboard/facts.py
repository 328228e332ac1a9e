"""Facts: one question at a time of a config, by our names, each answer with its origin.

Order: the file (an explicit null suppresses the class's constant, as it does in the class itself), then the
class's default. What is asked is recorded, so a profile lists every value it rests on and a warning names
every value that the file does not state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.errors import Caution, FieldInvalid, FieldMissing
from onboard.field_spec import Field
from onboard.fields import FIELDS
from onboard.sourced import Sourced

_MISSING = object()
_TYPES: dict[str, type | tuple[type, ...]] = {
    "float": (int, float), "bool": bool, "str": str, "list": (list, tuple), "dict": Mapping,
}  # fmt: skip


class Facts:
    """The text model's mapping, the whole file's, and the class defaults, behind typed getters."""

    def __init__(
        self,
        text: Mapping[str, Any],
        *,
        root: Mapping[str, Any] | None = None,
        prefix: str = "",
        model_type: str = "",
        defaults: Mapping[str, Any] | None = None,
        class_name: str = "",
        known: bool = True,
        generates: bool = True,
        unread: frozenset[str] = frozenset(),
    ) -> None:
        self.text = text
        self.root = text if root is None else root
        self.prefix = prefix
        self.model_type = model_type
        self.class_name = class_name
        self.known = known
        self.generates = generates
        self._unread = unread
        self.defaults = defaults or {}
        self.used: dict[str, Sourced] = {}
        self.asked: set[str] = set()
        self._absent: set[str] = set()
        self.cautions: list[Caution] = []
        self._layers: dict[int, Mapping[str, Any]] | None = None

    # --- asking -------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Sourced | None:
        """The value of `name` with its origin, or None where neither file nor class states it."""
        if name in self.used:
            self.asked.add(name)
            return self.used[name]
        if name in self._absent:
            return None
        self.asked.add(name)
        found = None if name in self._unread else self._looked_up(name)
        if found is None:
            self._absent.add(name)
        else:
            self.used[name] = found
        return found

    def _looked_up(self, name: str) -> Sourced | None:
        spec = FIELDS[name]
        spelling, value, where = self._spelled(spec)
        if value is not _MISSING and value is not None:
            return Sourced(self._checked(spec, where, value), "config", where)
        if value is None:
            return None
        spelling, value = self._default(spec)
        if value is None:
            return None
        where = f"{self.class_name}.{spelling}"
        return Sourced(self._checked(spec, where, value), "class-default", where)

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

    def layer(self, name: str, index: int) -> Any:
        """The value of `name` in one layer: `per_layer_config`, an entry of a per-layer list, or the one value."""
        own = self._layer_override(name, index)
        if own is not None:
            return own
        found = self.find(name)
        if found is None or not isinstance(found.value, tuple):
            return None if found is None else found.value
        if index >= len(found.value):
            raise FieldInvalid(
                f"{found.where} has {len(found.value)} entries and no entry {index}",
                path=found.where, value=len(found.value), hint="one entry a layer",
            )  # fmt: skip
        return found.value[index]

    def differs_by_layer(self) -> bool:
        """Whether any field that may be a list a layer is one here."""
        spelled = (n for n, spec in FIELDS.items() if spec.per_layer or n == "heads_per_layer")
        listed = (self.used[n].value if n in self.used else self._spelled(FIELDS[n])[1] for n in spelled)
        return bool(self._overrides()) or any(isinstance(value, (list, tuple)) for value in listed)

    def need_layer(self, name: str, index: int) -> Any:
        """As `layer`. Raises FieldMissing where nothing states it."""
        found = self.layer(name, index)
        return self.need(name) if found is None else found

    def origin(self, name: str) -> str:
        """The origin of what `find` answers, or "" where it answers nothing."""
        found = self.find(name)
        return "" if found is None else found.origin

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

    def forget(self, *names: str) -> None:
        """Take values back: they are answered as stated nowhere from here on."""
        for name in names:
            self.used.pop(name, None)
            self._absent.add(name)

    def caution(self, kind: str, where: str, message: str) -> None:
        """Say something once. `where` is a key of the text model."""
        entry = Caution(kind, self.prefix + where, message)
        if entry not in self.cautions:
            self.cautions.append(entry)

    def path(self, name: str) -> str:
        """Where `name` stands, or would stand, in the file."""
        spelling, _, where = self._spelled(FIELDS[name])
        return where if spelling else self.prefix + FIELDS[name].spellings[0]

    # --- reading ------------------------------------------------------------------------------------------------

    def _spelled(self, spec: Field) -> tuple[str, Any, str]:
        null: tuple[str, Any, str] | None = None
        for holder, prefix in ((self.text, self.prefix), *(((self.root, ""),) if spec.root else ())):
            for spelling in spec.spellings:
                value = _step(holder, spelling)
                if value is None and null is None:
                    null = (spelling, None, prefix + spelling)
                elif value is not None and value is not _MISSING:
                    return spelling, value, prefix + spelling
        return null or ("", _MISSING, "")

    def _default(self, spec: Field) -> tuple[str, Any]:
        for spelling in spec.spellings:
            value = _step(self.defaults, spelling)
            if value is not _MISSING and value is not None:
                return spelling, value
        return "", None

    def _layer_override(self, name: str, index: int) -> Any:
        """The entry of `per_layer_config` for one layer; its keys are indices as text, some padded ("05")."""
        entry = self._overrides().get(index)
        if entry is None:
            return None
        spec, path = FIELDS[name], f"{self.path('per_layer_config')}.{index}"
        for spelling in spec.spellings:
            if entry.get(spelling) is not None:
                return self._checked(spec, f"{path}.{spelling}", entry[spelling])
        return None

    def _overrides(self) -> Mapping[int, Mapping[str, Any]]:
        if self._layers is None:
            self._layers = {}
            for key, entry in (self.get("per_layer_config") or {}).items():
                path = f"{self.path('per_layer_config')}.{key}"
                if not isinstance(entry, Mapping):
                    raise FieldInvalid(f"{path} must be a mapping", path=path, value=type(entry).__name__)
                if not str(key).isdecimal() or len(str(key)) > 9:
                    raise FieldInvalid(f"{path} is no layer index", path=path, value=str(key)[:80])
                self._layers[int(key)] = entry
        return self._layers

    def _checked(self, spec: Field, path: str, value: Any) -> Any:
        if spec.type == "int":
            if spec.per_layer and isinstance(value, (list, tuple)):
                return tuple(whole(v, f"{path}[{i}]", spec.low, spec.high) for i, v in enumerate(value))
            return whole(value, path, spec.low, spec.high)
        if spec.type != "any" and not isinstance(value, _TYPES[spec.type]):
            raise FieldInvalid(f"{path} must be a {spec.type}, not {type(value).__name__}", path=path, value=value)
        return tuple(value) if spec.type == "list" else value


def whole(value: Any, path: str, low: int = 0, high: int = 2**40) -> int:
    """`value` as an integer of `low` to `high`. Raises FieldInvalid, naming `path`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        digits = value.strip() if isinstance(value, str) else ""
        raise FieldInvalid(
            f"{path} must be an integer, not {type(value).__name__}",
            path=path,
            value=value,
            hint=f"write {digits[:40]} without quotes" if digits.lstrip("-").isdecimal() else "correct the config",
        )
    if not low <= value <= high:
        raise FieldInvalid(f"{path} is outside {low} to {high}", path=path, value=value, hint="correct the config")
    return value


def _step(holder: Mapping[str, Any], spelling: str) -> Any:
    """The value under a dotted spelling, or _MISSING."""
    if "." not in spelling:
        return holder.get(spelling, _MISSING)
    value: Any = holder
    for part in spelling.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value
