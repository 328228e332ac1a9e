"""A log file -> the figures an engine printed. Streaming, in bounded memory, whatever the file holds.

Logs come cut off, from several ranks at once, coloured, with another locale's digits, hundreds of MB long, or are no
logs at all. One pass over the bytes: a line that holds no engine's key words costs one search and is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from onboard.errors import BadLog
from onboard.values import Struct, field

LONGEST_LINE = 1 << 18  # bytes kept of one line; config lines are a few KB
BLOCK = 1 << 20
MOST_PRINTED = 400  # figures kept of one log; a restart loop prints the same ones again and again
SNIFFED = 1 << 16
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "": 1}
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")
_RANK = re.compile(r"(?:Worker_TP|Worker_PP\d+_TP|\bTP|\brank[ =:]?)(\d{1,4})\b")


class LinePattern(Struct, frozen=True):
    """One line an engine prints. Named groups of `regex` are quantities; their unit is `units[name]`.

    A size's unit may be in the line: the group `<name>_unit`. `least_decimals` is how many decimals the engine rounds
    to even where it prints fewer (Python's round() drops zeros).
    """

    regex: re.Pattern[str]
    units: dict[str, str] = field(default_factory=dict)
    least_decimals: int = 0


class Printed(Struct, frozen=True):
    """A figure as printed: bytes for sizes, else the plain number. The true value is within `half` of it."""

    line: int
    quantity: str
    value: int | float
    half: float = 0.0
    rank: int | None = None

    def holds(self, low: float, high: float) -> bool:
        """Whether some value between `low` and `high` would be printed like this."""
        slack = 1e-9 * max(1.0, abs(self.value))
        return low <= self.value + self.half + slack and high >= self.value - self.half - slack


def lines_of(path: Path, keys: Sequence[bytes] = ()) -> Iterator[tuple[int, bytes]]:
    """(number from 1, bytes without the line's end) of lines that hold one of `keys`, each cut at LONGEST_LINE.

    Raises BadLog for binaries. The last number yielded is that of the last line, with no bytes where it holds no key.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise BadLog(f"{path.name} cannot be read: {error.strerror}", path=str(path), hint="name a log file") from None
    with stream:
        _sniff(stream, path)
        yield from _search(stream, keys)


def _sniff(stream: BinaryIO, path: Path) -> None:
    head = stream.read(SNIFFED)
    stream.seek(0)
    if not head:
        raise BadLog(
            f"{path.name} is empty", path=str(path), hint="redirect the engine's output and its errors to a file"
        )
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadLog(f"{path.name} is UTF-16", path=str(path), hint="save it as UTF-8")
    odd = sum(head.count(bytes([c])) for c in (*range(9), *range(14, 27), *range(28, 32)))
    if odd > len(head) // 50:
        raise BadLog(
            f"{path.name} is a binary file, not a log", path=str(path), hint="unpack it first, if it is compressed"
        )


def _search(stream: BinaryIO, keys: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """A block without a key costs one search for each and is counted, not split."""
    number, rest, dropping = 0, b"", False
    while block := stream.read(BLOCK):
        end = block.rfind(b"\n")
        if end < 0:  # a line longer than a block: what stands at its start is kept
            rest = rest if dropping else (rest + block)[:LONGEST_LINE]
            dropping = dropping or len(rest) >= LONGEST_LINE
            continue
        whole, tail = (rest + block[:end], block[end + 1 :])
        if dropping:
            whole = rest + block[block.index(b"\n") : end]
        if not keys or any(key in whole for key in keys):
            for line in whole.split(b"\n"):
                number += 1
                if not keys or any(key in line for key in keys):
                    yield number, line[:LONGEST_LINE]
        else:
            number += whole.count(b"\n") + 1
        rest, dropping = tail[:LONGEST_LINE], len(tail) > LONGEST_LINE
    if rest:
        number += 1
        if not keys or any(key in rest for key in keys):
            yield number, rest
            return
    yield number, b""


def clean(line: bytes) -> str:
    """Text without colours and carriage returns; a progress bar's last state is what counts. A line of JSON, as
    docker's and journald's files keep them, is its message.
    """
    text = line.decode("utf-8", "replace")
    if text.lstrip("\ufeff").startswith("{"):
        text = _message(text)
    return _ANSI.sub("", text).rstrip("\r\n").rsplit("\r", 1)[-1]


ENCODED = (b'"MESSAGE":[', b'"MESSAGE": [')  # no word can be searched for in such a line before it is read
_MESSAGES = ("log", "MESSAGE", "message", "msg")  # docker json-file, journald -o json, and common shippers


def _message(text: str) -> str:
    """The message of a JSON line, the line itself where it is none. journald keeps odd bytes as a list of numbers."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = next((record[name] for name in _MESSAGES if name in record), None) if isinstance(record, dict) else None
    if isinstance(found, list) and all(isinstance(b, int) and 0 <= b < 256 for b in found):
        return bytes(found).decode("utf-8", "replace")
    return found if isinstance(found, str) else text


def rank_of(text: str) -> int | None:
    """The rank that a line's prefix names, `(VllmWorker TP1)`, `(Worker_TP1 pid=7)`, `[rank1]`."""
    found = _RANK.search(text[:200])
    return int(found.group(1)) if found else None


_SPACES = "  \u202f_'’٬"
NUMBER = rf"\d[\d.,٫{_SPACES}]*"


def number_of(text: str, *, whole: bool) -> tuple[float, int] | None:
    """(value, decimals) of a number in any locale's writing: 1,234,567 · 1.234.567 · 1 234 567 · 10,65 · ١٢٣٫٤.

    `whole` says that the engine prints an integer here, so that every mark in it groups digits.
    """
    text = (
        "".join(str(int(c)) if c.isdigit() else c for c in text.strip().rstrip(".,"))
        .replace("٫", ".")
        .replace("٬", ",")
    )
    text = re.sub(rf"[{_SPACES}]", "", text)
    if whole:
        digits = re.sub(r"[.,]", "", text)
        return (float(digits), 0) if digits.isdigit() and len(digits) < 20 else None
    marks = [c for c in text if c in ".,"]
    if not marks:
        return (float(text), 0) if text.isdigit() and len(text) < 20 else None
    last = max(text.rfind("."), text.rfind(","))
    head, tail = re.sub(r"[.,]", "", text[:last]), text[last + 1 :]
    if not (head + tail).isdigit() or len(head + tail) > 30:
        return None
    if len(set(marks)) == 1 and len(marks) > 1:  # one mark many times groups digits
        return float(head + tail), 0
    return float(f"{head or 0}.{tail or 0}"), len(tail)


def printed_of(number: int, text: str, pattern: LinePattern) -> list[Printed]:
    """The figures of a line, () where it is not such a line."""
    found = pattern.regex.search(text)
    if found is None:
        return []
    groups, rank = found.groupdict(), rank_of(text)
    printed = []
    for name, raw in groups.items():
        if raw is None or name.endswith("_unit"):
            continue
        unit = groups.get(f"{name}_unit") or pattern.units.get(name, "")
        whole = pattern.units.get(name) == "count"
        parsed = number_of(raw, whole=whole)
        if parsed is None:
            continue
        value, decimals = parsed
        scale = UNITS.get(unit, 1)
        half = 0.0 if whole else 0.5 * 10.0 ** -max(decimals, pattern.least_decimals) * scale
        amount: int | float = round(value * scale) if scale > 1 or whole else value
        printed.append(Printed(number, name, amount, half, rank))
    return printed


class LogFacts(Struct):
    """What a scan keeps of one boot: figures, and an engine's own settings lines by name (the last one wins).
    `num_boots` counts the file's boots up to this one, which starts at `first_line`.
    """

    printed: list[Printed] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    num_lines: int = 0
    num_boots: int = 1
    first_line: int = 1

    def all(self, quantity: str) -> list[Printed]:
        return [p for p in self.printed if p.quantity == quantity]

    def last(self, quantity: str) -> Printed | None:
        found = self.all(quantity)
        return found[-1] if found else None

    def least(self, quantity: str) -> Printed | None:
        """The smallest of the ranks' figures: the rank with least memory decides."""
        return min(self.all(quantity), key=lambda p: p.value, default=None)

    def add(self, found: list[Printed]) -> None:
        """Keep new figures. One that a rank already printed is kept once."""
        for one in found:
            same = any(p.quantity == one.quantity and p.value == one.value and p.rank == one.rank for p in self.printed)
            if not same and len(self.printed) < MOST_PRINTED:
                self.printed.append(one)
