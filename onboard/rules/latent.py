"""Latent attention (MLA): one latent row and one shared rope key a token, whatever the heads."""

from __future__ import annotations

from onboard.facts import Facts
from onboard.layers import CacheSpec, LatentAttention, WindowLatent
from onboard.rules.knowledge import LATENT_WITHOUT_ROPE
from onboard.rules.pattern_kinds import rope_layers
from onboard.rules.windows import need_window


def is_latent(facts: Facts, index: int) -> bool:
    """Whether the layer's attention is latent: a rank is known, and no flag turns it off."""
    if facts.stated_null("kv_lora_rank") and facts.get("qk_nope_head_dim"):
        facts.caution("latent-off", "kv_lora_rank", "null beside the other sizes of latent attention: read as plain")
    return facts.layer("kv_lora_rank", index) is not None and facts.get("use_mla") is not False


def latent(facts: Facts, index: int) -> tuple[CacheSpec, ...]:
    """The latent cache of a full-attention layer."""
    return (LatentAttention(facts.layer("kv_lora_rank", index), _rope_dim(facts, index)),)


def window_latent(facts: Facts, index: int) -> WindowLatent:
    """The latent cache of a sliding layer, which may have its own ranks (`swa_*`)."""
    window = need_window(facts, index)
    rank = facts.get("swa_kv_lora_rank")
    if rank is None or facts.get("per_layer_config") is not None:
        return WindowLatent(facts.layer("kv_lora_rank", index), _rope_dim(facts, index), window)
    rope = facts.get("swa_qk_rope_head_dim")
    if rope is None and facts.get("swa_head_dim") is not None and facts.get("swa_qk_nope_head_dim") is not None:
        rope = facts.get("swa_head_dim") - facts.get("swa_qk_nope_head_dim")
    return WindowLatent(rank, _rope_dim(facts, index) if rope is None else rope, window)


def _rope_dim(facts: Facts, index: int) -> int:
    """The rope key's size; 0 in layers that rotate no positions and keep the latent alone.

    Only some families drop the key there (transformers 5.24 modeling_mistral_large4.py).
    """
    if facts.model_type in LATENT_WITHOUT_ROPE and not rope_layers(facts, index + 1)[index]:
        return 0
    return int(facts.need_layer("qk_rope_head_dim", index))
