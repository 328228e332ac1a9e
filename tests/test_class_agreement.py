"""Layers against what every decoder-like config class of transformers says of itself, for tiny and for default configs.

The classes are only configured, never run: a layer's kind, KV heads, head size and window as `DynamicCache` would take
them (transformers 5.24 cache_utils.get_layer_types_and_kwargs). What a model's code does beyond its class is compared
with measured caches in test_transformers_cache.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onboard.errors import Refusal
from onboard.layers import ChunkedAttention, CrossAttention, Heads, LatentAttention, WindowAttention, WindowLatent
from tests.deriving import profile_of

DATA = Path(__file__).resolve().parent.parent / "onboard" / "data" / "class_defaults.json"
TYPES = json.loads((Path(__file__).parent / "data" / "decoder_types.json").read_text())
SIZES = {
    84: ("hidden_size", "d_model", "n_embd", "embed_dim", "emb_dim", "embedding_dim"),
    14: ("num_hidden_layers", "decoder_layers", "encoder_layers", "num_layers", "n_layer", "num_decoder_layers",
         "n_layers", "layers", "num_encoder_layers", "v_head_dim"),
    6: ("num_attention_heads", "decoder_attention_heads", "encoder_attention_heads", "num_heads", "n_head", "n_heads",
        "attention_heads", "num_decoder_attention_heads", "num_encoder_attention_heads", "qk_rope_head_dim"),
    3: ("num_key_value_heads", "num_kv_heads"),
    22: ("head_dim", "d_kv", "kv_channels", "dim_head"),
    16: ("sliding_window", "attention_chunk_size"),
    26: ("kv_lora_rank",),
    10: ("qk_nope_head_dim",),
    18: ("index_head_dim",),
}  # fmt: skip
TINY = {name: size for size, names in SIZES.items() for name in names}

# Where the class's own fields are not what its model keeps, or a tiny config cannot be one: name -> reason.
ENCODERS = "an encoder until is_decoder says otherwise"
EXCEPTIONS = {
    **dict.fromkeys(
        ("bert", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert", "rembert", "roberta",
         "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta", "xlm-roberta-xl", "xmod"), ENCODERS),
    **dict.fromkeys(("xlnet", "reformer"), "keeps hidden states, not K and V"),
    **dict.fromkeys(("rwkv", "xlstm"), "recurrent, which the class does not say"),
    **dict.fromkeys(("blt", "pi0"), "states no layer count"),
    **dict.fromkeys(("bamba", "granitemoehybrid", "zamba", "zamba2"), "these sizes do not fit its state"),
    **dict.fromkeys(("dory", "inkling2_loop", "inkling2_loop_text"), "loops: more cache layers than the class counts"),
    **dict.fromkeys(("inkling2", "inkling2_text", "inkling_mm_model", "inkling_text"), "swa_* keys on sliding layers"),
    **dict.fromkeys(("gemma3n", "gemma3n_text"), "the default number of sharing layers exceeds 14"),
    **dict.fromkeys(("cpmant", "pix2struct", "switch_transformers", "udop"), "its head size is not called head_dim"),
    "deepseek_v4": "every layer has a window beside its compressed entries, in code",
    "falcon": "multi_query is on by default: one KV head",
    "mimo_v2_flash": "twice the KV heads on sliding layers, in code",
    "mistral_large4": "layers without rope keep the latent alone, in code",
    "mllama": "cross-attention layers, in code",
    "pp_formulanet": "the class counts the encoder's layers",
    "nemo_speechlm": "its default pattern is longer than its class's count",
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), "an indexer without a size"),
    **dict.fromkeys(("glm4_moe", "glm4v_moe", "qwen3_omni_moe", "qwen3_omni_moe_thinker"),
                    "by default its heads do not divide its hidden size"),
}  # fmt: skip


def _configs(name: str, mapping: Any) -> list[dict[str, Any]]:
    """The class's defaults, and a tiny model with a number of its own for every size."""
    text = json.loads(DATA.read_text())["model_types"][name].get("text")
    inner = text["model_type"] if text else name
    fields = mapping[inner].__dataclass_fields__
    tiny = {"model_type": inner, **{k: v for k, v in TINY.items() if k in fields}}
    return [{"model_type": name}, {"model_type": name, text["key"]: tiny} if text else tiny]


