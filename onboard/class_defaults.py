"""What transformers' config classes hold for a key that a file leaves out, without importing transformers.

`data/class_defaults.json` is written by `tools/class_defaults.py` from the classes of one transformers release
(named in the file). A model type that the file does not know is asked of the installed transformers, if there is
one; never a repository's own code, and a class that fails to build answers nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata, resources
from typing import Any

from onboard.values import Struct, field


class TextModel(Struct, frozen=True):
    """Where a composite keeps its text model: the key, its model type, and what stands there when the key is absent."""

    key: str
    model_type: str
    fixed: bool = False  # the class builds this type whatever the nested `model_type` says
    initial: Mapping[str, Any] = field(default_factory=dict)
    merges: bool = False  # the initial values also stand behind a text config that the file has


class ClassDefaults(Struct, frozen=True):
    """One config class: its declared constants (nothing that __post_init__ computes), and what it holds."""

    class_name: str
    values: Mapping[str, Any]
    text: TextModel | None = None
    encoder: bool = False  # generates no tokens unless `is_decoder` says so


def class_defaults(model_type: str) -> ClassDefaults | None:
    """The class of a model type, or None where no class is known."""
    entry = _snapshot().get(model_type)
    return _parsed(entry) if entry is not None else _installed(model_type)


@lru_cache(maxsize=1)
def _file() -> Mapping[str, Any]:
    text = resources.files("onboard").joinpath("data/class_defaults.json").read_text(encoding="utf-8")
    content: Mapping[str, Any] = json.loads(text)
    return content


def _snapshot() -> Mapping[str, Any]:
    models: Mapping[str, Any] = _file()["model_types"]
    return models


def _parsed(entry: Mapping[str, Any]) -> ClassDefaults:
    text = entry.get("text")
    return ClassDefaults(
        class_name=entry["class"],
        values=entry.get("defaults", {}),
        text=TextModel(**text) if text else None,
        encoder=bool(entry.get("encoder")),
    )


@lru_cache(maxsize=256)
def _installed(model_type: str) -> ClassDefaults | None:
    """Ask the installed transformers, which may know newer types than the snapshot. Imported only here."""
    if not model_type or len(model_type) > 100 or not _other_release():
        return None
    try:
        from transformers import CONFIG_MAPPING
    except ImportError:
        return None
    if model_type not in CONFIG_MAPPING:
        return None
    from onboard.class_reading import describe

    try:
        return _parsed(describe(CONFIG_MAPPING[model_type]))
    except Exception:  # noqa: BLE001  a class of any release may fail in any way; then nothing is known
        return None


@lru_cache(maxsize=1)
def _other_release() -> bool:
    """Whether the installed transformers is not the one of the snapshot. That one knows no further types."""
    try:
        return bool(metadata.version("transformers") != _file()["transformers"])
    except metadata.PackageNotFoundError:
        return False
