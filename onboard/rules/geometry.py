"""A label -> the caches of that layer: one builder a label, found in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onboard.errors import FieldInvalid, UnknownLayerKind, WindowMissing
from onboard.facts import Facts
from onboard.layers import CacheSpec, ChunkedAttention, FullAttention, Layer, WindowAttention
from onboard.rules.state_builders import STATE_BUILDERS


def layer_for(facts: Facts, label: str, index: int) -> Layer:
    """The layer at `index`. Raises UnknownLayerKind, naming the label, where no builder knows it."""
    builder = BUILDERS.get(label)
    if builder is None:
        raise UnknownLayerKind(
            f"layer {index} is {label!r}, which no rule knows",
            path=f"{facts.prefix}layer_types[{index}]", value=label, hint="known: " + ", ".join(sorted(BUILDERS)),
        )
    return Layer(builder(facts, index))


def at(value: Any, index: int, path: str) -> Any:
    """The entry of a per-layer list, or the one value for all layers."""
    if not isinstance(value, tuple):
        return value
    if index >= len(value):
        raise FieldInvalid(f"{path} has {len(value)} entries and no entry {index}", path=path, value=len(value))
    return value[index]


def num_kv_heads(facts: Facts, index: int = 0) -> int:
    """KV heads of a layer: as stated, else one a query head."""
    if facts.get("multi_query"):
        return int(facts.record("num_kv_heads", 1, "multi_query: all query heads share one KV head"))
    stated = facts.get("num_kv_heads")
    if stated is None:
        stated = facts.need("num_attention_heads", "gives the KV heads where num_key_value_heads is absent")
        facts.caution("defaulted-field", "num_key_value_heads", "not stated; one KV head a query head")
        facts.record("num_kv_heads", stated, "num_attention_heads (no num_key_value_heads)")
    return int(at(stated, index, "num_key_value_heads"))


def head_dim(facts: Facts, index: int = 0) -> int:
    """Head size: as stated, else hidden_size / num_attention_heads."""
    stated = facts.get("head_dim")
    if stated is None:
        hidden, heads = facts.need("hidden_size"), at(facts.need("num_attention_heads"), index, "num_attention_heads")
        if hidden % heads:
            raise FieldInvalid(
                f"hidden_size {hidden} is not a multiple of {heads} heads and no head_dim is stated",
                path=facts.prefix + "head_dim", hint="state head_dim",
            )
        facts.caution("defaulted-field", "head_dim", f"not stated; hidden_size / num_attention_heads = {hidden // heads}")
        stated = facts.record("head_dim", hidden // heads, "hidden_size / num_attention_heads")
    return int(at(stated, index, "head_dim"))


def _full(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    heads, dim = num_kv_heads(facts, index), head_dim(facts, index)
    tied = bool(facts.get("k_eq_v"))
    if tied and facts.get("num_global_kv_heads") is not None:
        heads = facts.get("num_global_kv_heads")
    dim = facts.get("global_head_dim") or dim
    return (FullAttention(num_kv_heads=heads, k_dim=dim, v_dim=dim, k_eq_v=tied),)


def _sliding(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    window = facts.get("sliding_window")
    if not window:
        raise WindowMissing(
            f"layer {index} slides, but no sliding_window is stated", path=facts.prefix + "sliding_window", hint="state the window"
        )
    dim = head_dim(facts, index)
    return (WindowAttention(num_kv_heads=num_kv_heads(facts, index), k_dim=dim, v_dim=dim, window=window),)


def _chunked(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    chunk = facts.need("attention_chunk_size", "gives the chunk of chunked layers")
    dim = head_dim(facts, index)
    return (ChunkedAttention(num_kv_heads=num_kv_heads(facts, index), k_dim=dim, v_dim=dim, chunk=chunk),)


BUILDERS: dict[str, Callable[[Facts, int], tuple[CacheSpec, ...]]] = {
    "full_attention": _full,
    "sliding_attention": _sliding,
    "chunked_attention": _chunked,
    **STATE_BUILDERS,
}
