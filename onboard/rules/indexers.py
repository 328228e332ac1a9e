"""Index keys beside sparse attention: which layers keep their own, and how wide they are."""

from __future__ import annotations

from collections.abc import Mapping

from onboard.errors import FieldInvalid
from onboard.facts import Facts
from onboard.layers import CacheSpec, Indexer
from onboard.rules.knowledge import INDEXERS, OPTIONAL_INDEXER

_WORDS: Mapping[str, bool] = {"full": True, "F": True, "shared": False, "S": False}
DEFAULT_OFFSET = 2  # transformers 5.24 configuration_glm_moe_dsa.py: kwargs.get("index_skip_topk_offset", 2)


def indexer(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """The index keys of a layer, or nothing where it reuses another layer's selection or sparse attention is off."""
    if facts.get("use_dsa") is False or not runs_indexer(facts, index):
        return ()
    if facts.model_type in OPTIONAL_INDEXER and facts.get("index_head_dim") is None:
        return ()
    dim = facts.need("index_head_dim", "gives the indexer's keys")
    if facts.get("index_kpool") is not None:
        # a key, its gate scores and a validity flag (transformers 5.24 modeling_glm5_next.py, packed_states)
        return (Indexer(2 * dim + 1),)
    return (Indexer(dim * (facts.get("indexer_kv_heads") or 1)),)


def runs_indexer(facts: Facts, index: int) -> bool:
    """Whether layer `index` has an indexer of its own.

    `indexer_types` or `index_topk_pattern` (F / S) list it; else layer i runs one when max(i - offset + 1, 0) mod
    `index_topk_freq` is 0 (transformers 5.24 configuration_glm_moe_dsa.py; SGLang 0.5 the same).
    """
    listed = facts.get("indexer_types")
    path = facts.path("indexer_types")
    if listed is None:
        listed, path = facts.get("index_topk_pattern"), facts.path("index_topk_pattern")
    if listed is not None:
        if not isinstance(listed, (str, list, tuple)) or index >= len(listed):
            raise FieldInvalid(
                f"{path} has no entry {index}", path=path, value=str(listed)[:200], hint="one entry a layer"
            )
        word = listed[index]
        if not isinstance(word, str) or word not in _WORDS:
            raise FieldInvalid(
                f"{path}[{index}] is {repr(word)[:80]}",
                path=f"{path}[{index}]",
                value=str(word)[:200],
                hint="full or shared",
            )
        return _WORDS[word]
    frequency = facts.get("index_topk_freq")
    if frequency is None:
        pattern = INDEXERS.get(facts.model_type)
        return pattern is None or (pattern.labels(facts, index + 1) or ())[index] == "full"
    offset = facts.get("index_topk_offset")
    return max(index - (DEFAULT_OFFSET if offset is None else offset) + 1, 0) % int(frequency) == 0
