"""DeepSeek-V4 class: a short window of K on every layer, and one compressed entry for every few tokens beside it.

Sources: transformers 5.24 `models/deepseek_v4` (caches and config), vLLM 0.33 `models/deepseek_v4/attention.py` and
`compressor.py`. K and V are one tensor. Layers whose entries cover few tokens pick among them with an indexer, and
their windows overlap, so a sequence also carries the last window's first series.
"""

from __future__ import annotations

from onboard.errors import FieldInvalid, UnknownLayerKind
from onboard.facts import Facts
from onboard.layers import CacheSpec, Compressed, Indexer, WindowAttention
from onboard.rules.nested import single
from onboard.rules.recurrent_labels import COMPRESSED_SPARSE, HEAVILY_COMPRESSED, WINDOW_K
from onboard.states import CompressorOverlap

# Tokens an entry covers -> the layer's kind (transformers 5.24 `_COMPRESS_RATIO_TO_LAYER_TYPE`).
RATIO_LABELS = {0: WINDOW_K, 1: WINDOW_K, 4: COMPRESSED_SPARSE, 128: HEAVILY_COMPRESSED}
_RATES = {COMPRESSED_SPARSE: "compress_rate_csa", HEAVILY_COMPRESSED: "compress_rate_hca"}


def is_compressed(facts: Facts) -> bool:
    """Whether the config is of the class: ratios or rates are stated, or its grouped output projection."""
    return any(facts.get(name) is not None for name in ("compress_ratios", "compress_rates", "grouped_output_rank"))


def compressed_layer_types(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`layer_types` of the class, where a sliding layer keeps one tensor for K and V."""
    if not facts.has("layer_types") or not is_compressed(facts):
        return None
    return tuple(WINDOW_K if label == "sliding_attention" else label for label in facts.get("layer_types"))


def ratio_labels(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`compress_ratios`: one a layer, the draft head's layers behind them."""
    ratios = facts.get("compress_ratios")
    if ratios is None:
        return None
    drafts = facts.get("num_mtp_layers") or 0
    kinds = tuple(ratio_label(facts, ratio, index) for index, ratio in enumerate(ratios))
    return kinds[:count] if len(kinds) in (count, count + drafts) else kinds


def ratio_label(facts: Facts, ratio: object, index: int) -> str:
    """The kind of the layer at `index`. Raises UnknownLayerKind for a ratio that no engine serves."""
    label = RATIO_LABELS.get(ratio) if isinstance(ratio, int) and not isinstance(ratio, bool) else None
    if label is None:
        raise UnknownLayerKind(
            f"layer {index} compresses {ratio!r} tokens to one",
            path=f"{facts.prefix}compress_ratios[{index}]",
            value=repr(ratio),
            hint="known: 0 (no compression), 4, 128",
        )
    return label


def window_only(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """The window of K that every layer of the class has."""
    window = single(facts, "sliding_window", "gives the window that every layer has")
    heads = single(facts, "num_kv_heads") if facts.get("num_kv_heads") else 1
    return (WindowAttention(num_kv_heads=heads, k_dim=single(facts, "head_dim"), v_dim=0, window=window),)


def heavily_compressed(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """Window and compressed entries."""
    return (*window_only(facts, index), Compressed(single(facts, "head_dim"), _rate(facts, HEAVILY_COMPRESSED)))


def compressed_sparse(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """Window, compressed entries, the indexer's keys of them, and the overlap of windows."""
    rate, dim = _rate(facts, COMPRESSED_SPARSE), single(facts, "head_dim")
    index_dim = facts.need("compressed_index_head_dim", "gives the indexer's keys of compressed layers")
    return (
        *window_only(facts, index),
        Compressed(dim, rate),
        Indexer(index_dim, rate),
        CompressorOverlap(tokens_per_entry=rate, head_dim=dim, index_head_dim=index_dim),
    )


def _rate(facts: Facts, label: str) -> int:
    """Tokens an entry covers: `compress_rates`, else the older scalar, else the class's own (4 and 128)."""
    rates = facts.get("compress_rates") or {}
    rate = facts.get(_RATES[label]) or rates.get(label)
    if rate is None:
        rate = next(ratio for ratio, name in RATIO_LABELS.items() if name == label)
    if isinstance(rate, bool) or not isinstance(rate, int) or not 0 < rate < 2**24:
        raise FieldInvalid(
            "a compression rate must be a positive integer", path=facts.prefix + "compress_rates", value=repr(rate)
        )
    return rate
