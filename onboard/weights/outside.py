"""What stands outside the decoder stack or is shared by its layers: embeddings, positions, head, encoder, blocks."""

from __future__ import annotations

from onboard.facts import Facts
from onboard.layers import Heads
from onboard.weights.context import Context
from onboard.weights.feedforward import is_gated
from onboard.weights.matrix import Matrix, linear, vector
from onboard.weights.traits import Traits

HEADLESS = ("ForRewardModel", "ForSequenceClassification", "ForTokenClassification", "ForEmbedding")


def outside(context: Context) -> list[Matrix]:
    """Embeddings, positions, final norm, head."""
    facts, traits, hidden = context.facts, context.traits, context.hidden
    vocab = int(facts.need("vocab_size", "sizes the embeddings"))
    width = facts.get("word_embed_dim") or hidden
    role = "replicated" if traits.embedding_whole else "embedding"
    made = [Matrix(role=role, module="embed_tokens", rows=vocab, columns=width, units=vocab)]
    if width != hidden:
        made += linear("replicated", "project_in", width, hidden)
        made += linear("replicated", "project_out", hidden, width) if traits.has_head else []
    made += _positions(facts, traits, width if traits.embedding_norm else hidden)
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
    """What Gemma 3n's layers add: a narrow input of each layer, and a low-rank detour (LAuReL)."""
    facts, hidden = context.facts, context.hidden
    narrow, rank = facts.get("per_layer_input"), facts.get("laurel_rank")
    made: list[Matrix] = []
    if narrow:
        made += linear("replicated", "per_layer_input_gate", hidden, narrow)
        made += linear("replicated", "per_layer_projection", narrow, hidden)
    if rank:
        made += linear("replicated", "laurel", hidden, rank) + linear("replicated", "laurel", rank, hidden)
    return made


def encoder_stack(context: Context) -> list[Matrix]:
    """The encoder of an encoder-decoder: its layers, its convolutions over mel bins, its positions."""
    facts, traits, hidden = context.facts, context.traits, context.hidden
    count = facts.get("encoder_layers")
    if not facts.get("is_encoder_decoder") or not count:
        return []
    inner = int(facts.get("encoder_ffn_dim") or facts.layer("intermediate_size", 0) or 4 * hidden)
    heads = int(facts.layer("num_attention_heads", 0) or 1)
    wide = heads * int(facts.layer("head_dim", 0) or hidden // heads)
    bias = bool(traits.qkv_bias)
    made = linear("attention", "encoder.qkv", hidden, 3 * wide, bias=bias, copies=count)
    made += linear("attention", "encoder.out_proj", wide, hidden, bias=bias, copies=count)
    made += linear("mlp", "encoder.mlp", hidden, (3 if is_gated(context) else 2) * inner, bias=bias, copies=count)
    made.append(vector("norm", "encoder.norms", (4 if traits.norm_bias else 2) * hidden, copies=count))
    bins = facts.get("num_mel_bins")
    rows = int(facts.get("max_encoder_tokens") or 0) + int(facts.get("max_target_positions") or 0)
    if traits.positions >= 0:
        rows += int(facts.need("learned_positions")) + traits.positions
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
    wide, inner = 2 * hidden, int(facts.get("intermediate_size") or 4 * hidden)
    heads = int(facts.need("num_attention_heads")) * int(facts.layer("head_dim", 0) or 0)
    made = linear("attention", "shared.qkv_proj", wide, 3 * heads, copies=blocks)
    made += linear("attention", "shared.o_proj", heads, hidden, copies=blocks)
    made += linear("mlp", "shared.mlp", hidden, 3 * inner, copies=blocks)
    made += linear("replicated", "linear", hidden, hidden, copies=len(uses))
    if rank:
        made += linear("replicated", "adapter.a", hidden + 3 * wide, rank, copies=len(uses))
        made += linear("mlp", "adapter.b", rank, 2 * inner + 3 * wide, copies=len(uses))
    return made
