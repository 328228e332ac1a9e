"""Which layers have an MLP, which have experts, and their matrices.

Each reader answers for one way of writing which layers are sparse, or None where its field is absent; the first
answer wins. Sources: the families' transformers 5.24 modeling files, as named.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from onboard.errors import WeightsUnknown
from onboard.facts import Facts
from onboard.layers import Layer
from onboard.weights.context import Context
from onboard.weights.matrix import Matrix, linear, vector
from onboard.weights.traits import Traits


def _int(value: Any) -> int:
    """A count that a field may give as a list for all layers: its largest entry stands for none, so only a number."""
    if isinstance(value, (list, tuple)):
        value = value[0] if value else 0
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    return int(value) if number else 0


def _indices(stated: Any) -> frozenset[int]:
    """The layer indices of a list; entries that are no whole number name no layer."""
    return frozenset(x for x in stated or () if isinstance(x, int) and not isinstance(x, bool))


def num_experts(facts: Facts) -> int:
    """Routed experts of a sparse layer; 0 for a dense model."""
    return _int(facts.get("num_experts"))


def sparse_layers(facts: Facts, count: int, traits: Traits) -> tuple[bool, ...]:
    """For each layer, whether it has experts."""
    if not num_experts(facts):
        return (False,) * count
    for reader in READERS:
        answer = reader(facts, count)
        if answer is not None:
            if len(answer) < count:
                raise WeightsUnknown(
                    f"{len(answer)} entries say which of {count} layers have experts", path=facts.path("num_experts")
                )
            return answer[:count]
    return tuple(i >= traits.dense_first for i in range(count))


def forget_idle_experts(facts: Facts, count: int, traits: Traits) -> None:
    """Drop a class's constants about experts where the file gives none of its layers any (dense Nemotron-H)."""
    if facts.origin("num_experts") != "class-default":
        return
    try:
        idle = not any(sparse_layers(facts, count, traits))
    except WeightsUnknown:
        return
    if idle:
        facts.forget(*(n for n in EXPERT_FACTS if facts.origin(n) == "class-default"))


EXPERT_FACTS = (
    "num_experts", "num_experts_per_token", "moe_intermediate_size", "num_shared_experts",
    "shared_expert_intermediate_size",
)  # fmt: skip


def _switch(facts: Facts, count: int) -> tuple[bool, ...] | None:
    return (False,) * count if facts.get("enable_moe_block") is False else None


def _pattern(facts: Facts, count: int) -> tuple[bool, ...] | None:
    """Nemotron-H: `E` is a layer of experts."""
    pattern = facts.get("hybrid_override_pattern")
    if pattern:
        return tuple(c == "E" for c in pattern if c != "|")
    types = facts.get("layers_block_type")
    return tuple(t == "moe" for t in types) if types and not {"moe", "mlp"}.isdisjoint(types) else None


def _types(facts: Facts, count: int) -> tuple[bool, ...] | None:
    types = facts.get("mlp_layer_types")
    return None if not types else tuple(t in ("sparse", "moe") for t in types)


def _listed(facts: Facts, count: int) -> tuple[bool, ...] | None:
    """`moe_layers` (Llama 4), `moe_layers_enum` as text (Step-3): the indices themselves."""
    stated = facts.get("moe_layers")
    if isinstance(stated, str):
        stated = [int(part) for part in stated.split(",") if part.strip().isdigit()]
    if not isinstance(stated, (list, tuple)) or not stated:
        return None
    sparse = _indices(stated)
    return tuple(i in sparse for i in range(count))


def _interleaved(facts: Facts, count: int) -> tuple[bool, ...] | None:
    """Llama 4: layers (i + 1) % step == 0."""
    step = facts.get("interleave_moe_layer_step")
    return None if not step else tuple((i + 1) % step == 0 for i in range(count))


def _periodic(facts: Facts, count: int) -> tuple[bool, ...] | None:
    """Jamba: layers offset, offset + period, ..."""
    period, offset = facts.get("expert_layer_period"), facts.get("expert_layer_offset") or 0
    return None if not period else tuple(i % period == offset for i in range(count))


def _dense_prefix(facts: Facts, count: int) -> tuple[bool, ...] | None:
    """DeepSeek: from `first_k_dense_replace` on, every `moe_layer_freq`-th; a list of flags is taken as it is."""
    every = facts.get("moe_layer_freq")
    if isinstance(every, (list, tuple)):
        return tuple(bool(x) for x in every[:count])
    first = facts.get("first_k_dense_replace")
    if first is None:
        return None
    step = _int(every) or 1
    return tuple(i >= first and i % step == 0 for i in range(count))


def _dense_layers(facts: Facts, count: int) -> tuple[bool, ...] | None:
    """LFM2-MoE: the first `num_dense_layers` are dense."""
    first = facts.get("num_dense_layers")
    return None if first is None else tuple(i >= first for i in range(count))


def _start_index(facts: Facts, count: int) -> tuple[bool, ...] | None:
    """ERNIE 4.5 MoE: from `moe_layer_start_index`, every `moe_layer_interval`-th (i + 1)."""
    start = facts.get("moe_layer_start")
    step = facts.get("moe_layer_interval") or 1
    return None if start is None else tuple(i >= start and (i + 1) % step == 0 for i in range(count))


