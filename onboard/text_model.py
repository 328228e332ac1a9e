"""Which part of a config is the language model, and which class's constants stand behind it.

A composite keeps it in a nested mapping; older files of the same models keep it at the top level. The class (by
`model_type`, as data) says where it looks; a nested mapping that states layers is believed over the top level.
Rules as in transformers 5.24 `PreTrainedConfig.get_text_config` and `SubConfigSpec.create_subconfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.class_defaults import ClassDefaults, class_defaults
from onboard.errors import Caution
from onboard.fields import FIELDS
from onboard.rules.knowledge import IMPLIED, ONLY_IN
from onboard.values import Struct, replace

# Where files of models that no class knows keep their language model; in order.
TEXT_KEYS = (
    "text_config", "language_config", "llm_config", "thinker_config", "llm_backbone_config", "language_model_config",
    "language_model", "decoder", "generator", "text_model_config", "lm_config", "llm_cfg",
    "lfm",  # LFM2-Audio
    "transformer_layer_config",  # drafts in the format of the speculators package
)  # fmt: skip
LAYER_COUNTS = (*FIELDS["num_hidden_layers"].spellings, *FIELDS["decoder_layers"].spellings)
GEOMETRY = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_kv_heads", "head_dim")
MAX_DEPTH = 4


class TextConfig(Struct, frozen=True):
    """The language model's own mapping, where it lies in the file, and its class."""

    mapping: Mapping[str, Any]
    prefix: str
    model_type: str
    class_name: str
    defaults: Mapping[str, Any]
    known: bool
    generates: bool
    encoder_decoder: bool
    cautions: tuple[Caution, ...]


def text_config(config: Mapping[str, Any]) -> TextConfig:
    """Find the language model. Says so (as cautions) where the file's parts disagree or leave its geometry out."""
    mapping, prefix = config, ""
    known = class_defaults(_model_type(config))
    initial: Mapping[str, Any] = {}
    model_type, cautions, seq2seq = _model_type(config), list[Caution](), False
    for _ in range(MAX_DEPTH):
        spot = known.text if known is not None else None
        seq2seq = seq2seq or _encodes_and_decodes(mapping, known)
        key = _nested_key(mapping, spot.key if spot else "")
        if key:
            nested = mapping[key]
            _compare(mapping, nested, prefix, key, cautions)
            model_type, known = _nested_type(nested, spot)
            mapping, prefix = nested, f"{prefix}{key}."
            initial = dict(spot.initial) if spot is not None and spot.merges else {}
            continue
        if spot is not None and spot.model_type != model_type:
            model_type, known = spot.model_type, class_defaults(spot.model_type)
            if not _states_layers(mapping):
                initial = dict(spot.initial)
            continue
        break
    if (
        not _states_layers(mapping)
        and known is not None
        and any(k in known.values or k in initial for k in LAYER_COUNTS)
    ):
        where = prefix.rstrip(".") or "num_hidden_layers"
        said = (
            "the file states no layer count; its geometry is what the class holds by default, not this checkpoint's own"
        )
        cautions.append(Caution("geometry-from-defaults", where, said))
    cautions.extend(_own_code(config))
    if not model_type:
        model_type, known, caution = _given_away(mapping, prefix)
        cautions.append(caution)
    elif known is None:
        cautions.append(_unknown(prefix, model_type))
    return _built(mapping, prefix, model_type, known, initial, cautions, seq2seq)


def _unknown(prefix: str, model_type: str) -> Caution:
    """What only a family's code knows is not applied, nor are a class's constants."""
    said = f"no class is known for {_short(model_type)}; its fields are read as they stand"
    return Caution("unknown-model-type", f"{prefix}model_type", said)


