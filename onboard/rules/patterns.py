"""What each layer is: one label a layer, from whatever field says so.

Each reader answers for one way of writing a pattern, or None where its field is absent; the first answer wins.
Labels are transformers' layer type names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onboard.errors import FieldInvalid, LayerCountMismatch
from onboard.facts import Facts, whole
from onboard.rules.counts import layer_count
from onboard.rules.default_patterns import default_labels
from onboard.rules.knowledge import LAST_IS_FULL, PATTERNS, RENAMED
from onboard.rules.labels import CHUNKED, CROSS, FULL, INDEXED, LINEAR, NONE, SLIDING, SPARSE_FULL, SYNONYMS
from onboard.rules.pattern_kinds import CHUNKED_BY_ROPE, Always, Every, SlidesFrom
from onboard.rules.pattern_words import named
from onboard.rules.recurrent_patterns import LIST_READERS, RECURRENT_READERS, unplaced

Reader = Callable[[Facts, int], "tuple[str, ...] | None"]


def labels(facts: Facts) -> tuple[str, ...]:
    """One label a layer. Raises LayerCountMismatch where a list does not have one entry a layer."""
    count = layer_count(facts)
    for reader in READERS:
        answer = reader(facts, count)
        if answer is not None:
            if len(answer) != count:
                raise LayerCountMismatch(
                    f"{len(answer)} layer kinds for {count} layers",
                    path=facts.prefix + "layer_types", value=len(answer), hint="one entry a layer",
                )  # fmt: skip
            return _settled(facts, answer)
    if not facts.known:
        facts.caution("defaulted-field", "layer_types", "no field says what each layer is; all taken as full attention")
    return _settled(facts, (FULL,) * count)


def _settled(facts: Facts, answer: tuple[str, ...]) -> tuple[str, ...]:
    """The list as the class holds it: current names, and what it changes after reading."""
    renamed = RENAMED.get(facts.model_type, {})
    answer = tuple(renamed.get(name, name) for name in (SYNONYMS.get(label, label) for label in answer))
    if facts.model_type in LAST_IS_FULL and answer and answer[-1] != FULL:
        facts.caution("changed-layer-type", "layer_types", f"the last layer is {answer[-1]}; the class makes it {FULL}")
        answer = (*answer[:-1], FULL)
    return _with_cross_layers(facts, answer)


def _with_cross_layers(facts: Facts, answer: tuple[str, ...]) -> tuple[str, ...]:
    """`cross_attention_layers`: layers that attend to the encoder's tokens instead of their own (Llama 3.2 Vision)."""
    listed = facts.get("cross_attention_layers")
    if not listed:
        return answer
    path = facts.path("cross_attention_layers")
    cross = {whole(entry, f"{path}[{i}]", 0, 100_000) for i, entry in enumerate(listed)}
    return tuple(CROSS if i in cross else label for i, label in enumerate(answer))


def _layer_types(facts: Facts, count: int) -> tuple[str, ...] | None:
    """The per-layer list. A list that also covers the draft layers behind the stack is cut to the stack (Step-3.5)."""
    if not facts.has("layer_types"):
        return None
    types = named(facts, facts.get("layer_types"), "layer_types")
    return types[:count] if len(types) == count + (facts.get("num_mtp_layers") or 0) else types


def _knowledge(facts: Facts, count: int) -> tuple[str, ...] | None:
    """The pattern that the class builds (`knowledge`), with a caution that no per-layer list states it."""
    pattern = PATTERNS.get(facts.model_type)
    answer = None if pattern is None else pattern.labels(facts, count)
    if answer is not None and (len(set(answer)) > 1 or isinstance(pattern, Always)):
        facts.caution("defaulted-field", "layer_types", f"not stated; the pattern that {facts.class_name} builds")
    return answer


