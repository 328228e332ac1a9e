"""The built-in multi-token-prediction head: layers on top of the stack, unused until speculation asks for them.

What each layer is comes from the first of these that the config states: a list or pattern of its own, the entries
that a per-layer list has beyond the stack, or a family's constant. Else it is the stack's own growing kind: one layer
like the last that has most caches (DeepSeek and GLM: latent with the indexer; Qwen3.5, GLM-4.5: full attention).
Sources: vLLM 0.33 `models/{deepseek_mtp,glm4_moe_mtp,qwen3_5_mtp,nemotron_h_mtp}.py` and `models/deepseek_v4/mtp.py`;
transformers 5.24 `configuration_utils.get_mtp_config` and the classes' `mtp_layer_types`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onboard.facts import Facts
from onboard.layers import CacheSpec, Compressed, FullAttention, LatentAttention, Layer
from onboard.rules.compressed import ratio_label
from onboard.rules.pattern_words import indices, named, pattern_labels
from onboard.rules.recurrent_labels import HYBRID, HYBRID_SLIDING, SLIDING, WINDOW_K

# A draft layer's kind that only code knows, by model type.
FAMILY_LABELS: dict[str, str] = {
    "mellum": SLIDING,  # transformers 5.24 MellumConfig.__post_init__
    "mimo_v2_flash": SLIDING,  # its published MTP blocks use the window (vLLM 0.25 models/mimo_v2_mtp.py)
}

# Model types whose checkpoints usually hold draft layers (vLLM 0.33 config/speculative.py): where a file states none,
# the key may have been lost, and that is said.
USUALLY_DRAFTING = frozenset({
    "deepseek_v3", "deepseek_v32", "deepseek_v4", "ernie4_5_moe", "exaone_moe", "glm4_moe", "glm4_moe_lite",
    "glm4v_moe_text", "glm_moe_dsa", "glm_ocr_text", "kimi_k2", "longcat_flash", "mimo", "mimo_v2_flash", "minimax_m2",
    "nemotron_h", "qwen3_5_text", "qwen3_5_moe_text", "step3p5",
})  # fmt: skip

# Draft layers that the checkpoint holds and the config does not mention, by model type.
UNSTATED_LAYERS: dict[str, int] = {
    "qwen3_next": 1,  # vLLM 0.33 models/qwen3_next_mtp.py: getattr(config, "num_nextn_predict_layers", 1)
}


def mtp_layers(facts: Facts, layers: tuple[Layer, ...], names: tuple[str, ...]) -> tuple[Layer, ...]:
    """The draft head's layers. `names` are the labels of `layers` (the stack before loops)."""
    count = _count(facts)
    if not count:
        return ()
    for reader in _READERS:
        blocks = reader(facts, len(names), count)
        if blocks is not None:
            return tuple(_layer(facts, labels, i, layers, names) for i, labels in enumerate(blocks))
    return (_growing(layers),) * count if layers else ()


def _count(facts: Facts) -> int:
    nested = facts.root.get("mtp_config")
    if isinstance(nested, Mapping) and not facts.has("num_mtp_layers"):
        stated = nested.get("num_nextn_predict_layers")
        if isinstance(stated, int) and not isinstance(stated, bool) and 0 <= stated <= 1000:
            return int(facts.record("num_mtp_layers", stated, "mtp_config.num_nextn_predict_layers", "config"))
    stated = facts.get("num_mtp_layers")
    if stated is not None:
        return 0 if facts.get("use_mtp") is False else int(stated) * (facts.get("mtp_transformer_layers") or 1)
    if any(isinstance(key, str) and key.startswith("mtp_") for key in facts.text):
        facts.caution(
            "defaulted-field", "num_mtp_layers", "mtp_* keys are stated, and no number of draft layers: none here"
        )
    elif facts.model_type in USUALLY_DRAFTING:
        facts.caution("defaulted-field", "num_nextn_predict_layers", "not stated; no built-in draft layers are counted")
    unstated = UNSTATED_LAYERS.get(facts.model_type, 0)
    return int(facts.record("num_mtp_layers", unstated, "the checkpoint's own head")) if unstated else 0


# --- the blocks of each draft layer: one, or several that share its index ------------------------------------------

