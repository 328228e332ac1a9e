"""What the layout rests on though the file does not state it: said once a value, never silent."""

from __future__ import annotations

from onboard.facts import Facts
from onboard.fields import FIELDS


def note_defaults(facts: Facts) -> None:
    """Cautions for what the layers asked for and the file does not say: class constants, nulls, windows left out.

    To be called when the layers are built and before anything else is asked.
    """
    for name in sorted(facts.asked & FIELDS.keys()):
        found, spelling = facts.used.get(name), FIELDS[name].spellings[0]
        if found is not None and found.origin == "class-default":
            facts.caution("defaulted-field", spelling, f"not stated; {found.where} holds {_short(found.value)}")
        if facts.stated_null(name):
            facts.caution("null-field", spelling, "null: taken as not stated, and no class constant replaces it")
    if _leaves_window_out(facts):
        facts.caution("defaulted-field", "sliding_window", f"not stated; {facts.class_name} then lets no layer slide")


def _leaves_window_out(facts: Facts) -> bool:
    """Whether the class has a window that is off by default, and the file says nothing of it."""
    declared = "sliding_window" in facts.defaults and facts.defaults["sliding_window"] is None
    return declared and "sliding_window" in facts.asked and facts.find("sliding_window") is None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
