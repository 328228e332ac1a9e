"""Models that generate no tokens keep no cache. Said plainly, never guessed from a name."""

from __future__ import annotations

from collections.abc import Mapping

from onboard.facts import Facts


def keeps_nothing(facts: Facts) -> bool:
    """Whether the model only encodes; a caution says why.

    A flag in the file decides first (`is_decoder`, `is_causal`, `use_bidirectional_attention`), then an
    architecture that names the encoder half, then the class.
    """
    reason = _reason(facts)
    if reason:
        facts.caution("no-cache", "model_type", f"{reason}; it encodes in one pass and keeps no cache")
    return bool(reason)


def _reason(facts: Facts) -> str:
    if facts.get("is_decoder") and facts.origin("is_decoder") == "config":
        return ""
    if facts.has("is_causal") and facts.get("is_causal") is False:
        return "is_causal is false"
    if facts.get("bidirectional_attention") in (True, "all"):
        return "use_bidirectional_attention is on"
    names = _architectures(facts.root)
    halves = [name for name in names if name.endswith(("EncoderModel", "EncoderOnlyModel"))]
    if halves and len(halves) == len(names):
        return f"{halves[0]} is the encoder alone"
    if not facts.generates and not facts.get("is_encoder_decoder"):
        return f"{facts.class_name} is an encoder"
    return ""


def _architectures(root: Mapping[str, object]) -> list[str]:
    listed = root.get("architectures")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, (list, tuple)) else []
