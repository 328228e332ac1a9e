"""The longest context a model states, with rope scaling as vLLM 0.33 applies it.

The smallest stated length counts; `model_max_length` in the config (Command R) replaces it. A window never shortens
it. A rope `factor` multiplies it, except for kinds whose stated length is already scaled. Source: `config/model.py`,
_get_and_verify_max_len.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from onboard.facts import Facts, whole
from onboard.fields import MAX_LENGTH_KEYS
from onboard.rules.knowledge import ALREADY_SCALED

# Rope kinds whose `factor` is already in the stated length.
UNSCALED = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "default", "mrope"}
)
LIMIT = 2**40
# The one length that is read before all others where positions are meant, not limits (llama.cpp's converter).
POSITION_KEYS = ("max_position_embeddings", "n_ctx", "n_positions", "max_length", "max_sequence_length")
_ONLY_POSITIONS = ("max_context_length",)


def record_max_model_len(facts: Facts) -> None:
    """Note `max_model_len` as a fact; nothing where no length is stated anywhere.

    LongRoPE models also get `original_max_model_len`, which vLLM takes as its default length.
    """
    length, where, origin = _stated(facts)
    if length is None:
        _record_positions(facts, length)
        return
    factor, kind = _factor(facts), _kinds(facts)
    if factor != 1 and facts.model_type not in ALREADY_SCALED:
        length, where, origin = int(length * factor), f"{where} x rope factor {factor:g}", "rule"
    facts.record("max_model_len", length, where, origin)
    _record_positions(facts, length)
    if "longrope" in kind or "su" in kind:
        original = facts.get("original_max_positions") or next(
            (
                p["original_max_position_embeddings"]
                for p in _ropes(facts)
                if _is_length(p.get("original_max_position_embeddings"))
            ),
            None,
        )
        if original is not None:
            top = facts.find("original_max_positions")
            where = top.where if top else f"{facts.path('rope_scaling')}.original_max_position_embeddings"
            facts.record("original_max_model_len", original, where, top.origin if top else "config")


def _record_positions(facts: Facts, length: int | None) -> None:
    """Note `stated_positions` where that is not the length, and `sequence_length`."""
    for name, keys in (("stated_positions", (*POSITION_KEYS, *_ONLY_POSITIONS)), ("sequence_length", ("seq_length",))):
        found = next(((k, v) for k in keys if _is_length(v := facts.text.get(k))), None)
        if found is None:
            found = next(((k, v) for k in keys[:1] if _is_length(v := facts.defaults.get(k))), None)
        if found is not None and (found[1] != length or name == "sequence_length"):
            facts.record(name, int(found[1]), facts.prefix + found[0], "config")


def _stated(facts: Facts) -> tuple[int | None, str, str]:
    """The smallest length that the file states, else that the class holds."""
    found = _lengths(facts, facts.text, facts.prefix)
    where, origin = facts.prefix, "config"
    if not found:
        found = _lengths(facts, facts.defaults, f"{facts.class_name}.")
        where, origin = f"{facts.class_name}.", "class-default"
    if not found:
        return None, "", ""
    key = "model_max_length" if "model_max_length" in found else min(found, key=lambda k: found[k])
    return found[key], where + key, origin


def _lengths(facts: Facts, holder: Mapping[str, Any], prefix: str) -> dict[str, int]:
    """Lengths of a mapping. One beyond 2^40 is a tokenizer's way to say that there is none."""
    found = {}
    for key in MAX_LENGTH_KEYS:
        value = holder.get(key)
        if value is None:
            continue
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > LIMIT:
            facts.caution("no-limit-sentinel", key, "beyond 2^40 tokens: taken as not stated")
            continue
        length = whole(value, prefix + key, -1, LIMIT)
        if length > 0:
            found[key] = length
    return found


def _is_length(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= LIMIT


def _ropes(facts: Facts) -> Iterator[Mapping[str, Any]]:
    """Rope parameters: one mapping, or one a layer type."""
    stated = facts.get("rope_scaling")
    if not isinstance(stated, Mapping):
        return
    nested = [value for value in stated.values() if isinstance(value, Mapping)]
    yield from nested or [stated]


def _kinds(facts: Facts) -> set[str]:
    return {str(p.get("rope_type") or p.get("type") or "default") for p in _ropes(facts)}


def _factor(facts: Facts) -> float:
    factor = 1.0
    for rope in _ropes(facts):
        value = rope.get("factor")
        scaled = str(rope.get("rope_type") or rope.get("type") or "default") in UNSCALED
        if not scaled and isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**20:
            factor = float(value)
    return factor
