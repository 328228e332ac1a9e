"""What a quantiser leaves alone: names, globs and `re:` patterns of an ignore list, matched against a rule's matrix.

Entries are written in many dialects (`lm_head`, `model.layers.3.mlp.gate`, `model.language_model.layers.3*`,
`re:.*gate$`, `self_attn`): an entry without a wildcard names every module that holds it as a run of whole parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from onboard.weights.matrix import Matrix

MAX_PATTERN = 300  # characters; longer ones and those that do not compile match nothing
MAX_PATTERNS = 200  # with wildcards; exact names are not bounded
WRAPPERS = ("model", "language_model", "backbone", "transformer")  # outer parts that dialects add or drop
OUTER = ("model.", "model.language_model.", "language_model.model.", "")
_DIGIT = re.compile(r"\d")
ALIASES = {
    "linear_attn.in_proj_qkvz": ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z"),
    "linear_attn.in_proj_ba": ("linear_attn.in_proj_b", "linear_attn.in_proj_a"),
    "mlp.gate": ("mlp.router", "block_sparse_moe.gate"),
}


class IgnoreList:
    """A compiled ignore list. Matching a name costs the same whatever the number of exact entries.

    What names no number holds in every layer alike and is asked once a module; the rest is asked layer by layer.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        wild = [e for e in entries if e.startswith("re:") or "*" in e][:MAX_PATTERNS]
        exact = {_plain(e) for e in entries if not (e.startswith("re:") or "*" in e)}
        self._numbered = _Names(frozenset(e for e in exact if _DIGIT.search(e)), [e for e in wild if _DIGIT.search(e)])
        self._everywhere = _Names(
            frozenset(e for e in exact if not _DIGIT.search(e)), [e for e in wild if not _DIGIT.search(e)]
        )

    def match(self, matrix: Matrix, layer: int = -1) -> bool:
        """Whether the list names the matrix's module, in that layer (-1: outside the stack)."""
        return self._everywhere.match(matrix.module, min(layer, 0)) or self._numbered.match(matrix.module, layer)


class _Names:
    """Exact names and patterns, and what they answered."""

    def __init__(self, exact: frozenset[str], wild: Sequence[str]) -> None:
        self._exact = exact
        self._stems = tuple(e[:-1] for e in wild if e.find("*") == len(e) - 1 and not e.startswith("re:"))
        self._wild = [e for e in wild if e[:-1] not in self._stems or e[-1:] != "*"]
        self._patterns: tuple[re.Pattern[str], ...] | None = None
        self._known: dict[tuple[int, str], bool] = {}

    def match(self, module: str, layer: int) -> bool:
        if not self._exact and not self._stems and not self._wild:
            return False
        known = self._known.get((layer, module))
        if known is None:
            known = any(self._one(name, layer) for name in _spellings(module))
            self._known[layer, module] = known
        return known

    def _one(self, module: str, layer: int) -> bool:
        path = f"layers.{layer}.{module}" if layer >= 0 else module
        if self._exact and not self._exact.isdisjoint(_runs(path)):
            return True
        if self._stems and any(tail.startswith(self._stems) for tail in _tails(path)):
            return True
        if self._patterns is None:
            self._patterns = _joined(self._wild)
        return any(p.match(outer + path) for p in self._patterns for outer in OUTER)


@lru_cache(maxsize=512)
def _spellings(module: str) -> tuple[str, ...]:
    """A module's name and what other dialects call it."""
    names = {module, *ALIASES.get(module, ())}
    names |= {n.replace("shared_expert", "shared_experts") for n in names}
    return tuple(names | {n.replace("mlp.", "block_sparse_moe.") for n in names if "expert" in n})


def _runs(path: str) -> list[str]:
    """Every run of whole parts of a dotted name."""
    parts = path.split(".")
    return [".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)]


def _tails(path: str) -> set[str]:
    """A name from each of its parts to the end, under every outer name."""
    tails = {outer + path for outer in OUTER} | {f"language_model.{path}"}
    while path:
        tails.add(path)
        path = path.partition(".")[2]
    return tails


def _plain(entry: str) -> str:
    parts = entry.split(".")
    while len(parts) > 1 and parts[0] in WRAPPERS:
        parts = parts[1:]
    return ".".join(parts)


def _text(entry: str) -> str | None:
    """An entry as a regular expression, or None where it is one that cannot be trusted or read."""
    if len(entry) > MAX_PATTERN:
        return None
    if not entry.startswith("re:"):
        return "(?:.*\\.)?" + ".*".join(map(re.escape, re.sub(r"\*+", "*", entry).split("*")))
    text = entry[3:]
    if re.search(r"[*+}]\)?[*+{]", text):  # a repeated repeat may take for ever
        return None
    try:
        re.compile(text)
    except re.error:
        return None
    return text


def _joined(entries: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """One pattern for all, which is ten times faster; apart where one refers to groups or sets flags."""
    texts = [t for t in map(_text, entries) if t is not None]
    alone = [t for t in texts if re.search(r"\\\d|\(\?[P(a-zA-Z]", t)]
    rest = [t for t in texts if t not in alone]
    together = [re.compile("|".join(f"(?:{t})" for t in rest))] if rest else []
    return (*together, *map(re.compile, alone))