def _sparse_step(facts: Facts, count: int) -> tuple[bool, ...] | None:
    """Qwen MoE: (i + 1) % decoder_sparse_step == 0, but not in `mlp_only_layers`."""
    step, dense = facts.get("decoder_sparse_step"), facts.get("mlp_only_layers")
    if not step and dense is None:
        return None
    never = _indices(dense)
    return tuple(i not in never and (i + 1) % (step or 1) == 0 for i in range(count))


READERS: tuple[Callable[[Facts, int], tuple[bool, ...] | None], ...] = (
    _switch, _pattern, _types, _listed, _interleaved, _periodic, _dense_prefix, _dense_layers, _start_index,
    _sparse_step,
)  # fmt: skip


def feed_forward(context: Context, layer: Layer, index: int, sparse: bool) -> list[Matrix]:
    """The MLP or the experts of a layer; nothing where the layer is a mixer alone."""
    traits = context.traits
    is_mixer = bool(layer.caches)
    if traits.shared_blocks:
        return []
    recurrent = all(c.kind == "state" for c in layer.caches) and is_mixer
    if (traits.mixer_only_layers and is_mixer) or (recurrent and not traits.recurrent_has_mlp):
        return []
    made: list[Matrix] = []
    if sparse:
        made += experts(context)
    if not sparse or traits.dense_beside_experts:
        beside = sparse and traits.beside_as_wide_as_stream
        made += mlp(context, context.hidden if beside else dense_width(context, index), "mlp", "mlp")
    return made


def dense_width(context: Context, index: int) -> int:
    """Width of a dense MLP: the field of dense layers where a family has its own, else intermediate_size."""
    facts, traits = context.facts, context.traits
    own = facts.get("intermediate_size_mlp")
    if own:
        return int(own)
    width = facts.layer("intermediate_size", index)
    if facts.get("shared_mlp_size") and not num_experts(facts):
        width = facts.get("shared_mlp_size")
    if width is None:
        width = traits.ffn_multiple * context.hidden
    if facts.get("adjust_ff_dim"):
        width = _rounded(facts, int(2 * width / 3))
    if facts.get("double_wide_mlp") and "shared" in context.layers[index].kinds():
        width *= 2
    return int(width) // 2 if traits.halved_ffn else int(width)


def _rounded(facts: Facts, width: int) -> int:
    """LFM2: two thirds, times `block_ffn_dim_multiplier`, up to a multiple of `block_multiple_of`."""
    width = int((facts.get("ffn_dim_multiplier") or 1.0) * width)
    multiple = facts.get("multiple_of") or 1
    return multiple * -(-width // multiple)


def mlp(
    context: Context,
    width: int,
    role: str,
    module: str,
    *,
    copies: int = 1,
    units: int = 0,
    gated: bool | None = None,
    bias: bool | None = None,
    hidden: int | None = None,
) -> list[Matrix]:
    """Gate, up and down, or two matrices."""
    traits, hidden = context.traits, hidden or context.hidden
    if bias is None:
        bias = bool(context.facts.get("mlp_bias")) if traits.mlp_bias is None else traits.mlp_bias
    made: list[Matrix] = []
    if is_gated(context) if gated is None else gated:
        made += linear(role, f"{module}.gate_proj", hidden, width, bias=bias, copies=copies, units=units)
    made += linear(role, f"{module}.up_proj", hidden, width, bias=bias, copies=copies, units=units)
    return made + linear(role, f"{module}.down_proj", width, hidden, bias=bias, copies=copies, units=units)


def is_gated(context: Context) -> bool:
    """Whether the MLP has a gate: as T5's `feed_forward_proj` says, else as the family's code does."""
    stated = context.facts.get("feed_forward_proj")
    return bool(stated.startswith("gated")) if isinstance(stated, str) else context.traits.gated


def expert_width(context: Context) -> int:
    """The width of one routed expert; the dense width where the config has no other."""
    facts = context.facts
    width = _int(facts.get("moe_intermediate_size")) or _int(facts.get("intermediate_size"))
    if not width:
        raise WeightsUnknown("the width of its experts is not stated", path="moe_intermediate_size")
    return width


def experts(context: Context) -> list[Matrix]:
    """Router, routed experts (all of them are resident), shared experts."""
    facts, traits, hidden = context.facts, context.traits, context.hidden
    count, width = num_experts(facts), expert_width(context)
    latent = facts.get("moe_latent_size")
    made: list[Matrix] = [Matrix(role="router", module="mlp.gate", rows=count, columns=hidden)]
    if traits.router_bias:
        made.append(vector("router", "mlp.gate", count))
    if latent:  # Nemotron-3 Super, Kimi-K3: experts work in a narrower space
        made += linear("replicated", "mlp.fc1_latent_proj", hidden, latent)
        made += linear("replicated", "mlp.fc2_latent_proj", latent, hidden)
    made += mlp(
        context, width, "experts", "mlp.experts", copies=count, units=count, gated=traits.experts_gated,
        bias=traits.expert_bias, hidden=latent or hidden,
    )  # fmt: skip
    shared = shared_width(context, width)
    if shared:
        made += mlp(context, shared, "shared_expert", "mlp.shared_expert", bias=False)
        if traits.shared_gate:
            made.append(Matrix(role="router", module="mlp.shared_expert_gate", rows=1, columns=hidden))
    return made


def shared_width(context: Context, width: int) -> int:
    """Width of all shared experts together."""
    facts = context.facts
    stated = facts.get("shared_expert_intermediate_size") or facts.get("shared_mlp_size")
    if stated:
        return int(stated)
    stated_count = facts.get("num_shared_experts")
    return (context.traits.shared_experts if stated_count is None else _int(stated_count)) * width