def _hybrid_layer_pattern(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`hybrid_layer_pattern`: 1 slides, 0 is full (MiMo-V2)."""
    stated = facts.get("hybrid_layer_pattern")
    if stated is None:
        return None
    names: Mapping[object, str] = {0: FULL, 1: SLIDING}
    for index, entry in enumerate(stated):
        if isinstance(entry, bool) or not isinstance(entry, int) or entry not in names:
            path = f"{facts.path('hybrid_layer_pattern')}[{index}]"
            raise FieldInvalid(f"{path} must be 0 (full) or 1 (slides)", path=path, value=entry)
    return tuple(names[entry] for entry in stated)


def _sparse_frequency(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`sparse_attention_config.sparse_attention_freq`: 1 has an indexer beside full attention (MiniMax-M3)."""
    stated = facts.get("sparse_attention_freq")
    return None if stated is None else tuple(SPARSE_FULL if entry else FULL for entry in stated)


def _block_configs(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`block_configs`: one block a layer, whose attention may be left out or replaced (Nemotron-NAS)."""
    blocks = facts.get("block_configs")
    if blocks is None:
        return None
    names = []
    for index, block in enumerate(blocks):
        attention = block.get("attention") if isinstance(block, Mapping) else None
        if not isinstance(attention, Mapping):
            path = f"{facts.path('block_configs')}[{index}].attention"
            raise FieldInvalid(f"{path} must be a mapping", path=path, value=type(attention).__name__)
        names.append(NONE if attention.get("no_op") or attention.get("replace_with_linear") else FULL)
    return tuple(names)


def _full_attention_interval(facts: Facts, count: int) -> tuple[str, ...] | None:
    """Layer i is full attention when (i + 1) mod n is 0 (Qwen3-Next class, transformers 5.24)."""
    return Every(field="full_attention_interval", other=LINEAR).labels(facts, count)


def _indexed(facts: Facts, count: int) -> tuple[str, ...] | None:
    """Latent attention with an indexer on every layer (DeepSeek-V3.2, GLM-5): the indexer's fields say so."""
    has = facts.get("index_head_dim") is not None and facts.get("kv_lora_rank") is not None
    return (INDEXED,) * count if has else None


def _window_switch(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`use_sliding_window` with `max_window_layers`: layers from that index on slide (Qwen2/Qwen3), all without one."""
    switch = facts.get("use_sliding_window")
    if switch and facts.get("max_window_layers") is None:
        return None
    return None if switch is None else SlidesFrom().labels(facts, count)


def _window_pattern(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`sliding_window_pattern` n: every n-th layer is full (Gemma 3, Cohere 2); or one letter a layer (EXAONE 4)."""
    return Every(field="sliding_window_pattern").labels(facts, count)


def _global_every(facts: Facts, count: int) -> tuple[str, ...] | None:
    """`global_attn_every_n_layers` n: every n-th layer is full."""
    return Every(field="global_attention_every").labels(facts, count)


def _window_everywhere(facts: Facts, count: int) -> tuple[str, ...] | None:
    """A window with no pattern and no switch: every layer slides (Mistral v0.1)."""
    from onboard.rules.windows import window

    if not window(facts):
        return None
    if not facts.known:
        facts.caution(
            "defaulted-field", "layer_types", "a window, and no field says which layers slide; all taken as sliding"
        )
    return (SLIDING,) * count


def _chunks(facts: Facts, count: int) -> tuple[str, ...] | None:
    if facts.get("attention_chunk_size") is None:
        return None
    if facts.get("no_rope_layers") or facts.get("no_rope_layer_interval"):
        return CHUNKED_BY_ROPE.labels(facts, count)
    return (CHUNKED,) * count


READERS: tuple[Reader, ...] = (
    *LIST_READERS,
    _layer_types,
    _hybrid_layer_pattern,
    _sparse_frequency,
    _block_configs,
    _knowledge,
    *RECURRENT_READERS,
    _full_attention_interval,
    default_labels,
    unplaced,
    _indexed,
    _window_switch,
    _window_pattern,
    _global_every,
    _window_everywhere,
    _chunks,
)
