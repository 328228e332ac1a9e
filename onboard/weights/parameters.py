"""Parameters of a model by rule, from its config's facts and its layers alone: the same groups as headers give.

Used where no file is there to be read, and to cross-check headers. A plain checkpoint's count is exact or nearly so;
a quantised one's bytes follow from the scheme its config states (`schemes`) and carry an interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onboard.errors import Refusal, WeightsUnknown
from onboard.facts import Facts
from onboard.fields_weights import WEIGHT_FIELDS
from onboard.layers import Heads, Layer
from onboard.profile import TensorGroup, WeightVariant
from onboard.weights.feedforward import dense_width, experts, feed_forward, sparse_layers
from onboard.weights.groups import collapse
from onboard.weights.matrix import Matrix, linear, vector
from onboard.weights.mixers import Context, mixer
from onboard.weights.schemes import Schemes, scheme_of
from onboard.weights.towers import towers
from onboard.weights.traits import Traits, traits_of

DTYPE_BYTES = {
    "bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4, "float64": 8, "auto": 2,
    "bf16": 2, "fp16": 2, "fp32": 4,
}  # fmt: skip
HEADLESS = ("ForRewardModel", "ForSequenceClassification", "ForTokenClassification", "ForEmbedding")
KNOWN_PPM, QUANTISED_PPM, UNKNOWN_PPM = 10_000, 40_000, 100_000


def variant_from_config(
    facts: Facts, layers: tuple[Layer, ...], mtp_layers: tuple[Layer, ...] = (), *, name: str = "config",
    quantization: Mapping[str, Any] | None = None,
) -> WeightVariant:  # fmt: skip
    """The weights a config implies. Raises WeightsUnknown where a layer has no rule or a width is not stated."""
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
    scheme = scheme_of(quantization or {}, str(facts.get("expert_dtype") or ""))
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
    made = outside(context)
    for index, layer in enumerate(layers):
        one = mixer(context, layer, index) + feed_forward(context, layer, index, sparse[index])
        one += [vector("norm", "norms", traits.norms * (2 if traits.norm_bias else 1) * hidden)]
        one += per_layer_inputs(context)
        made += [_at(m, index) for m in one]
    made += draft_head(context, mtp_layers, any(sparse))
    made += encoder_stack(context) + shared_blocks(context)
    eyes, towers_known = towers(facts.root, hidden)
    return made + eyes, towers_known and (known or not facts.model_type)


def _at(matrix: Matrix, layer: int, part: str = "") -> Matrix:
    return Matrix(
        role=f"{part}.{matrix.role}" if part else matrix.role, module=matrix.module, rows=matrix.rows,
        columns=matrix.columns, copies=matrix.copies, layer=layer, units=matrix.units, linear=matrix.linear,
        wide=matrix.wide,
    )  # fmt: skip


def outside(context: Context) -> list[Matrix]:
    """Embeddings, positions, final norm, head."""
    facts, traits, hidden = context.facts, context.traits, context.hidden
    vocab = int(facts.need("vocab_size", "sizes the embeddings"))
    width = facts.get("word_embed_dim") or hidden
    role = "replicated" if traits.embedding_whole else "embedding"
    made = [Matrix(role=role, module="embed_tokens", rows=vocab, columns=width, units=vocab)]
    if width != hidden:
        made += linear("replicated", "project_in", width, hidden) + linear("replicated", "project_out", hidden, width)
    made += _positions(facts, traits, hidden)
    if traits.embedding_norm:
        made.append(vector("norm", "embedding_norm", 2 * hidden))
    if traits.pooler:
        made += linear("replicated", "pooler", hidden, hidden, bias=True)
    if traits.has_head and not tied(facts, traits) and not headless(facts):
        rows = facts.get("draft_vocab_size") or vocab
        made.append(Matrix(role="lm_head", module="lm_head", rows=rows, columns=width, units=rows, linear=True))
    made += _per_layer_tables(context)
    return [*made, vector("norm", "norm", hidden * (2 if traits.norm_bias else 1))]


def tied(facts: Facts, traits: Traits) -> bool:
    """Whether the head is the embedding: as stated, else as the family's code says."""
    stated = facts.get("tie_word_embeddings")
    return bool(traits.tied) if traits.tied is not None and not facts.has("tie_word_embeddings") else bool(stated)


def headless(facts: Facts) -> bool:
    """An architecture that ends in a score, an embedding or nothing has no head over the vocabulary."""
    listed = facts.root.get("architectures")
    names = [n for n in listed if isinstance(n, str)] if isinstance(listed, (list, tuple)) else []
    return bool(names) and all(n.endswith(HEADLESS) for n in names)


def _positions(facts: Facts, traits: Traits, hidden: int) -> list[Matrix]:
    if traits.positions < 0:
        return []
    count = int(facts.need("learned_positions")) + traits.positions + int(facts.get("type_vocab_size") or 0)
    return [Matrix(role="replicated", module="embed_positions", rows=count, columns=hidden)]


