"""What the layout rests on though the file does not state it: said once a value, never silent."""

from __future__ import annotations

from onboard.errors import Caution
from onboard.facts import Facts
from onboard.fields import FIELDS, MAX_LENGTH_KEYS
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


# Sizes that no cache rests on, and that weights, the activation's peak or the longest context do.
SIZES = (
    "hidden_size", "vocab_size", "intermediate_size", "num_experts", "num_experts_per_token", "moe_intermediate_size",
)  # fmt: skip


def note_sizes(facts: Facts) -> None:
    """As `note_defaults`, of sizes beside the layers', the dtype and the longest context."""
    for name in SIZES:
        found, spelling = facts.find(name), FIELDS[name].spellings[0]
        if found is not None and found.origin == "class-default":
            facts.caution("defaulted-field", spelling, f"not stated; {found.where} holds {_short(found.value)}")
        if facts.stated_null(name):
            facts.caution("null-field", spelling, "null: taken as not stated, and no class constant replaces it")
    if facts.find("dtype") is None:
        facts.caution("defaulted-field", "dtype", "not stated: two bytes an element, as engines choose")
    routed = {name: facts.get(name) for name in ("num_experts", "num_experts_per_token")}
    if any(routed.values()) and None in routed.values():
        name = next(name for name, value in routed.items() if value is None)
        facts.caution("defaulted-field", FIELDS[name].spellings[0], "not stated beside other fields of experts")
    if not facts.known and facts.get("num_experts") and facts.get("moe_intermediate_size") is None:
        facts.caution("defaulted-field", "moe_intermediate_size", "not stated: experts taken as wide as a dense MLP")
    if not facts.root.get("architectures"):
        said = "not stated: engines choose the model's code, its encoder and its kernels by it"
        facts.cautions.append(Caution("defaulted-field", "architectures", said))
    longest = facts.used.get("max_model_len")
    if longest is None:
        facts.caution("defaulted-field", "max_position_embeddings", "not stated, nor is any other length")
    elif longest.origin != "config" and not _states_length(facts):
        facts.caution("defaulted-field", "max_position_embeddings", f"not stated; {longest.where} is {longest.value}")


def _states_length(facts: Facts) -> bool:
    return any(facts.text.get(key) is not None for key in MAX_LENGTH_KEYS)


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
