"""What a quantiser leaves alone: names, globs and `re:` patterns of an ignore list, matched against a rule's matrix.

Entries are written in many dialects (`lm_head`, `model.layers.3.mlp.gate`, `model.language_model.layers.3*`,
`re:.*gate$`, `self_attn`): an entry without a wildcard names every module that holds it as a run of whole parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from onboard.weights.matrix import Matrix

MAX_PATTERN = 300  # characters; longer ones and those that do not compile match nothing
MAX_PATTERNS = 200  # with wildcards; exact names are not bounded
WRAPPERS = ("model", "language_model", "backbone", "transformer")  # outer parts that dialects add or drop
ALIASES = {
    "linear_attn.in_proj_qkvz": ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z"),
    "linear_attn.in_proj_ba": ("linear_attn.in_proj_b", "linear_attn.in_proj_a"),
    "mlp.gate": ("mlp.router", "block_sparse_moe.gate"),
}


class IgnoreList:
    """A compiled ignore list. Matching a name costs the same whatever the number of exact entries."""

    def __init__(self, entries: Sequence[str]) -> None:
        wild = [e for e in entries if e.startswith("re:") or "*" in e]
        self._exact = frozenset(_plain(e) for e in entries if e not in wild)
        self._patterns = _joined([p for p in (_compiled(e) for e in wild[:MAX_PATTERNS]) if p is not None])
        self._known: dict[tuple[int, str], bool] = {}

    def match(self, matrix: Matrix) -> bool:
        """Whether the list names the matrix's module in its layer."""
        key = (matrix.layer, matrix.module)
        if key not in self._known:
            names = {matrix.module, *ALIASES.get(matrix.module, ())}
            names |= {n.replace("shared_expert", "shared_experts") for n in names}
            names |= {n.replace("mlp.", "block_sparse_moe.") for n in names if "expert" in n}
            self._known[key] = any(self._match(n, matrix.layer) for n in names)
        return self._known[key]

    def _match(self, module: str, layer: int) -> bool:
        path = f"layers.{layer}.{module}" if layer >= 0 else module
        parts = path.split(".")
        runs = (".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
        if any(run in self._exact for run in runs):
            return True
        spelled = [f"{prefix}{path}" for prefix in ("model.", "model.language_model.", "language_model.model.", "")]
        return any(p.match(name) for p in self._patterns for name in spelled)


def _plain(entry: str) -> str:
    parts = entry.split(".")
    while len(parts) > 1 and parts[0] in WRAPPERS:
        parts = parts[1:]
    return ".".join(parts)


def _compiled(entry: str) -> re.Pattern[str] | None:
    if len(entry) > MAX_PATTERN:
        return None
    text = entry[3:] if entry.startswith("re:") else "(?:.*\\.)?" + ".*".join(map(re.escape, entry.split("*")))
    if re.search(r"[*+}]\)?[*+{]", text):  # a repeated repeat may take for ever
        return None
    try:
        return re.compile(text)
    except re.error:
        return None


def _joined(patterns: list[re.Pattern[str]]) -> tuple[re.Pattern[str], ...]:
    """One pattern for all, which is ten times faster; apart where one refers to groups or sets flags."""
    alone = [p for p in patterns if re.search(r"\\\d|\(\?[P(a-zA-Z]", p.pattern)]
    rest = [p for p in patterns if p not in alone]
    together = [re.compile("|".join(f"(?:{p.pattern})" for p in rest))] if rest else []
    return (*together, *alone)
