"""What the layout rests on though the file does not state it: said once a value, never silent."""

from __future__ import annotations

from onboard.facts import Facts
from onboard.fields import FIELDS
from onboard.layers import Layer, WindowAttention, WindowLatent


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


def note_idle_windows(facts: Facts, layers: tuple[Layer, ...]) -> None:
    """A window at or above the longest context changes nothing: such layers grow like any other."""
    longest = facts.used.get("max_model_len")
    windows = {c.window for layer in layers for c in layer.caches if isinstance(c, (WindowAttention, WindowLatent))}
    if longest is not None and windows and min(windows) >= longest.value:
        said = f"a window of {min(windows)} holds the whole context of {longest.value}: these layers grow to the end"
        facts.caution("window-not-effective", "sliding_window", said)


def _leaves_window_out(facts: Facts) -> bool:
    """Whether the class has a window that is off by default, and the file says nothing of it."""
    declared = "sliding_window" in facts.defaults and facts.defaults["sliding_window"] is None
    return declared and "sliding_window" in facts.asked and facts.find("sliding_window") is None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
