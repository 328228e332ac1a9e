"""Parameters of a model by rule, from its config's facts and its layers alone: the same groups as headers give.

Used where no file is there to be read, and to cross-check headers. A plain checkpoint's count is exact or nearly so;
a quantised one's bytes follow from the scheme its config states (`schemes`) and carry an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onboard.errors import Refusal, WeightsUnknown
from onboard.facts import Facts
from onboard.fields_weights import WEIGHT_FIELDS
from onboard.layers import Layer
from onboard.profile import TensorGroup, WeightVariant
from onboard.values import replace
from onboard.weights.context import Context
from onboard.weights.feedforward import dense_width, experts, feed_forward, sparse_layers
from onboard.weights.matrix import Matrix, linear, vector
from onboard.weights.mixers import mixer
from onboard.weights.outside import encoder_stack, outside, per_layer_inputs, shared_blocks
from onboard.weights.packing import to_groups
from onboard.weights.schemes import scheme_of
from onboard.weights.towers import towers
from onboard.weights.traits import traits_of

DTYPE_BYTES = {
    "bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4, "float64": 8, "auto": 2,
    "bf16": 2, "fp16": 2, "fp32": 4,
}  # fmt: skip
KNOWN_PPM, QUANTISED_PPM, UNKNOWN_PPM = 10_000, 40_000, 100_000


def variant_from_config(
    facts: Facts, layers: tuple[Layer, ...], mtp_layers: tuple[Layer, ...] = (), *, name: str = "config",
    quantization: Mapping[str, Any] | None = None,
) -> WeightVariant:  # fmt: skip
    """The weights a config implies. Raises WeightsUnknown where a layer has no rule, a width is not stated or no rule
    packs as the quantisation method does, FieldInvalid where what is stated of it cannot be true.
    """
    stated, where = quantization or {}, facts.path("quantization_config")
    scheme = scheme_of(stated, str(facts.get("expert_dtype") or ""), where)
    method = stated.get("quant_method")
    if scheme is None and method:
        raise WeightsUnknown(
            f"no rule says how {str(method)[:80]!r} packs weights",
            path=f"{where}.quant_method",
            value=str(method)[:80],
            hint="give --weights-gb X (10^9 bytes, the checkpoint's size)",
        )
    try:
        made, known = matrices(facts, layers, mtp_layers)
    except WeightsUnknown:
        raise
    except Refusal as error:
        raise WeightsUnknown(
            f"parameters cannot be counted: {error.message}",
            path=error.path,
            value=error.value,
            hint="give --weights-gb X (10^9 bytes, the checkpoint's size)",
        ) from None
    groups = to_groups(made, scheme, element_bytes(facts), facts.get("dtype") or "bfloat16")
    ppm = UNKNOWN_PPM if not known else (QUANTISED_PPM if scheme else KNOWN_PPM)
    return WeightVariant(
        name=name,
        num_bytes=sum(g.num_bytes * g.copies for g in groups),
        origin="parameters",
        where="the config's geometry" + ("" if known else ", by the rule for a Llama"),
        quantization=scheme.name if scheme else None,
        num_parameters=sum(g.num_elements * g.copies for g in groups),
        groups=groups,
        error_ppm=ppm,
    )


def record_weight_facts(facts: Facts) -> None:
    """Ask for every field that parameters rest on, so that a profile alone can count them again."""
    for name in WEIGHT_FIELDS:
        if facts.has(name) or facts.origin(name):
            facts.find(name)


def weights_by_rule(
    facts: Facts, layers: tuple[Layer, ...], mtp_layers: tuple[Layer, ...]
) -> tuple[WeightVariant, ...]:
    """The weights a config implies, as a profile's only variant; none where no rule counts them."""
    stated = facts.get("quantization_config")
    try:
        return (
            variant_from_config(
                facts, layers, mtp_layers, quantization=stated if isinstance(stated, Mapping) else None
            ),
        )
    except WeightsUnknown as error:
        facts.caution("weights-unknown", error.path, error.message)
        return ()


def element_bytes(facts: Facts) -> int:
    """Bytes of an element at the config's dtype, two where it states none."""
    return DTYPE_BYTES.get(str(facts.get("dtype") or "bfloat16").removeprefix("torch."), 2)


