"""Words and lists that say what layers are, made into labels and indices; what is none is refused by its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onboard.errors import FieldInvalid, UnknownLayerKind
from onboard.facts import Facts
from onboard.rules.recurrent_labels import CONV, FULL, LINEAR, MLP, MOE

# Another name for a label -> the label. transformers 5.24 `remap_legacy_layer_types`; the files themselves.
RENAMES: dict[str, str] = {
    "mamba": LINEAR,
    "mamba2": LINEAR,
    "recurrent": LINEAR,
    "linear": LINEAR,
    "kda": LINEAR,
    "short_conv": CONV,
    "attention": FULL,
    "full": FULL,
}

# One character a layer (transformers 5.24 `NemotronHConfig._pattern_to_list`; vLLM 0.33 `models/nemotron_h.py`).
PATTERN_CHARACTERS: dict[str, str] = {"M": LINEAR, "*": FULL, "E": MOE, "-": MLP}


def named(facts: Facts, names: Sequence[Any], path: str) -> tuple[str, ...]:
    """Labels of a list of names. Raises FieldInvalid where an entry is no text."""
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise FieldInvalid(
                f"layer {index} has no name but {name!r}", path=f"{facts.prefix}{path}[{index}]", value=name
            )
    return tuple(RENAMES.get(name, name) for name in names)


def pattern_labels(facts: Facts, pattern: str, path: str) -> tuple[str, ...]:
    """Labels of a pattern string. Raises UnknownLayerKind for a character that no layer has."""
    for index, character in enumerate(pattern):
        if character not in PATTERN_CHARACTERS:
            raise UnknownLayerKind(
                f"character {index} of {path} is {character!r}",
                path=f"{facts.prefix}{path}[{index}]",
                value=character,
                hint="known: " + " ".join(PATTERN_CHARACTERS),
            )
    return tuple(PATTERN_CHARACTERS[character] for character in pattern)


def indices(facts: Facts, name: str, values: Any, count: int, first: int = 0) -> frozenset[int]:
    """Layer indices, counted from 0, of a list that counts from `first`. Raises where one is no layer."""
    if not isinstance(values, (list, tuple)):
        raise FieldInvalid(f"{name} must be a list of layers", path=facts.prefix + name, value=repr(values)[:200])
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not first <= value < count + first:
            raise FieldInvalid(
                f"{name} names layer {value!r} of {count} (counted from {first})",
                path=facts.prefix + name,
                value=value if isinstance(value, int) else repr(value),
            )
    return frozenset(value - first for value in values)
