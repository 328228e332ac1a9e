"""How each architecture's graph differs from the plainest one: one entry each.

Source: llama.cpp 0c1e57098 src/models/<arch>.cpp, the `graph` of each. An architecture without an entry has no graph
here and its compute buffer is an estimate.
"""

from __future__ import annotations

from typing import Literal

from onboard.values import Struct


class Recipe(Struct, frozen=True, kw_only=True):
    """`layer_norm`: NORM instead of RMS_NORM, which may work in place. `pre_norm`, `post_norm`: around each half.

    `parallel`: the MLP reads the attention's norm ("shared") or its own norm of the layer's input ("own").
    `mlp`: gate and up apart, one GELU matrix, or gate and up in one; `half_mlp`: the file states both widths as one.
    `fused_qkv`: Q, K and V are views of one product, whatever the file holds.
    `rope`: on all layers, none, or the sliding ones. `positions`: entries a token. `extra_embeddings`: position table.
    `late_outputs`: rows are selected after the last norm instead of within the last layer; `norm_before_outputs`: after
    the attention's post norm. `bare_norm` of the embeddings; `output_gate`: attention is gated before its projection.
    """

    layer_norm: bool = False
    pre_norm: bool = True
    post_norm: bool = False
    parallel: Literal["", "shared", "own"] = ""
    mlp: Literal["gated", "gelu", "fused"] = "gated"
    qk_norm: bool = False
    rope: Literal["all", "none", "window"] = "all"
    positions: int = 1
    extra_embeddings: bool = False
    embedding_norm: bool = False
    embedding_scale: bool = False
    v_norm: bool = False
    late_outputs: bool = False
    half_mlp: bool = False
    fused_qkv: bool = False
    bare_norm: bool = False
    residual_first: bool = False
    attended_first: bool = False
    output_gate: bool = False
    norm_before_outputs: bool = False


LLAMA = Recipe()
_QK = Recipe(qk_norm=True)

RECIPES: dict[str, Recipe] = {
    **dict.fromkeys(
        (
            "llama", "deci", "qwen2", "internlm2", "ernie4_5", "mistral3", "baichuan", "xverse", "smollm3",
            "seed_oss", "granite", "minicpm", "pangu-embedded", "hunyuan-dense", "maincoder",
        ),
        LLAMA,
    ),
    **dict.fromkeys(("qwen3", "apertus"), _QK),
    "qwen": Recipe(fused_qkv=True, half_mlp=True),
    "qwen2vl": Recipe(positions=4),
    "qwen3vl": Recipe(positions=4, qk_norm=True),
    "chatglm": Recipe(mlp="fused"),
    "glm4": Recipe(mlp="fused", post_norm=True),
    "phi3": Recipe(mlp="fused", residual_first=True),
    "gemma": Recipe(embedding_scale=True),
    "gemma2": Recipe(embedding_scale=True, post_norm=True),
    "gemma3": Recipe(embedding_scale=True, post_norm=True, qk_norm=True),
    "gemma4": Recipe(embedding_scale=True, post_norm=True, qk_norm=True, v_norm=True, late_outputs=True),
    "muse-glimmer": Recipe(
        post_norm=True, qk_norm=True, rope="window", bare_norm=True, output_gate=True, norm_before_outputs=True
    ),
    "olmo2": Recipe(pre_norm=False, post_norm=True, qk_norm=True),
    "exaone4": Recipe(pre_norm=False, post_norm=True, qk_norm=True, rope="window"),
    "exaone": LLAMA,
    "arcee": Recipe(mlp="gelu"),  # squared ReLU: one matrix up, activated in place
    "cohere2": Recipe(layer_norm=True, parallel="shared", rope="window"),
    "command-r": Recipe(layer_norm=True, parallel="shared"),
    "falcon": Recipe(fused_qkv=True, layer_norm=True, parallel="own", mlp="gelu", attended_first=True),
    "phi2": Recipe(layer_norm=True, parallel="shared", mlp="gelu", attended_first=True),
    "gptneox": Recipe(fused_qkv=True, layer_norm=True, parallel="own", mlp="gelu"),
    "stablelm": Recipe(layer_norm=True),
    "orion": Recipe(layer_norm=True),
    "starcoder2": Recipe(layer_norm=True, mlp="gelu"),
    "gpt2": Recipe(fused_qkv=True, layer_norm=True, mlp="gelu", rope="none", extra_embeddings=True),
    "bloom": Recipe(fused_qkv=True, layer_norm=True, mlp="gelu", rope="none", embedding_norm=True),
    "starcoder": Recipe(fused_qkv=True, layer_norm=True, mlp="gelu", rope="none", extra_embeddings=True),
}  # fmt: skip
