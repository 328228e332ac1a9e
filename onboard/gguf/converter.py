"""What llama.cpp's converter would make of a model: its GGUF architecture, context length and layers.

Source: llama.cpp 0c1e57098 `conversion/*.py`. A multimodal wrapper without a class of its own goes by its text model.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from onboard.gguf.archs import arch_of
from onboard.gguf.converter_classes import CLASSES, MODEL_TYPES
from onboard.layers import CacheSpec, FullAttention, Layer
from onboard.profile import Profile

# Converters that append the draft head's blocks to the file (add_nextn_predict_layers).
MTP_IN_FILE = frozenset(
    """
    bailingmoe2 bailingmoe3 cohere2moe deepseek32 dots3note exaone-moe gemma4 glm-dsa glm4moe glm5-next hy_v3 hy_v4
    mimo2 nemotron_h_moe qwen3next qwen35 qwen35moe qwen4exp step35
    """.split()  # noqa: SIM905
)


# Context lengths that the converter writes whatever the config says: these models have no positions.
_CONTEXT = {"mamba": 2**20, "mamba2": 2**20, "nemotron_h_moe": 2**20}

# Falcon's class gives num_kv_heads one a query head; the converter reads that before multi_query.
_HEADS_OF_CLASS = frozenset({"falcon"})

# The converter looks for "E" layers only, so the dense layers of these patterns become recurrent ones in the file.
_MLP_AS_STATE = {"nemotron_h_moe": "-"}


@lru_cache(maxsize=1)
def _by_class() -> dict[str, str]:
    return {name: arch for arch, names in CLASSES.items() for name in names.split()}


def gguf_architecture(profile: Profile) -> str | None:
    """The architecture in the GGUF file of this model: as stated, else what the converter would write; None if none."""
    stated = profile.fact("gguf_architecture")
    if stated:
        return str(stated)
    for name in (*profile.architectures, profile.fact("text_architecture")):
        if name in _by_class():
            return _by_class()[name]
    for kind in (profile.fact("text_model_type"), profile.model_type):
        if kind in MODEL_TYPES:
            return MODEL_TYPES[kind]
    return None


def is_file(profile: Profile) -> bool:
    """Whether the profile was read from a GGUF file: what the file says needs no converter."""
    return bool(profile.fact("gguf_architecture"))


def context_length(profile: Profile) -> int:
    """`context_length` of the file, 0 where nothing states one: trained positions, without rope scaling."""
    stated = profile.fact("max_model_len")
    if is_file(profile):
        return int(stated or 0)
    fixed = _CONTEXT.get(gguf_architecture(profile) or "")
    if fixed:
        return fixed
    if profile.fact("rope_scaling") and profile.fact("learned_positions"):
        return int(profile.fact("learned_positions"))
    return int(stated or 0)


def converted_layers(profile: Profile) -> tuple[Layer, ...]:
    """The layers as the converted file has them, where the converter reads the config differently from its class."""
    name = gguf_architecture(profile) or ""
    layers = profile.layers
    if is_file(profile):
        return layers
    if not any(layer.caches for layer in layers) and not arch_of(name).no_cache:
        layers = _causal(profile, layers)
    if name in _HEADS_OF_CLASS:
        heads = profile.fact("num_attention_heads")
        layers = tuple(Layer(tuple(_widened(c, heads) for c in layer.caches)) for layer in layers)
    pattern = profile.fact("hybrid_override_pattern")
    if name in _MLP_AS_STATE and isinstance(pattern, str) and len(pattern) == len(layers):
        state = next((x for x in layers if any(c.kind == "state" for c in x.caches)), Layer())
        layers = tuple(state if kind == _MLP_AS_STATE[name] else x for kind, x in zip(pattern, layers, strict=True))
    return layers


def _causal(profile: Profile, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """An embedding model of a decoder's architecture: llama.cpp keeps its cache all the same."""
    heads = profile.fact("num_attention_heads")
    kv_heads = profile.fact("num_kv_heads") or heads
    dim = profile.fact("head_dim") or (profile.fact("hidden_size") // heads if heads else 0)
    if not (isinstance(kv_heads, int) and isinstance(dim, int) and kv_heads and dim):
        return layers
    return (Layer((FullAttention(num_kv_heads=kv_heads, k_dim=dim, v_dim=dim),)),) * len(layers)


def _widened(spec: CacheSpec, heads: Any) -> CacheSpec:
    if isinstance(spec, FullAttention) and spec.num_kv_heads == 1 and isinstance(heads, int):
        return FullAttention(num_kv_heads=heads, k_dim=spec.k_dim, v_dim=spec.v_dim)
    return spec
