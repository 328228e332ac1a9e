"""A parsed config -> a Profile. The one place where text model, class defaults, layers and facts come together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.context_length import record_max_model_len
from onboard.defaulted import note_defaults, note_idle_windows, note_sizes
from onboard.errors import Caution, NotAMapping, TooLarge
from onboard.facts import Facts
from onboard.profile import Profile, SourceRef, WeightVariant
from onboard.quantization import record_quantization
from onboard.rules import Derived, derive_layers
from onboard.rules.drafters import record_draft
from onboard.rules.knowledge import UNREAD
from onboard.serving_facts import record_serving_facts
from onboard.text_model import TextConfig, text_config
from onboard.unread import note_unread_keys
from onboard.weights.feedforward import forget_idle_experts
from onboard.weights.parameters import record_weight_facts, weights_by_rule
from onboard.weights.traits import traits_of

SCALARS = (
    "hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "num_kv_heads", "head_dim", "dtype",
    "tie_word_embeddings", "num_experts", "num_experts_per_token", "moe_intermediate_size", "num_shared_experts",
    "shared_expert_intermediate_size", "num_mtp_layers", "ssm_dtype", "sliding_window",
)  # fmt: skip


def derive(
    config: Mapping[str, Any],
    *,
    model_id: str,
    source: SourceRef,
    weights: tuple[WeightVariant, ...] = (),
    side: Mapping[str, Any] | None = None,
) -> Profile:
    """Derive a profile from a config mapping. Raises a Refusal that names the field, its value and what to do.

    `side` is hf_quant_config.json, which stands in where the config has no quantization block. Deterministic, and the
    order of keys does not matter.
    """
    if not isinstance(config, Mapping):
        raise NotAMapping("the top of the config is not a mapping", value=type(config).__name__)
    beside = bool(side) and not config.get("quantization_config")
    if beside:
        config = {**config, "quantization_config": side}
    try:
        text = text_config(config)
        facts = _facts(config, text)
        derived = derive_layers(facts)
        note_defaults(facts)
        record_draft(facts)
        for name in SCALARS:
            facts.find(name)
        if any(cache.kind == "state" for layer in derived.layers for cache in layer.caches):
            facts.find("mamba_chunk_size")  # vLLM's state checkpoints lie on its multiples
        record_max_model_len(facts)
        note_idle_windows(facts, derived.layers)
        forget_idle_experts(facts, len(derived.layers), traits_of(facts.model_type)[0])
        note_sizes(facts)
        record_quantization(facts, beside=beside)
        record_serving_facts(facts)
        record_weight_facts(facts)
        weights = weights or weights_by_rule(facts, derived.layers, derived.mtp_layers)
        note_unread_keys(facts)
    except RecursionError as error:
        raise TooLarge("the config is nested too deeply", hint="no published config is") from error
    return _profile(config, text, facts, derived, model_id, source, weights)


def _facts(config: Mapping[str, Any], text: TextConfig) -> Facts:
    facts = Facts(
        text.mapping,
        root=config,
        prefix=text.prefix,
        model_type=text.model_type,
        defaults=text.defaults,
        class_name=text.class_name,
        known=text.known,
        generates=text.generates,
        unread=UNREAD.get(text.model_type, frozenset()),
    )
    named = text.mapping.get("architectures") if text.prefix else None
    if isinstance(named, (list, tuple)) and named:
        facts.record("text_architecture", str(named[0])[:200], f"{text.prefix}architectures", "config")
    if text.prefix and text.model_type:
        facts.record("text_model_type", text.model_type, f"{text.prefix}model_type", "config")
    tower = config.get("vision_config")
    deepstack = tower.get("deepstack_visual_indexes") if isinstance(tower, Mapping) else None
    if isinstance(deepstack, (list, tuple)) and deepstack:
        facts.record("num_deepstack_layers", len(deepstack), "vision_config.deepstack_visual_indexes", "config")
    if text.encoder_decoder:
        stated = config.get("is_encoder_decoder") is not None
        where = "is_encoder_decoder" if stated else f"{text.class_name}.is_encoder_decoder"
        facts.record("is_encoder_decoder", True, where, "config" if stated else "class-default")
    facts.cautions.extend(text.cautions)
    return facts


def _profile(
    config: Mapping[str, Any], text: TextConfig, facts: Facts, derived: Derived, model_id: str, source: SourceRef,
    weights: tuple[WeightVariant, ...],
) -> Profile:  # fmt: skip
    architectures = config.get("architectures")
    listed = architectures if isinstance(architectures, (list, tuple)) else ()
    model_type = config.get("model_type")
    return Profile(
        id=model_id,
        source=source,
        model_type=model_type if isinstance(model_type, str) else text.model_type,
        architectures=tuple(str(a)[:200] for a in listed[:20]),
        layers=derived.layers,
        mtp_layers=derived.mtp_layers,
        facts=dict(sorted(facts.used.items())),
        weights=weights,
        warnings=tuple(sorted(facts.cautions, key=_order)),
    )


def _order(caution: Caution) -> tuple[str, str, str]:
    return caution.kind, caution.where, caution.message
