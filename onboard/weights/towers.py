"""Vision and audio towers from their own configs: one rule for transformer towers, one table for what families add.

Sources: vLLM 0.33 model_executor/models/{qwen2_vl,qwen2_5_vl,qwen3_vl,siglip,pixtral,mllama4,intern_vit,gemma3_mm,
gemma4_mm,mistral3,lfm2_vl,kimi_k25,whisper,qwen2_audio}.py; a tower built from transformers' own modules is whole on
every card, one built from vLLM's parallel layers is divided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.values import Struct
from onboard.weights.matrix import Matrix, linear, vector
from onboard.weights.projectors import COMPOSITES, PROJECTORS, Joint, first

VISION_KEYS = ("vision_config", "vision_tower_cfg", "vit_config")
AUDIO_KEYS = ("audio_config",)
CLASSES = ("_vision", "_vision_model", "_vision_encoder", "_encoder", "_audio", "pixtral")  # ends of tower types
FIXED = {"mobilenetv5_300m_enc": 294_284_096}  # parameters of a backbone that its config only names (timm)


class Tower(Struct, frozen=True, kw_only=True):
    """Traits of a tower type. `replicated`: every card holds it whole. `projector` names how it joins the model."""

    gated: bool = False
    bias: bool = True
    norms: int = 2
    replicated: bool = False
    projector: str = "plain"  # one of projectors.PROJECTORS
    positions: str = "grid"  # grid, table, two_tables, none
    classes: int = 0  # class and register tokens
    global_layers: str = ""  # a field that counts further layers
    attention_scale: int = 1  # attention width over the tower's width
    conv_stem: bool = False  # two convolutions over mel bins
    inner_is_out: bool = False  # the MLP is as wide as the tower's output, not its intermediate_size
    conformer: bool = False  # two feed-forwards of four times the width and a gated convolution a layer
    conv2d_stem: bool = False  # three strided convolutions over mel bins, no learned positions


QWEN_VL = Tower(projector="merger", positions="table")
TOWERS: dict[str, Tower] = {
    "qwen2_vl": Tower(projector="merger", positions="none"),
    "qwen2_vl_vision": Tower(projector="merger", positions="none"),
    "qwen2_5_vl": Tower(gated=True, projector="merger", positions="none"),
    "qwen2_5_vl_vision": Tower(gated=True, projector="merger", positions="none"),
    "qwen2_5_omni_vision_encoder": Tower(gated=True, projector="merger", positions="none"),
    "qwen3_vl": QWEN_VL,
    "qwen3_vl_vision": QWEN_VL,
    "qwen3_vl_moe": QWEN_VL,
    "qwen3_vl_moe_vision": QWEN_VL,
    "qwen3_5": QWEN_VL,
    "qwen3_5_vision": QWEN_VL,
    "qwen3_5_moe": QWEN_VL,
    "qwen3_5_moe_vision": QWEN_VL,
    "qwen3_omni_moe_vision_encoder": QWEN_VL,
    "kimi_k25": Tower(projector="merger", positions="none"),
    "kimi_k25_vision": Tower(projector="merger", positions="none"),
    "kimi_k3": Tower(projector="merger", positions="none"),
    "kimi_vl": Tower(projector="merger", positions="area"),
    "moonvit": Tower(projector="merger", positions="area"),
    "siglip": Tower(projector="resampler"),
    "glm4v": Tower(gated=True, inner_is_out=True, projector="glm"),
    "glm4v_moe": Tower(gated=True, inner_is_out=True, projector="glm"),
    "glm4v_vision": Tower(gated=True, inner_is_out=True, projector="glm"),
    "glm4v_moe_vision": Tower(gated=True, inner_is_out=True, projector="glm"),
    "idefics3_vision": Tower(projector="connector"),
    "smolvlm_vision": Tower(projector="connector"),
    "voxtral_encoder": Tower(conv_stem=True, positions="source", projector="stacked"),
    "siglip_vision_model": Tower(),
    "siglip2_vision_model": Tower(projector="shuffled", positions="patches"),
    "clip_vision_model": Tower(classes=1, projector="two_layer"),
    "pixtral": Tower(gated=True, bias=False, positions="none", projector="patch_merger"),
    "intern_vit_6b": Tower(projector="internvl", classes=1),
    "internvl_vision": Tower(projector="internvl", classes=1),
    "llama4_vision_model": Tower(projector="llama4", classes=1),
    "gemma4_vision": Tower(gated=True, bias=False, norms=4, positions="two_tables", replicated=True),
    "qwen2_audio_encoder": Tower(replicated=True, conv_stem=True, positions="source"),
    "qwen2_5_omni_audio_encoder": Tower(replicated=True, conv_stem=True, positions="source"),
    "qwen3_asr_audio_encoder": Tower(conv2d_stem=True, positions="none", projector="audio_mlp"),
    "qwen3_omni_moe_audio_encoder": Tower(conv2d_stem=True, positions="none", projector="audio_mlp"),
    "gemma4_audio": Tower(conformer=True, bias=False, replicated=True, positions="none"),
    "gemma3n_audio": Tower(conformer=True, bias=False, replicated=True, positions="none"),
    "gemma3n_vision": Tower(replicated=True),
    "mllama_vision_model": Tower(bias=False, global_layers="num_global_layers", positions="tiles", projector="mllama"),
    "whisper": Tower(conv_stem=True, positions="source", projector="none"),
    "minicpmv4_6_vision": Tower(projector="window_merger"),
    "muse_glimmer_vision": Tower(projector="muse", positions="none"),
}  # fmt: skip


def towers(config: Mapping[str, Any], text_hidden: int) -> tuple[list[Matrix], bool]:
    """Every tower of a composite, and whether each type has an entry here. Empty where there is none."""
    root = config.get("thinker_config") if isinstance(config.get("thinker_config"), Mapping) else config
    made: list[Matrix] = []
    known = True
    assert isinstance(root, Mapping)
    for part, keys in (("vision", VISION_KEYS), ("audio", AUDIO_KEYS)):
        for key in keys:
            tower = root.get(key)
            if isinstance(tower, Mapping) and tower:
                filled = with_defaults(tower, str(root.get("model_type", "")))
                one, has_entry = _tower(part, filled, root, text_hidden)
                made += one
                known = known and has_entry
    return made, known


def with_defaults(tower: Mapping[str, Any], whole: str) -> Mapping[str, Any]:
    """The tower's own mapping over its class's constants, where its type, or the composite's, names a tower class."""
    from onboard.class_defaults import class_defaults

    stated = str(tower.get("model_type") or whole)
    kind = stated if stated in TOWERS or not whole else whole
    named = (class_defaults(n) for n in (stated, f"{stated}_vision") if n.endswith(CLASSES))
    found = next((d for d in named if d is not None), None)
    constants = {} if found is None else found.values
    return {**constants, **{k: v for k, v in tower.items() if v is not None}, "model_type": kind}