def _given_away(mapping: Mapping[str, Any], prefix: str) -> tuple[str, ClassDefaults | None, Caution]:
    """The type of a file that states none: what a field of one family alone gives away, with the few constants of
    its class that say how such layers are laid out (`ONLY_IN`)."""
    key = next((key for key in ONLY_IN if mapping.get(key) is not None), "")
    if not key:
        said = "not stated: no class's constants and no family's own knowledge are applied"
        return "", None, Caution("no-model-type", f"{prefix}model_type", said)
    model_type, kept = ONLY_IN[key]
    known = class_defaults(model_type)
    if known is not None:
        known = replace(known, values={k: v for k, v in known.values.items() if k in kept})
    said = f"not stated; read as {model_type}, whose field {key} no other family has"
    return model_type, known, Caution("no-model-type", f"{prefix}model_type", said)


def _own_code(config: Mapping[str, Any]) -> tuple[Caution, ...]:
    """A config class of the repository's own may read the file in its own way; it is never run."""
    named = config.get("auto_map")
    if not isinstance(named, Mapping) or "AutoConfig" not in named:
        return ()
    where = str(named["AutoConfig"])[:200]
    said = f"the repository reads its config with code of its own ({where}), which is not run; compare with a boot log"
    return (Caution("custom-config-class", "auto_map.AutoConfig", said),)


def _built(
    mapping: Mapping[str, Any], prefix: str, model_type: str, known: ClassDefaults | None,
    initial: Mapping[str, Any], cautions: list[Caution], seq2seq: bool,
) -> TextConfig:  # fmt: skip
    values = known.values if known is not None else {}
    return TextConfig(
        mapping=mapping,
        prefix=prefix,
        model_type=model_type,
        class_name=known.class_name if known is not None else model_type or "unknown class",
        defaults={**values, **IMPLIED.get(model_type, {}), **initial},
        known=known is not None,
        generates=known is None or not known.encoder,
        encoder_decoder=seq2seq,
        cautions=tuple(cautions),
    )


def _nested_key(mapping: Mapping[str, Any], class_key: str) -> str:
    """The key of a nested language model: the class's own, else the first that states a layer count."""
    if class_key and isinstance(mapping.get(class_key), Mapping):
        nested = mapping[class_key]
        if nested and (_holds_model(nested) or not _states_layers(mapping)):
            return class_key
    return next((k for k in TEXT_KEYS if isinstance(mapping.get(k), Mapping) and _holds_model(mapping[k])), "")


def _holds_model(nested: Mapping[str, Any]) -> bool:
    return _states_layers(nested) or any(
        isinstance(nested.get(k), Mapping) and _states_layers(nested[k]) for k in TEXT_KEYS
    )


def _states_layers(mapping: Mapping[str, Any]) -> bool:
    return any(mapping.get(k) is not None for k in LAYER_COUNTS)


def _nested_type(nested: Mapping[str, Any], spot: Any) -> tuple[str, ClassDefaults | None]:
    """The nested model's type: its own where a class knows it and the composite leaves it open, else that one's."""
    own = _model_type(nested)
    if spot is not None and spot.fixed:
        return spot.model_type, class_defaults(spot.model_type)
    known = class_defaults(own) if own else None
    if known is None and spot is not None and not own:
        return spot.model_type, class_defaults(spot.model_type)
    return own, known


def _encodes_and_decodes(mapping: Mapping[str, Any], known: ClassDefaults | None) -> bool:
    """Whether this level says that an encoder stands before the decoder."""
    stated = mapping.get("is_encoder_decoder")
    return bool(stated if stated is not None else known is not None and known.values.get("is_encoder_decoder"))


def _compare(top: Mapping[str, Any], nested: Mapping[str, Any], prefix: str, key: str, cautions: list[Caution]) -> None:
    """Note every geometry value that the outer level states differently."""
    for name in GEOMETRY:
        outer = next((s for s in FIELDS[name].spellings if top.get(s) is not None), None)
        inner = next((s for s in FIELDS[name].spellings if nested.get(s) is not None), None)
        if outer and inner and top[outer] != nested[inner]:
            said = f"{outer} is {_short(top[outer])} here and {_short(nested[inner])} in {key}; the latter is used"
            cautions.append(Caution("conflicting-top-level", f"{prefix}{outer}", said))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _model_type(mapping: Mapping[str, Any]) -> str:
    value = mapping.get("model_type")
    return value if isinstance(value, str) else ""
