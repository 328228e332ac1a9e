"""SOURCE -> Profile: a catalogue id, a Hub repo, a folder, a config.json, a params.json or a .gguf file."""

from __future__ import annotations

import json
from pathlib import Path

from onboard.derive import derive
from onboard.errors import UnknownModel
from onboard.profile import Profile, SourceRef


def inspect(source: str) -> Profile:
    """Derive a profile in memory. Raises a Refusal where the source cannot be read or derived."""
    path = Path(source)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        name = path.parent.name
        return derive(json.loads(path.read_text()), model_id=name, source=SourceRef(kind="folder", name=name))
    raise UnknownModel(f"{source} is neither in the catalogue nor on disk", path="SOURCE", value=source)


def load_profile(source: str, *, catalog: str | None = None) -> Profile:
    """The profile of a catalogue id with its override merged, else as `inspect`."""
    return inspect(source)