def _tower(part: str, tower: Mapping[str, Any], root: Mapping[str, Any], text: int) -> tuple[list[Matrix], bool]:
    entry = TOWERS.get(str(tower.get("model_type", "")))
    traits = entry or Tower(projector="two_layer")
    depth = int(first(tower, "depth", "num_hidden_layers", "encoder_layers", "layers", "vt_num_hidden_layers",
                       "conf_num_hidden_layers"))  # fmt: skip
    width = int(first(tower, "embed_dim", "d_model", "vt_hidden_size", "width", "hidden_size"))
    inner = int(
        first(tower, "intermediate_size", "encoder_ffn_dim", "vt_intermediate_size")
        or first(tower, "mlp_ratio") * width
    )
    fixed = FIXED.get(str(tower.get("architecture", "")))
    if fixed:
        joined = linear(f"{part}.other", f"{part}.projector", width, text)
        return [Matrix(role=f"{part}.other", module=part, rows=fixed), *joined], True
    if not depth or not width:
        return [], False
    inner = int(first(tower, "out_hidden_size") or inner) if traits.inner_is_out else inner
    depth += int(first(tower, traits.global_layers)) if traits.global_layers else 0
    attention, mlp, other = (f"{part}.{k}" for k in ("attention", "mlp", "other"))
    if traits.replicated:
        attention = mlp = other
    made: list[Matrix] = []
    if traits.conformer:  # attention with relative keys, two feed-forwards, a gated depthwise convolution
        made += linear(other, f"{part}.attn", width, 5 * width, copies=depth)
        made += linear(other, f"{part}.mlp", width, 16 * width + 3 * width, copies=depth)
        return made + PROJECTORS[traits.projector](Joint(part, tower, root, width, text)), True
    made += linear(attention, f"{part}.attn", width, 4 * width, bias=traits.bias, copies=depth)
    made += linear(mlp, f"{part}.mlp", width, (3 if traits.gated else 2) * inner, copies=depth)
    made += [vector(other, f"{part}.norms", (traits.norms + int(traits.bias) * 2) * width, copies=depth)]
    made += _stem(part, tower, traits, width)
    own = COMPOSITES.get(str(root.get("model_type", ""))) if part == "vision" else None
    made += PROJECTORS[own or traits.projector](Joint(part, tower, root, width, text))
    return made, entry is not None


def _stem(part: str, tower: Mapping[str, Any], traits: Tower, width: int) -> list[Matrix]:
    """Patch embedding or convolutions, and learned positions."""
    other = f"{part}.other"
    if traits.conv2d_stem:
        bins, deep = int(first(tower, "num_mel_bins") or 128), int(first(tower, "downsample_hidden_size") or 480)
        made = [Matrix(role=other, module=f"{part}.conv", rows=deep, columns=9 * 2 * deep)]
        return [*made, Matrix(role=other, module=f"{part}.conv_out", rows=width, columns=deep * -(-bins // 8))]
    if traits.conv_stem:
        bins = int(first(tower, "num_mel_bins") or 128)
        positions = int(first(tower, "max_source_positions") or 1500)
        return [
            Matrix(role=other, module=f"{part}.conv", rows=width, columns=3 * (bins + width)),
            Matrix(role=other, module=f"{part}.embed_positions", rows=positions, columns=width),
        ]
    patch = int(first(tower, "patch_size") or 14)
    frames = int(first(tower, "temporal_patch_size", "patch_temporal") or 1)
    channels = int(first(tower, "in_channels", "num_channels", "in_chans") or 3)
    made = [Matrix(role=other, module=f"{part}.patch_embed", rows=width, columns=channels * frames * patch**2)]
    side = int(first(tower, "image_size") or 0) // patch
    rows = {
        "grid": side * side + traits.classes,
        "table": int(first(tower, "num_position_embeddings")),
        "area": int(first(tower, "init_pos_emb_height") * first(tower, "init_pos_emb_width")),
        "patches": int(first(tower, "num_patches")),
        "tiles": (side * side + 1) * (1 + 9 * int(first(tower, "max_num_tiles") or 4)),
        "two_tables": 2 * int(first(tower, "position_embedding_size")),
    }.get(traits.positions, 0)
    return [*made, Matrix(role=other, module=f"{part}.positions", rows=rows, columns=width)]