def _per_layer_tables(context: Context) -> list[Matrix]:
    """Gemma 3n and 4: one narrow embedding a layer, in one table, and its projection from the stream."""
    facts, hidden = context.facts, context.hidden
    narrow = facts.get("per_layer_input")
    if not narrow:
        return []
    wide = narrow * len(context.layers)
    rows = int(facts.get("per_layer_vocab") or facts.need("vocab_size"))
    made = [Matrix(role="embedding", module="embed_tokens_per_layer", rows=rows, columns=wide, units=rows)]
    made += linear("attention", "per_layer_model_projection", hidden, wide)
    streams = (facts.get("altup_inputs") or 1) - 1
    return made + (linear("replicated", "altup_projections", hidden, hidden, copies=2 * streams) if streams else [])


def per_layer_inputs(context: Context) -> list[Matrix]:
    facts, hidden = context.facts, context.hidden
    narrow, rank = facts.get("per_layer_input"), facts.get("laurel_rank")
    made: list[Matrix] = []
    if narrow:
        made += linear("replicated", "per_layer_input_gate", hidden, narrow)
        made += linear("replicated", "per_layer_projection", narrow, hidden)
    if rank:
        made += linear("replicated", "laurel", hidden, rank) + linear("replicated", "laurel", rank, hidden)
    return made


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
        made += [_at(m, base + offset, "mtp") for m in one]
    return made


def stored_copies(context: Context) -> list[Matrix]:
    """DeepSeek-style checkpoints store the embedding and the head again in each draft layer; engines share them."""
    vocab = int(context.facts.need("vocab_size"))
    return [
        Matrix(role=role, module=module, rows=vocab, columns=context.hidden, units=vocab)
        for role, module in (("embedding", "embed_tokens"), ("lm_head", "shared_head.head"))
    ]


def encoder_stack(context: Context) -> list[Matrix]:
    """The encoder of an encoder-decoder: its layers, its convolutions over mel bins, its positions."""
    facts, traits, hidden = context.facts, context.traits, context.hidden
    count = facts.get("encoder_layers")
    if not facts.get("is_encoder_decoder") or not count:
        return []
    inner = int(facts.get("encoder_ffn_dim") or facts.layer("intermediate_size", 0) or 4 * hidden)
    made = linear("attention", "encoder.attn", hidden, 4 * hidden, bias=True, copies=count)
    made += linear("mlp", "encoder.mlp", hidden, (3 if traits.gated else 2) * inner, copies=count)
    bins = facts.get("num_mel_bins")
    rows = int(facts.get("max_encoder_tokens") or 0) + int(facts.get("max_target_positions") or 0)
    made += [Matrix(role="replicated", module="encoder.positions", rows=rows, columns=hidden)] if rows else []
    return made + (
        [Matrix(role="replicated", module="encoder.conv", rows=hidden, columns=3 * (bins + hidden))] if bins else []
    )


def shared_blocks(context: Context) -> list[Matrix]:
    """Zamba 2: attention and MLP blocks over twice the width, used by several layers, with an adapter a use."""
    facts, hidden = context.facts, context.hidden
    if not context.traits.shared_blocks:
        return []
    uses = [layer for layer in context.layers if any(isinstance(c, Heads) for c in layer.caches)]
    blocks, rank = int(facts.get("num_mem_blocks") or 1), int(facts.get("adapter_rank") or 0)
    wide, inner = 2 * hidden, int(facts.need("intermediate_size"))
    heads = int(facts.need("num_attention_heads")) * int(facts.layer("head_dim", 0) or 0)
    made = linear("attention", "shared.qkv_proj", wide, 3 * heads, copies=blocks)
    made += linear("attention", "shared.o_proj", heads, hidden, copies=blocks)
    made += linear("mlp", "shared.mlp", hidden, 3 * inner, copies=blocks)
    made += linear("replicated", "linear", hidden, hidden, copies=len(uses))
    if rank:
        made += linear("replicated", "adapter.a", hidden + 3 * wide, rank, copies=len(uses))
        made += linear("mlp", "adapter.b", rank, 2 * inner + 3 * wide, copies=len(uses))
    return made


def active_parameters(groups: Iterable[TensorGroup], experts_per_token: int | None) -> int:
    """Parameters one token passes through: all but the routed experts it is not sent to. Says nothing on memory."""
    total = 0
    for group in groups:
        count = group.num_elements * group.copies
        if group.kind == "experts" and group.num_units and experts_per_token:
            count = count * min(experts_per_token, group.num_units) // group.num_units
        total += count
    return total


def to_groups(made: Iterable[Matrix], scheme: Schemes | None, size: int, dtype: str) -> tuple[TensorGroup, ...]:
    """Groups of matrices, each at the model's dtype or as the scheme packs it."""
    sums: dict[tuple[str, int, int, str], Counter[str]] = {}
    for m in made:
        packed = scheme.of(m) if scheme is not None and m.linear else None
        num_bytes = packed.bytes_of(m) if packed else m.elements * (4 if m.wide else size)
        key = (m.role, m.units, m.layer, packed.dtype if packed else dtype)
        sums.setdefault(key, Counter()).update(bytes=num_bytes, elements=m.elements)
    return collapse(
        TensorGroup(
            role=role, num_bytes=total["bytes"], num_elements=total["elements"], dtype=kept, num_units=units,
            layers=(layer,) if layer >= 0 else (),
        )
        for (role, units, layer, kept), total in sums.items()
    )  # fmt: skip


__all__ = ["active_parameters", "dense_width", "matrices", "to_groups", "variant_from_config"]
