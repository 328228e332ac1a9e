"""Strict YAML in and out: one place for the loader's limits. Round-trip (comments kept) where a person edits.

Untrusted text is bounded in size, has no anchors or aliases (a bomb needs them), no duplicate keys and no tags.
Parsing is slow in pure Python, so a parsed file may be kept as JSON in the user's cache, under its content's hash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode, encode

from onboard.errors import BadYaml, DuplicateKey, NotWritable, TooLarge

MAX_BYTES = 4 * 2**20
_CACHE_VERSION = "1"
_SIMPLE = re.compile(r"[A-Za-z0-9_(./~+<=^](?: ?[!-~])*")  # single spaces inside, no leading indicator, ASCII


def load_text(text: str, name: str, *, allow_aliases: bool = False) -> Any:
    """Parse one YAML document into plain Python. Raises BadYaml, DuplicateKey or TooLarge, naming the place.

    `allow_aliases` is for other people's files (compose files use them); the result then must only be looked up in.
    """
    if len(text) > MAX_BYTES:
        raise TooLarge(f"{name} is larger than {MAX_BYTES} bytes", path=name, value=len(text))
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import AliasEvent

    try:
        may_alias = not allow_aliases and ("&" in text or "*" in text)
        for event in YAML(typ="safe", pure=True).parse(text) if may_alias else ():
            if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
                raise BadYaml(
                    f"{name} uses anchors or aliases, which are not read", path=name, hint="write the value out"
                )
        return YAML(typ="safe", pure=True).load(text)
    except DuplicateKeyError as error:
        raise DuplicateKey(f"{name}: {_first_line(error.problem)}", path=name, hint="keep one of the two") from None
    except (YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        raise BadYaml(
            f"{name} is not YAML{place}: {_first_line(getattr(error, 'problem', None) or error)}", path=name
        ) from None


def load(path: Path) -> Any:
    """Parse a YAML file."""
    return load_text(read_text(path), place_of(path))


def place_of(path: Path) -> str:
    """A file's name as messages give it: with its folder in a catalogue, which holds one name several times."""
    return f"{path.parent.name}/{path.name}" if path.parent.name in ("profiles", "overrides") else path.name


def read_text(path: Path) -> str:
    """The file's text, bounded, as UTF-8."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TooLarge(f"{path.name} is larger than {MAX_BYTES} bytes", path=str(path), value=path.stat().st_size)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadYaml(f"{path.name} is not UTF-8 at byte {error.start}", path=str(path)) from None
    except OSError as error:
        raise BadYaml(f"{path.name} cannot be read: {error.strerror}", path=str(path)) from None


def load_cached(path: Path) -> Any:
    """As `load`, keeping the parsed form as JSON under the text's hash, so a second start parses no YAML."""
    text = read_text(path)
    return kept_as_json(text, lambda: load_text(text, place_of(path)))


def kept_as_json(key: str, make: Callable[[], Any]) -> Any:
    """What `make` gives for `key`, kept as JSON under the key's hash; made anew where it cannot be read or kept."""
    kept = _cache_dir() / f"{_digest(key)}.json"
    try:
        return decode(kept.read_bytes())
    except (OSError, DecodeError):
        pass
    data = make()
    try:
        plain = encode(data).decode()
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(kept, plain)
    except (OSError, TypeError, ValueError, OverflowError):
        pass  # a cache that cannot be written costs time, nothing else
    return data


# --- round trip: what a person edits keeps its comments -------------------------------------------------------------


def load_round_trip(text: str) -> Any:
    """Parse with comments. The text must have passed `load_text`, which holds the limits."""
    return _round_trip().load(text)


def dump_round_trip(document: Any) -> str:
    """Write a document of `load_round_trip` or `block_map`; the same document always gives the same text."""
    import io

    out = io.StringIO()
    _round_trip().dump(document, out)
    return "\n".join(line.rstrip(" ") for line in out.getvalue().split("\n"))  # ruamel leaves blanks where it folds


def block_map(data: dict[str, Any]) -> Any:
    """A mapping that is written one key a line."""
    from ruamel.yaml.comments import CommentedMap

    return CommentedMap(data)


def block_seq(data: list[Any]) -> Any:
    """A list that is written one item a line."""
    from ruamel.yaml.comments import CommentedSeq

    return CommentedSeq(data)


def flow(node: Any) -> Any:
    """Write `node` on one line, in braces or brackets."""
    node.fa.set_flow_style()
    return node


def scalar(value: Any) -> Any:
    """A scalar as it is written: text that a fold or an indicator could spoil goes in double quotes, on one line."""
    if isinstance(value, str) and value and not _SIMPLE.fullmatch(value):
        from ruamel.yaml.scalarstring import DoubleQuotedScalarString

        return DoubleQuotedScalarString(value)
    return value


def scan_comments(text: str) -> list[str]:
    """Every comment of a YAML text, without the schema line, in order."""
    found: list[str] = []
    quoted: set[int] = set()
    for token in _round_trip().scan(text):
        start, end = token.start_mark.index, token.end_mark.index
        if type(token).__name__ == "ScalarToken":
            quoted.update(i for i in range(start, end) if text[i] == "#")
    for line_start, line in _lines(text):
        for at, letter in enumerate(line):
            if letter == "#" and line_start + at not in quoted and (at == 0 or line[at - 1] in " \t"):
                found.append(line[at:].rstrip())
                break
    return [c for c in found if not c.startswith("# yaml-language-server")]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _round_trip() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.emitter import Emitter

    class OneLineQuotes(Emitter):
        """Double-quoted text is not folded: the library's folds lose spaces beside unusual characters."""

        def write_double_quoted(self, text: str, split: bool = True) -> None:
            super().write_double_quoted(text, split=False)

    yaml = YAML(typ="rt", pure=True)
    yaml.Emitter = OneLineQuotes
    yaml.width = 136
    yaml.preserve_quotes = True
    yaml.indent(mapping=2, sequence=2, offset=0)
    yaml.representer.add_representer(type(None), lambda r, _: r.represent_scalar("tag:yaml.org,2002:null", "null"))
    return yaml


def write_atomic(path: Path, text: str) -> None:
    """Write beside and rename, so a killed run leaves the old file whole. Raises NotWritable."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise NotWritable(
            f"{path.parent} cannot be written: {error.strerror}", path=str(path), hint="give --catalog DIR"
        ) from None
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise NotWritable(
            f"{path} cannot be written: {error.strerror}", path=str(path), hint="give --catalog DIR"
        ) from None


def _digest(text: str) -> str:
    """A content hash without hashlib, which loads OpenSSL: a warm start asks for nothing else of it."""
    try:
        from _blake2 import blake2b
    except ImportError:  # not CPython
        from hashlib import blake2b
    return blake2b(text.encode(), digest_size=32).hexdigest()


def _cache_dir() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    base = Path(root) if root else Path.home() / ".cache"
    return base / "kvfit" / f"yaml-{_CACHE_VERSION}"


def _first_line(problem: object) -> str:
    return str(problem).strip().splitlines()[0] if str(problem).strip() else "malformed"
