"""What the weight tests share: a config's weights by rule, and its bytes on a card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calc.shard import Split
from calc.weights import variant_term
from onboard.derive import derive
from onboard.profile import Profile, SourceRef, WeightVariant


def profile_of(config: dict[str, Any], model_id: str = "model") -> Profile:
    return derive(config, model_id=model_id, source=SourceRef(kind="file", name=model_id))


def read_config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def without_quantization(config: dict[str, Any]) -> dict[str, Any]:
    """The config as an engine sees it that was told to ignore the quantisation."""
    kept = {k: v for k, v in config.items() if k not in ("quantization_config", "compression_config")}
    if isinstance(kept.get("text_config"), dict):
        kept["text_config"] = without_quantization(kept["text_config"])
    return kept


def by_rule(profile: Profile) -> WeightVariant:
    """The variant the rules computed. A profile has none where a layer has no rule."""
    assert profile.weights, f"{profile.id}: no rule counts its parameters"
    assert profile.weights[0].origin == "parameters"
    return profile.weights[0]


def on_card(profile: Profile, tp: int, *, language_model_only: bool = False, ep: int = 1, pp: int = 1) -> int:
    split = Split(tp=tp, pp=pp, ep=ep)
    return variant_term(profile, by_rule(profile), split, language_model_only=language_model_only).bytes
