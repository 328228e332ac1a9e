"""What llama.cpp's converter would make of a model: its GGUF architecture, context length and layers.

Source: llama.cpp 0c1e57098 `conversion/*.py`. A multimodal wrapper without a class of its own goes by its text model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from onboard.gguf.archs import arch_of
from onboard.gguf.converter_classes import CLASSES, MODEL_TYPES
from onboard.layers import FullAttention, Layer
from onboard.profile import Profile

# Converters that append the draft head's blocks to the file (add_nextn_predict_layers).
MTP_IN_FILE = frozenset(
    """
    bailingmoe2 bailingmoe3 cohere2moe deepseek32 dots3note exaone-moe gemma4 glm-dsa glm4moe glm5-next hy_v3 hy_v4
    mimo2 nemotron_h_moe qwen3next qwen35 qwen35moe qwen4exp step35
    """.split()  # noqa: SIM905
)


# Context lengths that the converter writes whatever the config says.
_CONTEXT = {
    **dict.fromkeys(("mamba", "mamba2", "nemotron_h_moe", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"), 2**20),
    "granitehybrid": 2**20,  # its attention layers have no positions
    "falcon": 2048,
    "plamo": 4096,
}
_OWN_CONTEXT = frozenset({"BambaForCausalLM"})  # granitehybrid with positions: the config's length
_CONTEXT_OF_DYNAMIC_ROPE = {"hunyuan-moe": 2**18, "hunyuan-dense": 2**18}
_CONTEXT_OR_WIDTH = frozenset({"bloom", "chatglm"})  # `seq_length`, else the hidden size
_CONTEXT_OR_512 = frozenset({"t5", "t5encoder"})
_LONGEST_STATED = frozenset({"command-r", "kimi-linear"})  # `model_max_length` before `max_position_embeddings`

# Falcon's class gives num_kv_heads one a query head; the converter reads that before multi_query. Older files of the
# same models have no class, and there it reads one.
_HEADS_OF_CLASS = frozenset({"falcon"})
_KV_HEADS = {"plamo": 5, "refact": 1, "starcoder": 1}

# Without a recurrent layer the converter writes the plain architecture, dense or with experts.
_WITHOUT_STATE = {"granitehybrid": ("granite", "granitemoe")}

# Wrappers whose own name the converter goes by, though their text model names a class too.
_OWN_NAME = frozenset(
    """
    StepVLForConditionalGeneration Sarashina2VisionForCausalLM Exaone4_5_ForConditionalGeneration
    Step3p7ForConditionalGeneration KimiK3ForConditionalGeneration
    """.split()  # noqa: SIM905
)

# Files of the mamba_ssm package name no class; their layers tell.
_BY_STATE: dict[str, str] = {"mamba": "mamba", "mamba2": "mamba2"}

# The converter looks for "E" layers only, so the dense layers of these patterns become recurrent ones in the file.
_MLP_AS_STATE = {"nemotron_h_moe": "-"}


@lru_cache(maxsize=1)
def _by_class() -> dict[str, str]:
    return {name: arch for arch, names in CLASSES.items() for name in names.split()}


def gguf_architecture(profile: Profile) -> str | None:
    """The architecture in the GGUF file of this model: as stated, else what the converter would write; None if none.

    The converter goes by the text model's class where it names one, else by the first of the whole (conversion/base.py
    get_model_architecture). A config that names no class is taken by its model_type.
    """
    stated = profile.fact("gguf_architecture")
    if stated:
        return str(stated)
    first = profile.architectures[0] if profile.architectures else ""
    name = first if first in _OWN_NAME else profile.fact("text_architecture") or first
    arch = _by_class().get(name) if name else _unnamed(profile)
    if arch in _WITHOUT_STATE and not any(c.kind == "state" for layer in profile.layers for c in layer.caches):
        return _WITHOUT_STATE[arch][bool(profile.fact("num_experts_per_token"))]
    return arch


def _unnamed(profile: Profile) -> str | None:
    for kind in (profile.fact("text_model_type"), profile.model_type):
        if kind in MODEL_TYPES:
            return MODEL_TYPES[kind]
    families = {getattr(c, "family", c.kind) for layer in profile.layers for c in layer.caches}
    return _BY_STATE.get(families.pop()) if len(families) == 1 else None


def is_file(profile: Profile) -> bool:
    """Whether the profile was read from a GGUF file: what the file says needs no converter."""
    return bool(profile.fact("gguf_architecture"))


def context_length(profile: Profile) -> int:
    """`context_length` of the file, 0 where nothing states one: trained positions, without rope scaling."""
    stated = int(profile.fact("max_model_len") or 0)
    name = gguf_architecture(profile) or ""
    if is_file(profile) or name in _LONGEST_STATED:
        return stated
    if name in _CONTEXT and not _OWN_CONTEXT & {*profile.architectures}:
        return _CONTEXT[name]
    rope = profile.fact("rope_scaling")
    if name in _CONTEXT_OF_DYNAMIC_ROPE and isinstance(rope, Mapping) and "dynamic" in map(rope.get, _ROPE_KIND):
        return _CONTEXT_OF_DYNAMIC_ROPE[name]
    if name in _CONTEXT_OR_WIDTH:
        return int(profile.fact("sequence_length") or profile.fact("hidden_size") or 0)
    if name in _CONTEXT_OR_512 and not stated:
        return 512
    return int(profile.fact("stated_positions") or stated)


_ROPE_KIND = ("rope_type", "type")


def converted_layers(profile: Profile) -> tuple[Layer, ...]:
    """The layers as the converted file has them, where the converter reads the config differently from its class."""
    name = gguf_architecture(profile) or ""
    layers = profile.layers
    if is_file(profile):
        return layers
    if not any(layer.caches for layer in layers) and not arch_of(name).no_cache:
        layers = _causal(profile, layers)
    if name in _KV_HEADS:
        layers = _with_heads(layers, _KV_HEADS[name])
    elif profile.model_type in _HEADS_OF_CLASS and profile.fact("num_kv_heads") == 1:
        layers = _with_heads(layers, profile.fact("num_attention_heads"))
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


def _with_heads(layers: tuple[Layer, ...], heads: Any) -> tuple[Layer, ...]:
    """Attention with that many KV heads in every layer."""
    if not isinstance(heads, int):
        return layers
    return tuple(
        Layer(
            tuple(
                FullAttention(num_kv_heads=heads, k_dim=c.k_dim, v_dim=c.v_dim) if isinstance(c, FullAttention) else c
                for c in layer.caches
            )
        )
        for layer in layers
    )
