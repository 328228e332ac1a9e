"""Which values of a profile file a person changed: each value that `onboard add` wrote leaves a short digest behind.

The digests stand in the file's `seal`. A value whose digest is not there was written by hand; a later `add` moves it
to the override file (or, where no override can say it, to `notes`) instead of losing it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from onboard.plain_data import listed

DIGEST_LENGTH = 6


def leaves(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value under its override path: facts, layer runs, weights, drafters, deployments, and the plain rest."""
    for key, value in data.items():
        if key in ("status", "notes", "seal", "schema_version", "id"):
            continue
        if key == "facts":
            yield from ((f"facts.{name}", fact) for name, fact in value.items())
        elif key in ("layers", "mtp_layers"):
            yield from ((f"{key}[{run['indices']}]", run["caches"]) for run in value)
        elif key in ("weights", "drafters", "deployments"):
            yield from ((f"{key}.{item['name']}", item) for item in value)
        elif key == "source":
            yield from ((f"source.{name}", one) for name, one in value.items())
        else:
            yield key, value


def seal_of(data: Mapping[str, Any]) -> str:
    """The digests of all values, in order."""
    return " ".join(digest(path, value) for path, value in leaves(data))


def hand_written(data: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a file that its own seal does not cover."""
    known = set(str(data.get("seal") or "").split())
    return {path: value for path, value in leaves(data) if digest(path, value) not in known}


def digest(path: str, value: Any) -> str:
    """The digest of one value at its path; what is equal as plain data has equal digests."""
    text = json.dumps([path, listed(value)], sort_keys=True, default=str)
    return "x" + hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
