"""A transformers config class -> the entry of `data/class_defaults.json`. Used by the tool that writes that file,
and for model types newer than it. Nothing here imports transformers; the class is handed in.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from onboard.fields import FIELDS, MAX_LENGTH_KEYS

# The order in which transformers looks for a composite's decoder (PreTrainedConfig.get_text_config).
TEXT_KEYS = ("decoder", "generator", "text_config", "language_config", "thinker_config", "llm_config")

# Fields whose declared None says something: the class has the mechanism, and it is off unless stated.
KEPT_NONES = frozenset({"sliding_window"})


def wanted_keys() -> frozenset[str]:
    """First parts of every spelling that a rule can ask for."""
    spellings = {s.split(".")[0] for f in FIELDS.values() for s in f.spellings}
    return frozenset(spellings | set(MAX_LENGTH_KEYS))


def describe(cls: Any) -> dict[str, Any]:
    """The class's name, its declared constants among the wanted keys, and where its text model lies."""
    entry: dict[str, Any] = {"class": cls.__name__, "defaults": _declared(cls)}
    specs = getattr(cls, "sub_configs_defaults", None) or {}
    for key in TEXT_KEYS:
        spec = specs.get(key)
        if spec is not None and getattr(spec, "model_type", None):
            entry["text"] = {"key": key, "model_type": spec.model_type}
            if getattr(spec.config_class, "model_type", "") == spec.model_type:
                entry["text"]["fixed"] = True
            initial = {k: v for k, v in (spec.init_kwargs or {}).items() if k in wanted_keys() and _plain(v)}
            if initial:
                entry["text"]["initial"] = initial
            if _merges(cls):
                entry["text"]["merges"] = True
            break
    return entry


def _merges(cls: Any) -> bool:
    """Whether the class lays the file's text config over its initial values instead of replacing them."""
    try:
        source = inspect.getsource(cls.__post_init__)
    except (OSError, TypeError):
        return False
    return "init_kwargs, **self.text_config" in source


def _declared(cls: Any) -> dict[str, Any]:
    """Declared constants, under the names a file may use (the attribute's own and its aliases)."""
    if not is_dataclass(cls):
        return {}
    wanted = wanted_keys()
    aliases = {target: alias for alias, target in getattr(cls, "attribute_map", {}).items()}
    found: dict[str, Any] = {}
    for item in fields(cls):
        value = item.default
        if value is MISSING and item.default_factory is not MISSING:
            value = item.default_factory()
        value = _nested(value)
        if value is MISSING or (value is None and item.name not in KEPT_NONES) or not _plain(value):
            continue
        if item.name == "is_encoder_decoder" and not value:
            continue  # every class declares it; false says nothing
        if item.name in wanted:
            found[item.name] = value
        elif aliases.get(item.name) in wanted:
            found[aliases[item.name]] = value
    return dict(sorted(found.items()))


def _nested(value: Any) -> Any:
    return _declared(type(value)) if is_dataclass(value) and not isinstance(value, type) else value


def _plain(value: Any) -> bool:
    """Whether JSON holds the value as it is, and it is small."""
    if isinstance(value, Mapping):
        return len(value) <= 50 and all(isinstance(k, str) and _plain(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return len(value) <= 200 and all(_plain(v) for v in value)
    return value is None or isinstance(value, (bool, int, float, str))
