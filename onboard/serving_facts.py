"""Facts that no layer rests on and an engine's defaults do: a nested text model, the vision tower, a window switch.

Sources: SGLang 0.5.23 arg_groups/memory_hook.py adjust_mem_fraction_for_vlm (`vision_config.num_hidden_layers` and
`hidden_size`), configs/model_config.py is_hybrid_swa_model (`text_config.is_hybrid_swa`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.facts import Facts

VISION_KEY = "vision_config"
LAYERS = ("num_hidden_layers", "vt_num_hidden_layers")
HIDDEN = ("hidden_size", "vt_hidden_size")
_LIMITS = {"vision_num_layers": 10_000, "vision_hidden_size": 2**20}


def record_serving_facts(facts: Facts) -> None:
    """Note what the file states. Values that cannot be true are left out: no figure of ours needs them."""
    tower = facts.root.get(VISION_KEY)
    if isinstance(tower, Mapping):
        facts.record("has_vision_config", True, VISION_KEY, "config")
        _note(facts, tower, "vision_num_layers", LAYERS)
        _note(facts, tower, "vision_hidden_size", HIDDEN)
    if facts.prefix:
        facts.record("text_model_at", facts.prefix.rstrip("."), facts.prefix.rstrip("."), "config")
    if facts.text.get("is_hybrid_swa") is True:
        facts.record("is_hybrid_swa", True, facts.prefix + "is_hybrid_swa", "config")
    facts.find("qk_rope_head_dim")


def _note(facts: Facts, tower: Mapping[str, Any], name: str, spellings: tuple[str, ...]) -> None:
    for spelling in spellings:
        value = tower.get(spelling)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LIMITS[name]:
            facts.record(name, value, f"{VISION_KEY}.{spelling}", "config")
            return
