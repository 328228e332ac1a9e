"""KV heads and head sizes of one layer, from whichever of the many spellings the file uses."""

from __future__ import annotations

from typing import Any, NamedTuple

from onboard.errors import FieldInvalid
from onboard.facts import Facts
from onboard.rules.knowledge import SLIDING_KV_FACTOR


class HeadShape(NamedTuple):
    """KV heads of a layer, and the sizes of a K and a V row."""

    num_kv_heads: int
    k_dim: int
    v_dim: int


def heads(facts: Facts, index: int, *, sliding: bool = False) -> HeadShape:
    """The shape of layer `index`; sliding layers may have their own (`swa_*`)."""
    count = _sliding_kv_heads(facts, index) if sliding else num_kv_heads(facts, index)
    k_dim = (facts.get("swa_head_dim") if sliding else None) or head_dim(facts, index)
    v_dim = (facts.get("swa_v_head_dim") if sliding else None) or v_head_dim(facts, index) or k_dim
    return HeadShape(count, k_dim, v_dim)


def query_heads(facts: Facts, index: int = 0) -> int:
    """Query heads of a layer. In an encoder-decoder these are the decoder's."""
    decoder = facts.get("decoder_attention_heads")
    return int(decoder if decoder is not None else facts.need_layer("num_attention_heads", index))


def num_kv_heads(facts: Facts, index: int = 0) -> int:
    """KV heads of a layer: as the stated rule says, else one a query head (with a caution)."""
    grouped = _from_block_config(facts, index)
    if grouped is not None:
        return grouped
    if facts.get("multi_query_attention") is not None or facts.get("multi_query_group_num") is not None:
        return _chatglm(facts, index)
    if facts.get("multi_query") and not facts.get("new_decoder_architecture"):
        return int(facts.record("num_kv_heads", 1, "multi_query: all query heads share one KV head"))
    stated = facts.layer("num_kv_heads", index)
    if stated is None:
        stated = query_heads(facts, index)
        facts.caution("defaulted-field", "num_key_value_heads", "not stated; one KV head a query head")
        if "num_kv_heads" not in facts.used:
            facts.record("num_kv_heads", stated, "num_attention_heads (no num_key_value_heads)")
    elif stated == 0 and facts.origin("num_kv_heads") == "config" and not isinstance(facts.get("num_kv_heads"), tuple):
        raise FieldInvalid(
            "num_key_value_heads is 0", path=facts.path("num_kv_heads"), value=0, hint="correct the config"
        )
    return int(stated)


def _chatglm(facts: Facts, index: int) -> int:
    """`multi_query_attention` with `multi_query_group_num` groups; off, each query head has its own (ChatGLM2 on)."""
    if facts.get("multi_query_attention") is False:
        return int(facts.record("num_kv_heads", query_heads(facts, index), "multi_query_attention is off"))
    groups = facts.need("multi_query_group_num", "gives the KV heads of multi-query attention")
    return int(facts.record("num_kv_heads", groups, "multi_query_group_num"))


def _from_block_config(facts: Facts, index: int) -> int | None:
    """`block_configs[i].attention.n_heads_in_group`: query heads that share a KV head (Nemotron-NAS)."""
    blocks = facts.get("block_configs")
    if blocks is None or index >= len(blocks):
        return None
    attention: Any = blocks[index].get("attention") if hasattr(blocks[index], "get") else None
    group = attention.get("n_heads_in_group") if hasattr(attention, "get") else None
    if group is None:
        return None
    path = f"{facts.path('block_configs')}[{index}].attention.n_heads_in_group"
    total = query_heads(facts, index)
    if isinstance(group, bool) or not isinstance(group, int) or group < 1 or total % group:
        raise FieldInvalid(f"{path} does not divide {total} query heads", path=path, value=group)
    return total // group


def _sliding_kv_heads(facts: Facts, index: int) -> int:
    own = facts.get("swa_num_kv_heads")
    if own is not None:
        return int(own)
    return num_kv_heads(facts, index) * SLIDING_KV_FACTOR.get(facts.model_type, 1)


def head_dim(facts: Facts, index: int = 0) -> int:
    """Head size: as stated, else hidden_size / num_attention_heads (with a caution)."""
    stated = facts.layer("head_dim", index)
    if stated:
        return int(stated)
    hidden, total = facts.need("hidden_size", "gives the head size where head_dim is absent"), query_heads(facts, index)
    if hidden % total:
        raise FieldInvalid(
            f"hidden_size {hidden} is not a multiple of {total} heads and no head_dim is stated",
            path=facts.prefix + "head_dim", hint="state head_dim",
        )  # fmt: skip
    facts.caution("defaulted-field", "head_dim", f"not stated; hidden_size / num_attention_heads = {hidden // total}")
    if "head_dim" not in facts.used:
        facts.record("head_dim", hidden // total, "hidden_size / num_attention_heads")
    return int(hidden // total)


def v_head_dim(facts: Facts, index: int) -> int | None:
    """A V row's own size, where it differs from K's (0 means it does not)."""
    return facts.layer("v_head_dim", index) or None
