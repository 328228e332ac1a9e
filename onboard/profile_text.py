"""The text of a profile file: deterministic when new, and with a person's comments kept when written again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.seal import seal_of
from onboard.yamlio import dump_round_trip, load_round_trip

SCHEMA_LINE = "# yaml-language-server: $schema=../schema/profile.schema.json"
HEADER = (
    SCHEMA_LINE,
    "# Written by `onboard add` from the source below. Corrections belong in overrides/{id}.yaml.",
    "# Comments and `notes` written here are kept; `seal` is how a later `add` finds values changed by hand.",
)
KEPT = "# Kept from an earlier version of this file:"
FLOW_BELOW = {"facts": 1, "layers": 3, "mtp_layers": 3, "weights": 3, "drafters": 4, "deployments": 2, "status": 0}


def render(data: Mapping[str, Any]) -> str:
    """The text of a new profile file, its seal at the end."""
    text = dump_round_trip(_tree({**_ordered(data), "seal": seal_of(data)}))
    return "\n".join(HEADER).format(id=data["id"]) + "\n" + text


def rewrite(old_text: str, data: Mapping[str, Any]) -> str:
    """`old_text` brought up to `data`, key by key, so that comments stay where they are.

    A comment whose place is gone is kept at the end: nothing that a person wrote is lost.
    """
    document = load_round_trip(old_text)
    fresh = _tree({**_ordered(data), "seal": seal_of(data)})
    _graft(document, fresh)
    text = dump_round_trip(document)
    lost = [c for c in comments(old_text) if c not in text]
    if lost:
        text = text.rstrip("\n") + "\n" + "".join(f"{c}\n" for c in ([] if KEPT in text else [KEPT]) + lost)
    return text


def comments(text: str) -> list[str]:
    """Every comment of a YAML text, full lines and line ends, in order."""
    from onboard.yamlio import scan_comments

    return scan_comments(text)


def _ordered(data: Mapping[str, Any]) -> dict[str, Any]:
    from onboard.profile_yaml import KEYS

    order = ["schema_version", "id", "status", *KEYS]
    return {key: data[key] for key in dict.fromkeys(order) if key in data and key != "seal"}


def _tree(data: Mapping[str, Any]) -> Any:
    from onboard.yamlio import block_map, block_seq, flow, scalar

    def build(value: Any, depth: int, limit: int) -> Any:
        if isinstance(value, Mapping):
            made = block_map({k: build(v, depth + 1, limit) for k, v in value.items()})
        elif isinstance(value, (list, tuple)):
            made = block_seq([build(v, depth + 1, limit) for v in value])
        else:
            return scalar(value)
        plain_list = isinstance(value, (list, tuple)) and not any(isinstance(v, (Mapping, list, tuple)) for v in value)
        return flow(made) if not value or depth >= limit or plain_list else made

    return block_map({key: build(value, 0, FLOW_BELOW.get(key, 9)) for key, value in data.items()})


def _graft(old: Any, new: Any) -> None:
    """Make `old` equal to `new` in place; nodes that are already equal are left alone, comments and all."""
    for key in [k for k in old if k not in new]:
        del old[key]
    for place, key in enumerate(new):
        if key not in old:
            old.insert(place, key, new[key])
        elif isinstance(old[key], dict) and isinstance(new[key], dict):
            _graft(old[key], new[key])
        elif _is_list(old[key]) and _is_list(new[key]) and len(old[key]) == len(new[key]):
            _graft_items(old[key], new[key])
        elif old[key] != new[key] or isinstance(old[key], bool) is not isinstance(new[key], bool):
            old[key] = new[key]


def _graft_items(old: Any, new: Any) -> None:
    for place, item in enumerate(new):
        if isinstance(old[place], dict) and isinstance(item, dict):
            _graft(old[place], item)
        elif old[place] != item:
            old[place] = item


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
