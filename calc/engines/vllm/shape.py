"""What vLLM's choices look at in a model: head widths, latents, states, dtype. Read once a profile."""

from __future__ import annotations

from calc.memo import remembered
from onboard.layers import Compressed, Heads, Indexer, LatentAttention
from onboard.profile import Profile
from onboard.states import GatedDeltaNet, StateCache
from onboard.states.conv import CompressorOverlap
from onboard.values import Struct


class Shape(Struct, frozen=True, kw_only=True):
    """`head_dims` are the widths of attention heads; `sparse` latents have an indexer; `compressed` ones a ratio."""

    architecture: str
    dtype: str
    head_dims: frozenset[int]
    uneven_heads: bool
    latent: bool
    sparse: bool
    compressed: bool
    states: bool
    attention: bool
    gated_delta_k_dims: frozenset[int]
    mixed_head_dims: bool
    declared_kv_dtype: str | None
    quantization: str
    pooling: bool


#: Suffixes of classes that vLLM runs as pooling models: no async scheduling (config/model.py _SUFFIX_TO_DEFAULTS).
POOLING = ("ForSequenceClassification", "ForTokenClassification", "ForRewardModel", "RewardModel", "EmbeddingModel")


def _declared(profile: Profile) -> str | None:
    """The name that `auto` becomes, under a method that vLLM asks.

    ModelOpt's fp8 is fp8_e4m3 (torch_utils.py:78), compressed-tensors' is fp8 (attention.py:275).
    """
    fact, method = profile.facts.get("kv_cache_scheme"), str(profile.fact("quantization") or "")
    if fact is None:
        return None
    if method.startswith("modelopt"):
        return "fp8_e4m3" if fact.value == "fp8" else str(fact.value)
    return str(fact.value) if method == "compressed-tensors" else None


def _shape(profile: Profile) -> Shape:
    caches = [spec for spec, _ in profile.cache_groups]
    heads = [c for c in caches if isinstance(c, Heads)]
    architecture = profile.architectures[0] if profile.architectures else ""
    return Shape(
        architecture=architecture,
        dtype=str(profile.fact("dtype") or "bfloat16"),
        head_dims=frozenset(h.k_dim for h in heads),
        uneven_heads=any(h.v_dim not in (h.k_dim, 0) for h in heads),
        latent=any(isinstance(c, (LatentAttention, Compressed)) for c in caches),
        sparse=any(isinstance(c, Indexer) for c in caches) and not any(isinstance(c, Compressed) for c in caches),
        compressed=any(isinstance(c, Compressed) for c in caches),
        states=any(isinstance(c, StateCache) and not isinstance(c, CompressorOverlap) for c in caches),
        attention=any(not isinstance(c, StateCache) for c in caches),
        gated_delta_k_dims=frozenset(c.k_dim for c in caches if isinstance(c, GatedDeltaNet)),
        mixed_head_dims=len({h.k_dim for h in heads}) > 1,
        declared_kv_dtype=_declared(profile),
        quantization=str(profile.fact("quantization") or ""),
        pooling=architecture.endswith(POOLING),
    )


def shape_of(profile: Profile) -> Shape:
    """What vLLM reads of a profile, read once a profile."""
    return remembered(profile, "shape", lambda: _shape(profile))
