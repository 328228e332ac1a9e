"""How a field is asked for: the spellings that configs use, its type and its sane range."""

from __future__ import annotations

from typing import Literal

from onboard.values import Struct

FieldType = Literal["int", "float", "bool", "str", "list", "dict", "any"]


class Field(Struct, frozen=True):
    """`spellings` in order of precedence; `low`..`high` bound an int (each entry, where a list stands for one).

    A dot in a spelling steps into a nested mapping (`attn_config.kv_n_heads`).
    """

    spellings: tuple[str, ...]
    type: FieldType = "int"
    low: int = 1
    high: int = 2**40
    per_layer: bool = False  # a list, one entry a layer, may stand for the single value
    root: bool = False  # a composite may state it beside its text model instead of inside


def count(*spellings: str, high: int = 2**24, low: int = 1) -> Field:
    """A whole number of things."""
    return Field(spellings, "int", low, high)
