"""What the layout rests on though the file does not state it: said once a value, never silent."""

from __future__ import annotations

from collections.abc import Mapping

from onboard.facts import Facts
from onboard.fields import FIELDS


def note_defaults(facts: Facts) -> None:
    """A caution for every class constant that the layers asked for, and for a window that a null turns off."""
    for name, found in sorted(facts.used.items()):
        if found.origin == "class-default" and name in FIELDS:
            said = f"not stated; {found.where} holds {_short(found.value)}"
            facts.caution("defaulted-field", FIELDS[name].spellings[0], said)
    if facts.stated_null("sliding_window") and _class_window(facts.defaults):
        facts.caution("window-off", "sliding_window", "null turns the class's own window off: no layer slides")


def _class_window(defaults: Mapping[str, object]) -> bool:
    return any(defaults.get(spelling) for spelling in FIELDS["sliding_window"].spellings)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
