"""Which layers keep recurrent state and which slide, from GGUF keys and the architecture's entry."""

from __future__ import annotations

from collections.abc import Sequence

from onboard.errors import FieldMissing
from onboard.gguf.archs import Arch
from onboard.gguf.metadata import Metadata

_PATTERN = "attention.sliding_window_pattern"


def recurrent_layers(meta: Metadata, arch: Arch, count: int) -> list[bool]:
    """True for each layer that keeps state (llama_hparams::is_recr)."""
    if arch.recurrent in ("all", "beside"):
        return [True] * count
    if arch.recurrent == "interval":
        stated = meta.per_layer("attention.recurrent_layers", count)
        if stated is not None:
            return [bool(s) for s in stated]
        every = meta.get_int("full_attention_interval", low=1) or arch.interval
        return [(i + 1) % every != 0 for i in range(count)]
    if not arch.recurrent:
        return [False] * count
    heads = meta.per_layer("attention.head_count_kv", count)
    if heads is None:
        return [False] * count
    widths = meta.per_layer("feed_forward_length", count) if arch.recurrent == "no_kv_heads_no_ffn" else None
    return [h == 0 and (widths is None or widths[i] == 0) for i, h in enumerate(heads)]


def sliding_layers(meta: Metadata, arch: Arch, count: int, recurrent: Sequence[bool]) -> tuple[int, list[bool]]:
    """The window, and True for each layer that has it; (0, all False) where the architecture has none.

    Raises FieldMissing where the file lacks what the engine needs and no other file of that architecture had a pattern.
    """
    rule = arch.window
    none = 0, [False] * count
    stated = meta.get_int("attention.sliding_window", "sliding_window")
    if rule is None or (rule.only_with_layers and count != rule.only_with_layers):
        if stated:
            meta.caution("window-ignored", "attention.sliding_window", f"llama.cpp caches every token for {meta.arch}")
        return none
    window = stated if stated is not None else rule.default
    if not window:
        return none
    window = rule.fixed or window
    array = meta.value(_PATTERN)
    if isinstance(array, tuple):
        return window, [bool(v) for v in meta.per_layer(_PATTERN, count) or ()]
    if rule.array and not rule.pattern:
        raise FieldMissing(f"the file states no {meta.key(_PATTERN)}", path=meta.key(_PATTERN), hint="convert it again")
    if rule.array:
        meta.caution(
            "defaulted-field", _PATTERN, f"llama.cpp refuses a file without it; every {rule.pattern}th is full"
        )
    every = meta.get_int(_PATTERN) or rule.pattern
    if not every:
        return window, [not r for r in recurrent]
    full = 0 if rule.full_first else every - 1
    return window, [i % every != full for i in range(count)]
