"""Which layers are recurrent: one reader for each way in which configs write it.

Every reader answers with one label a layer, or None where its field is absent. Labels are transformers' names;
`pattern_words.RENAMES` holds other names for them. Sources: transformers 5.24 `models/*/configuration_*.py`,
and, where a family has no class there, its vLLM model file, as named on each reader.
"""

from __future__ import annotations

from collections.abc import Callable

from onboard.errors import FieldInvalid, FieldMissing, LayerCountMismatch, UnknownLayerKind
from onboard.facts import Facts
from onboard.rules.compressed import compressed_layer_types, ratio_labels
from onboard.rules.counts import pairs_attention_and_mlp
from onboard.rules.pattern_words import indices, named, pattern_labels
from onboard.rules.recurrent_labels import (
    CONV,
    FULL,
    HYBRID,
    HYBRID_SLIDING,
    KEPT_HIDDEN_STATES,
    LINEAR,
    MLP,
    SLIDING,
    YOCO_CROSS,
)


def _pattern_string(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`hybrid_override_pattern` (Nemotron-H)."""
    pattern = facts.get("hybrid_override_pattern")
    return None if pattern is None else pattern_labels(facts, pattern, "hybrid_override_pattern")


def _block_type_list(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`layers_block_type` (Nemotron-H, Zamba)."""
    if not facts.has("layers_block_type"):
        return None
    return named(facts, facts.get("layers_block_type"), "layers_block_type")


def _pairs(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`layer_types` with an entry for each layer's MLP behind its attention (Dory)."""
    if not pairs_attention_and_mlp(facts):
        return None
    entries = named(facts, facts.get("layer_types"), "layer_types")
    if any(entry != MLP for entry in entries[1::2]):
        raise UnknownLayerKind(
            "layer_types mixes pairs of attention and mlp with other entries", path=facts.prefix + "layer_types"
        )
    return entries[::2]


def _hidden_state_layers(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`attn_layers`: local or hashed attention over kept hidden states (transformers 5.24 modeling_reformer.py)."""
    kinds = facts.get("attn_layers")
    if kinds is None:
        return None
    for index, kind in enumerate(kinds):
        if kind not in ("local", "lsh"):
            raise UnknownLayerKind(
                f"layer {index} has attention {kind!r}",
                path=f"{facts.prefix}attn_layers[{index}]",
                value=repr(kind),
                hint="known: local, lsh",
            )
    return (KEPT_HIDDEN_STATES,) * len(kinds)


def _block_cycle(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`block_types`, repeated to the end; its attention is local (RecurrentGemma)."""
    cycle = facts.get("block_types")
    if not cycle:
        return None
    words = named(facts, cycle, "block_types")
    local = tuple(SLIDING if word == FULL else word for word in words)
    return tuple(local[i % len(local)] for i in range(count))


def _one_based_lists(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`linear_attn_config` with `kda_layers` and `full_attn_layers`, counted from 1 (Kimi-Linear, Kimi-K3)."""
    config = facts.get("linear_attn_config")
    if not config or config.get("kda_layers") is None or config.get("full_attn_layers") is None:
        return None
    path = "linear_attn_config"
    linear = indices(facts, f"{path}.kda_layers", config["kda_layers"], count, first=1)
    full = indices(facts, f"{path}.full_attn_layers", config["full_attn_layers"], count, first=1)
    if linear & full or len(linear) + len(full) != count:
        raise LayerCountMismatch(
            f"kda_layers and full_attn_layers name {len(linear | full)} of {count} layers, {len(linear & full)} twice",
            path=facts.prefix + path,
            value=len(linear | full),
            hint="each layer, counted from 1, stands in exactly one of the two lists",
        )
    return tuple(FULL if i in full else LINEAR for i in range(count))


def _numbered_list(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`attn_type_list`: 1 is attention, 0 lightning attention (MiniMax-Text-01, M1; vLLM `models/minimax_text_01.py`).

    MiniMax-M2 keeps the key with ones only.
    """
    kinds = facts.get("attn_type_list")
    if kinds is None:
        return None
    for index, kind in enumerate(kinds):
        if kind not in (0, 1):
            raise UnknownLayerKind(
                f"layer {index} has attention type {kind!r}",
                path=f"{facts.prefix}attn_type_list[{index}]",
                value=repr(kind),
                hint="0 is lightning attention, 1 attention",
            )
    return tuple(FULL if kind else LINEAR for kind in kinds) if 0 in kinds else None


def _period(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`attn_layer_period` and `attn_layer_offset`: attention where i mod period is the offset (Jamba).

    Zamba counts from its fourth layer, its third is a hybrid, and every attention layer keeps its Mamba state.
    """
    if facts.has("layer_types"):
        return None
    if facts.get("attn_layer_period") is None and facts.get("attn_layer_offset") is None:
        return None
    period, offset = facts.need("attn_layer_period"), facts.need("attn_layer_offset")
    if offset >= period:
        raise FieldInvalid(
            "attn_layer_offset reaches attn_layer_period", path=facts.prefix + "attn_layer_offset", value=offset
        )
    if facts.get("zamba_mamba_heads") is None:
        return tuple(FULL if i % period == offset else LINEAR for i in range(count))
    later = tuple(HYBRID if i % period == offset else LINEAR for i in range(count - 3))
    return (LINEAR, LINEAR, HYBRID, *later)[:count]


def _attention_indices(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`attn_layer_indices`: the attention layers among Mamba layers (Bamba)."""
    listed = facts.get("attn_layer_indices")
    if listed is None:
        return None
    full = indices(facts, "attn_layer_indices", listed, count)
    return tuple(FULL if i in full else LINEAR for i in range(count))


def _hyena_indices(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`attn_layer_idxs` and `hyena_layer_idxs`: every layer in exactly one of the two (StripedHyena)."""
    if facts.get("hyena_layer_idxs") is None:
        return None
    hyena = indices(facts, "hyena_layer_idxs", facts.get("hyena_layer_idxs"), count)
    full = indices(facts, "attn_layer_idxs", facts.get("attn_layer_idxs") or (), count)
    if hyena & full or len(hyena) + len(full) != count:
        raise LayerCountMismatch(
            f"the two index lists name {len(hyena | full)} of {count} layers, {len(hyena & full)} twice",
            path=facts.path("hyena_layer_idxs"),
            value=len(hyena | full),
        )
    return tuple(FULL if i in full else LINEAR for i in range(count))


def _attention_among_convs(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`full_attn_idxs`: the attention layers among convolutions (LFM2)."""
    listed = facts.get("full_attn_idxs")
    if listed is None:
        return None
    full = indices(facts, "full_attn_idxs", listed, count)
    return tuple(FULL if i in full else CONV for i in range(count))


def _hybrid_indices(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`hybrid_layer_ids`: Mamba layers that also hold the shared attention block's K and V (Zamba 2)."""
    listed = facts.get("hybrid_layer_ids")
    if listed is None:
        return None
    both = indices(facts, "hybrid_layer_ids", listed, count)
    return tuple(HYBRID if i in both else LINEAR for i in range(count))


def _local_indices(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`local_layer_ids`: the layers with a window, all with convolutions beside (Inkling)."""
    listed = facts.get("local_layer_ids")
    if listed is None or facts.get("sconv_kernel_size") is None:
        return None
    local = indices(facts, "local_layer_ids", listed, count)
    return tuple(HYBRID_SLIDING if i in local else HYBRID for i in range(count))


def _groups(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`layer_group_size` n: every n-th layer is attention (Ling/Ring 2.5, transformers `bailing_hybrid`).

    Ring linear ends with attention in its incomplete group (vLLM 0.25 `models/bailing_moe_linear.py`).
    """
    size = facts.get("layer_group_size")
    if size is None:
        return None
    whole = count if facts.has("short_conv_kernel_size") else count // size * size
    tail = count if facts.get("group_norm_size") is None else whole
    return tuple(FULL if (i + 1) % size == 0 or i >= tail else LINEAR for i in range(count))


def _steps(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`mamba_step` n: attention in the middle of every n layers, windowed unless listed (PLaMo 2, `is_mamba`)."""
    step = facts.get("mamba_step")
    if step is None:
        return None
    full = indices(facts, "full_attention_idx", facts.get("full_attention_idx") or (), count)
    last_only = count <= step // 2
    attention = {count - 1} if last_only else {i for i in range(count) if i % step == step // 2}
    return tuple((FULL if i in full else SLIDING) if i in attention else LINEAR for i in range(count))


def _global_indices(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`global_attn_idx`: the layers without a window; every layer has a Mamba state beside (Hymba)."""
    listed = facts.get("global_attn_idx")
    if listed is None or facts.get("ssm_state_dim") is None:
        return None
    full = indices(facts, "global_attn_idx", listed, count)
    return tuple(HYBRID if i in full else HYBRID_SLIDING for i in range(count))


def _half_of_a_yoco(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`mb_per_layer` n: Mamba on every n-th layer, and a stack whose upper half keeps nothing of its own.

    Up to the middle attention is windowed, the layer behind it is full, and all later attention reads that one
    (Phi-4-mini-flash, SambaY; vLLM 0.25 `models/phi4flash.py`).
    """
    step = facts.get("mb_per_layer")
    if step is None:
        return None
    half = count // 2
    if (half + 1) % step == 0 or half + 1 >= count:
        raise FieldInvalid(
            f"layer {half + 1}, which the upper half reads, is no attention layer",
            path=facts.path("mb_per_layer"),
            value=step,
        )
    lower = SLIDING if facts.get("sliding_window") else FULL
    attention = [lower if i < half else FULL if i == half + 1 else YOCO_CROSS for i in range(count)]
    return tuple((LINEAR if i <= half else MLP) if i % step == 0 else attention[i] for i in range(count))


def _all_alike(facts: Facts, count: int) -> tuple[str, ...] | None:
    """Every layer holds both caches (Falcon-H1), or only a state (Mamba, RWKV, xLSTM)."""
    if facts.get("mamba_d_ssm") is not None:
        return (HYBRID,) * count
    pure = ("pure_state_dim", "qk_dim_factor", "rescale_every", "decay_low_rank_dim", "ssm_cfg", "expand_k")
    return (LINEAR,) * count if any(facts.get(name) is not None for name in pure) else None


# Readers that know a family's own meaning of `layer_types`, asked before the list is taken as it stands.
LIST_READERS: tuple[Callable[[Facts, int], tuple[str, ...] | None], ...] = (_pairs, compressed_layer_types)


def unplaced(facts: Facts, count: int) -> None:
    """Asked last: refuse where a config has the sizes of a layer kind, and nothing says which layers are of it."""
    for size, places in PLACED_BY.items():
        if facts.get(size) is not None:
            raise FieldMissing(
                f"the config has {facts.path(size)}, and nothing says which layers it is for",
                path=facts.path(places),
                value=None,
                hint=f"state {places}, or layer_types",
            )


# A size that only one kind of layer has -> the field that usually says which layers those are.
PLACED_BY: dict[str, str] = {
    "grouped_output_rank": "compress_ratios",
    "lightning_alpha": "attn_type_list",
    "linear_attn_config": "layer_types",
    "linear_conv_kernel_dim": "full_attention_interval",
    "linear_num_heads": "layer_types",
    "ssm_state_dim": "layers_block_type",
    "conv_l_cache": "full_attn_idxs",
    "sconv_kernel_size": "local_layer_ids",
    "cca_time0": "layer_types",
}

RECURRENT_READERS: tuple[Callable[[Facts, int], tuple[str, ...] | None], ...] = (
    ratio_labels,
    _block_type_list,
    _pattern_string,
    _one_based_lists,
    _numbered_list,
    _attention_indices,
    _hyena_indices,
    _attention_among_convs,
    _hybrid_indices,
    _local_indices,
    _global_indices,
    _half_of_a_yoco,
    _steps,
    _period,
    _groups,
    _hidden_state_layers,
    _block_cycle,
    _all_alike,
)
