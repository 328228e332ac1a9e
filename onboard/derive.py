"""A parsed config -> a Profile. The one place where text model, class defaults, layers and facts come together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.facts import Facts
from onboard.profile import Profile, SourceRef, WeightVariant
from onboard.rules import derive_layers

TEXT_KEYS = ("text_config", "language_config", "llm_config", "llm_backbone_config")
SCALARS = (
    "hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "num_kv_heads", "head_dim", "dtype",
    "tie_word_embeddings", "num_experts", "num_experts_per_token", "moe_intermediate_size", "num_shared_experts",
    "shared_expert_intermediate_size", "num_mtp_layers", "ssm_dtype", "sliding_window",
)  # fmt: skip


def derive(
    config: Mapping[str, Any], *, model_id: str, source: SourceRef, weights: tuple[WeightVariant, ...] = ()
) -> Profile:
    """Derive a profile from a config mapping. Raises a Refusal that names the field, its value and what to do."""
    text, prefix = _text_model(config)
    facts = Facts(text, root=config, prefix=prefix)
    derived = derive_layers(facts)
    for name in SCALARS:
        facts.find(name)
    facts.record("max_model_len", facts.get("max_position_embeddings"), "max_position_embeddings")
    return Profile(
        id=model_id,
        source=source,
        model_type=str(config.get("model_type", "")),
        architectures=tuple(str(a) for a in config.get("architectures") or ()),
        layers=derived.layers,
        mtp_layers=derived.mtp_layers,
        facts=dict(facts.used),
        weights=weights,
        warnings=tuple(facts.cautions),
    )


def _text_model(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    for key in TEXT_KEYS:
        nested = config.get(key)
        if isinstance(nested, Mapping) and any(k in nested for k in ("num_hidden_layers", "n_layer", "num_layers")):
            return nested, f"{key}."
    return config, ""
