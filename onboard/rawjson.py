"""Real-world JSON -> a mapping, or a refusal that names the place. The text is never edited before parsing.

Accepted: a UTF-8 byte order mark, bare NaN / Infinity (as floats; a field that is read refuses them), transformers'
object spelling of the same (`{"__float__": "Infinity"}`), integers of up to 40 digits. Refused: duplicate keys,
text that is not UTF-8, longer integers, deep nesting, a top that is not a mapping.
"""

from __future__ import annotations

import json
from typing import Any

from onboard.errors import DuplicateKey, NotAMapping, NotJson, TooLarge

MAX_BYTES = 16 * 2**20
MAX_DEPTH = 100
MAX_DIGITS = 40
_TAGGED = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


class _LongInteger:
    """Stands for an integer literal that is too long to convert, until its path is known."""

    def __init__(self, digits: int) -> None:
        self.digits = digits


def load_mapping(data: bytes | str, name: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Parse one JSON object. Raises NotJson, DuplicateKey, TooLarge or NotAMapping, naming file and place."""
    value = load(data, name, max_bytes)
    if not isinstance(value, dict):
        raise NotAMapping(
            f"{name} holds a {_kind(value)}, not an object",
            path=name,
            value=repr(value)[:80],
            hint="a config is one JSON object",
        )
    return value


def load(data: bytes | str, name: str, max_bytes: int = MAX_BYTES) -> Any:
    """Parse one JSON value under the same rules, whatever its type."""
    if len(data) > max_bytes:
        raise TooLarge(f"{name} is larger than {max_bytes} bytes", path=name, value=len(data))
    text = decode(data, name) if isinstance(data, bytes) else data.removeprefix("\ufeff")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise _not_json(error, text, name) from None
    except RecursionError:
        raise TooLarge(f"{name} nests deeper than {MAX_DEPTH} levels", path=name, hint="no real config does") from None
    _check(value, name)
    return value


def decode(data: bytes, name: str) -> str:
    """UTF-8 with an optional mark. Raises NotJson with the offset of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        raise NotJson(
            f"{name} is not UTF-8 at byte {start}", path=name, value=f"0x{data[start]:02x}", hint="save it as UTF-8"
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> Any:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(f"{key!r} stands twice in one object", path=key, hint="keep one of the two")
            seen.add(key)
    if len(mapping) == 1:
        tagged = mapping.get("__float__")
        if isinstance(tagged, str) and tagged in _TAGGED:
            return _TAGGED[tagged]
    return mapping


def _integer(literal: str) -> Any:
    return int(literal) if len(literal) <= MAX_DIGITS else _LongInteger(len(literal.lstrip("-")))


def _check(value: Any, name: str) -> None:
    """Walk without recursion: depth, integers that were too long, text that cannot be encoded."""
    stack: list[tuple[Any, str, int]] = [(value, "", 0)]
    while stack:
        node, path, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise TooLarge(f"{name} nests deeper than {MAX_DEPTH} levels", path=path[:100], hint="no real config does")
        if isinstance(node, dict):
            for key, inner in node.items():
                _encodable(key, name, path)
                stack.append((inner, f"{path}.{key}" if path else key, depth + 1))
        elif isinstance(node, list):
            stack.extend((inner, f"{path}[{i}]", depth + 1) for i, inner in enumerate(node))
        elif isinstance(node, str):
            _encodable(node, name, path)
        elif isinstance(node, _LongInteger):
            raise TooLarge(
                f"{path or name} is an integer of {node.digits} digits",
                path=path or name,
                value=f"{node.digits} digits",
                hint="correct the config",
            )


def _encodable(text: str, name: str, path: str) -> None:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise NotJson(
                f"{name} holds half a surrogate pair at {path or 'the top'}", path=path, value=error.start
            ) from None


def _not_json(error: json.JSONDecodeError, text: str, name: str) -> NotJson:
    place = f"line {error.lineno}, column {error.colno}"
    if not text.strip():
        return NotJson(f"{name} is empty", path=name, hint="fetch it again")
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return NotJson(f"{name} is cut off at {place}", path=name, value=text[-40:], hint="fetch it again")
    return NotJson(f"{name} is not JSON at {place}: {error.msg}", path=name, value=text[error.pos : error.pos + 40])


def _kind(value: Any) -> str:
    kinds = {list: "list", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return kinds.get(type(value), type(value).__name__)