def _class_layers(mapping: Any, config: dict[str, Any]) -> list[tuple[str, Any]] | None:
    values = {k: v for k, v in json.loads(json.dumps(config)).items() if k != "model_type"}
    try:
        text = mapping[config["model_type"]](**values).get_text_config(decoder=True)
    except Exception:  # noqa: BLE001  a strict class may refuse the tiny sizes in its own way; then it says nothing
        return None
    layers = list(text.per_layer_config)
    types = getattr(text, "layer_types", None)
    if types is None:
        types = [
            "sliding_attention" if getattr(x, "sliding_window", None) is not None
            else "chunked_attention" if getattr(x, "attention_chunk_size", None) is not None else "full_attention"
            for x in layers
        ]  # fmt: skip
    modes = getattr(text, "kv_sharing_modes", None) or [None] * len(layers)
    return [("dummy" if mode == "reuse" else kind, x) for kind, mode, x in zip(types, modes, layers, strict=True)]


def _disagrees(layer: Any, kind: str, config: Any) -> str:
    if kind in ("dummy", "moe", "mlp"):
        return "" if not layer.caches or "shared" in layer.kinds() else f"{layer.kinds()} for {kind}"
    if kind in ("linear_attention", "conv"):
        return "" if layer.kinds() == ("state",) else f"{layer.kinds()} for {kind}"
    heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_attention_heads", None)
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for cache in layer.caches:
        if isinstance(cache, LatentAttention):
            if (cache.latent_dim, cache.rope_dim) != (config.kv_lora_rank, config.qk_rope_head_dim):
                return f"{cache} for rank {config.kv_lora_rank}"
        elif (
            isinstance(cache, Heads)
            and not isinstance(cache, CrossAttention)
            and (cache.num_kv_heads, cache.k_dim) != (heads, dim)
        ):
            return f"{cache} for {heads} heads of {dim}"
        if (
            isinstance(cache, (WindowAttention, WindowLatent))
            and "sliding" in kind
            and cache.window != config.sliding_window
        ):
            return f"{cache} for a window of {config.sliding_window}"
        if isinstance(cache, ChunkedAttention) and cache.chunk != config.attention_chunk_size:
            return f"{cache} for a chunk of {config.attention_chunk_size}"
    windows = any(c.window_elements() for c in layer.caches)
    return (
        ""
        if windows == (kind in ("sliding_attention", "hybrid_sliding", "chunked_attention"))
        else f"{layer.kinds()} for {kind}"
    )


@pytest.mark.wide
def test_every_decoder_class() -> None:
    transformers = pytest.importorskip("transformers")
    if transformers.__version__ != json.loads(DATA.read_text())["transformers"]:
        pytest.skip("another release of transformers than the snapshot's")
    mapping = transformers.CONFIG_MAPPING
    wrong, compared = {}, 0
    for name in TYPES:
        for config in _configs(name, mapping) if name not in EXCEPTIONS else ():
            expected = _class_layers(mapping, config)
            if expected is None:
                continue
            compared += 1
            try:
                layers = profile_of(config).layers
            except Refusal as refusal:
                wrong[name] = refusal.message
                continue
            found = [_disagrees(x, kind, own) for x, (kind, own) in zip(layers, expected, strict=False)]
            if len(layers) != len(expected):
                found.append(f"{len(layers)} layers for {len(expected)}")
            if any(found):
                wrong[name] = next(x for x in found if x)
    assert not wrong
    assert compared > 400


def test_the_snapshot_is_what_the_classes_say() -> None:
    transformers = pytest.importorskip("transformers")
    if transformers.__version__ != json.loads(DATA.read_text())["transformers"]:
        pytest.skip("another release of transformers than the snapshot's")
    from tools.class_defaults import render

    assert render() == DATA.read_text(encoding="utf-8")
