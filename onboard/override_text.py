"""The text of an override file: entries are appended, and every comment stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onboard.hand_edits import Proposal
from onboard.overrides import parse
from onboard.plain_data import listed
from onboard.yamlio import (
    block_map,
    block_seq,
    dump_round_trip,
    flow,
    load_round_trip,
    load_text,
    read_text,
    write_atomic,
)

SCHEMA_LINE = "# yaml-language-server: $schema=../schema/override.schema.json"


def append(path: Path, model_id: str, entries: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """Append entries whose path the file does not hold yet; returns those that were. Raises as `overrides.parse`."""
    text = read_text(path) if path.is_file() else f"{SCHEMA_LINE}\nmodel: {model_id}\noverrides: []\n"
    known = {e.path for e in parse(load_text(text, path.name), path.name, model_id)}
    fresh = tuple(e for e in entries if e.path not in known)
    if not fresh:
        return ()
    document = load_round_trip(text)
    listed_entries = document.get("overrides")
    if not listed_entries:
        document["overrides"] = listed_entries = block_seq([])
    for entry in fresh:
        listed_entries.append(
            block_map(
                {"path": entry.path, "was": _short(entry.was), "to": _short(entry.to), "why": entry.why, "link": ""}
            )
        )
    write_atomic(path, dump_round_trip(document))
    return fresh


def _short(value: Any) -> Any:
    """Plain data as one-line YAML nodes."""
    plain = listed(value)
    if isinstance(plain, dict):
        return flow(block_map({k: _short(v) for k, v in plain.items()}))
    return flow(block_seq([_short(v) for v in plain])) if isinstance(plain, list) else plain