def matrices(facts: Facts, layers: tuple[Layer, ...], mtp_layers: tuple[Layer, ...] = ()) -> tuple[list[Matrix], bool]:
    """Every matrix of the model, and whether its text type and towers have entries in the tables."""
    traits, known = traits_of(facts.model_type)
    hidden = int(facts.need("hidden_size"))
    context = Context(facts, traits, layers, hidden)
    sparse = sparse_layers(facts, len(layers), traits)
    made = outside(context) + stack(context, sparse)
    made += draft_head(context, mtp_layers, any(sparse))
    made += encoder_stack(context) + shared_blocks(context)
    eyes, towers_known = towers(facts.root, hidden)
    return made + eyes, towers_known and (known or not facts.model_type)


def stack(context: Context, sparse: Sequence[bool]) -> list[Matrix]:
    """The matrices of every layer; equal layers are computed once."""
    facts, traits, hidden = context.facts, context.traits, context.hidden
    alike: dict[tuple[Layer, bool, int], list[int]] = {}
    differ = facts.differs_by_layer()
    kept = context.layers[: facts.get("num_hidden_groups")]  # ALBERT: one group's weights serve all layers
    for index, layer in enumerate(kept):
        alike.setdefault((layer, sparse[index], index if differ else -1), []).append(index)
    made: list[Matrix] = []
    for (layer, has_experts, _), indices in alike.items():
        one = mixer(context, layer, indices[0]) + feed_forward(context, layer, indices[0], has_experts)
        one += [vector("norm", "norms", traits.norms * (2 if traits.norm_bias else 1) * hidden)]
        made += [_at(m, tuple(indices)) for m in one + per_layer_inputs(context)]
    return made


def _at(matrix: Matrix, layers: tuple[int, ...], part: str = "") -> Matrix:
    return replace(matrix, layers=layers, role=f"{part}.{matrix.role}" if part else matrix.role)


def draft_head(context: Context, mtp_layers: Sequence[Layer], sparse: bool) -> list[Matrix]:
    """Built-in MTP layers: a layer of the stack's own kind, and the projection that joins two streams."""
    made: list[Matrix] = []
    base = len(context.layers)
    whole = Context(context.facts, context.traits, (*context.layers, *mtp_layers), context.hidden)
    for offset, layer in enumerate(mtp_layers):
        one = mixer(whole, layer, base + offset) + feed_forward(whole, layer, min(base - 1, base + offset), sparse)
        one += linear("replicated", "eh_proj", 2 * context.hidden, context.hidden)
        one.append(vector("norm", "norms", 5 * context.hidden))
        stated = context.facts.find("num_mtp_layers")
        deepseek = stated is not None and stated.where.endswith("num_nextn_predict_layers")
        if deepseek and not context.traits.mixer_only_layers:
            one += stored_copies(context)
        if context.traits.mixer_only_layers and layer.caches:
            pattern = str(context.facts.get("mtp_hybrid_override_pattern") or "")
            listed = context.facts.get("mtp_layers_block_type") or ()
            one += experts(context) * (pattern.count("E") or list(listed).count("moe"))
        made += [_at(m, (base + offset,), "mtp") for m in one]
    return made


def stored_copies(context: Context) -> list[Matrix]:
    """DeepSeek-style checkpoints store the embedding and the head again in each draft layer; engines share them."""
    vocab = int(context.facts.need("vocab_size"))
    return [
        Matrix(role=role, module=module, rows=vocab, columns=context.hidden, units=vocab)
        for role, module in (("embedding", "embed_tokens"), ("lm_head", "shared_head.head"))
    ]


def active_parameters(groups: Iterable[TensorGroup], experts_per_token: int | None) -> int:
    """Parameters one token passes through: all but the routed experts it is not sent to. Says nothing on memory."""
    total = 0
    for group in groups:
        count = group.num_elements * group.copies
        if group.kind == "experts" and group.num_units and experts_per_token:
            count = count * min(experts_per_token, group.num_units) // group.num_units
        total += count
    return total


__all__ = ["active_parameters", "dense_width", "matrices", "to_groups", "variant_from_config"]