Blocks = tuple[tuple[str, ...], ...]


def _single(labels: tuple[str, ...]) -> Blocks:
    return tuple((label,) for label in labels)


def _own_list(facts: Facts, stack: int, count: int) -> Blocks | None:
    """`mtp_layer_types`: one a draft layer. `mtp_layers_block_type`: the blocks of every draft layer (Nemotron-H)."""
    if facts.has("mtp_layer_types"):
        return _single(named(facts, facts.get("mtp_layer_types"), "mtp_layer_types")[:count])
    if facts.has("mtp_layers_block_type"):
        return (named(facts, facts.get("mtp_layers_block_type"), "mtp_layers_block_type"),) * count
    return None


def _own_pattern(facts: Facts, stack: int, count: int) -> Blocks | None:
    """`mtp_hybrid_override_pattern`: one character a block, for every draft layer (Nemotron-H)."""
    pattern = facts.get("mtp_hybrid_override_pattern")
    return None if pattern is None else (pattern_labels(facts, pattern, "mtp_hybrid_override_pattern"),) * count


def _local_ids(facts: Facts, stack: int, count: int) -> Blocks | None:
    """`mtp_local_layer_ids`: draft layers with a window, all with convolutions beside (Inkling)."""
    if facts.get("sconv_kernel_size") is None:
        return None
    nested = facts.root.get("mtp_config")
    listed: Any = facts.get("mtp_local_layer_ids")
    if listed is None and isinstance(nested, Mapping):
        listed = nested.get("local_layer_ids")
    local = indices(facts, "mtp_local_layer_ids", listed or (), count)
    return _single(tuple(HYBRID_SLIDING if i in local else HYBRID for i in range(count)))


def _beyond_ratios(facts: Facts, stack: int, count: int) -> Blocks | None:
    """Entries of `compress_ratios` beyond the stack (DeepSeek-V4; without them the draft layer is a window alone)."""
    if facts.get("compress_ratios") is None and facts.get("compress_rates") is None:
        return None
    beyond = (facts.get("compress_ratios") or ())[stack : stack + count]
    kinds = tuple(ratio_label(facts, ratio, stack + i) for i, ratio in enumerate(beyond))
    return _single(kinds + (WINDOW_K,) * (count - len(kinds)))


def _beyond_types(facts: Facts, stack: int, count: int) -> Blocks | None:
    """Entries of `layer_types` beyond the stack (Step-3.5)."""
    if not facts.has("layer_types"):
        return None
    beyond = facts.get("layer_types")[stack : stack + count]
    return _single(named(facts, beyond, "layer_types")) if len(beyond) == count else None


def _family(facts: Facts, stack: int, count: int) -> Blocks | None:
    label = FAMILY_LABELS.get(facts.model_type)
    return None if label is None else ((label,),) * count


_READERS: tuple[Callable[[Facts, int, int], Blocks | None], ...] = (
    _own_list,
    _own_pattern,
    _local_ids,
    _beyond_ratios,
    _beyond_types,
    _family,
)


# --- its caches -----------------------------------------------------------------------------------------------------


def _layer(
    facts: Facts, labels: tuple[str, ...], index: int, layers: tuple[Layer, ...], names: tuple[str, ...]
) -> Layer:
    """The caches of its blocks, each like the last layer of the stack with that label, else built from its label."""
    from onboard.rules.geometry import layer_for

    caches: tuple[CacheSpec, ...] = ()
    for label in labels:
        like = (layers[i] for i in reversed(range(len(names))) if names[i] == label and not _shares(layers[i]))
        block = next(like, None) or layer_for(facts, label, len(names) + index)
        caches += block.caches
    return Layer(caches)


def _shares(layer: Layer) -> bool:
    return "shared" in layer.kinds()


def _growing(layers: tuple[Layer, ...]) -> Layer:
    """The last layer that grows, of those with most caches (an indexer of its own); else the last of all."""
    grows = [x for x in layers if any(isinstance(c, (FullAttention, LatentAttention, Compressed)) for c in x.caches)]
    grows = [x for x in grows if "state" not in x.kinds()] or grows
    most = max((len(x.caches) for x in grows), default=0)
    return next((x for x in reversed(grows) if len(x.caches) == most), layers[-1])
