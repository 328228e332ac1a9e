"""What llama.cpp's converter makes of configs that it reads in its own way: architecture, context length, rows."""

from __future__ import annotations

from typing import Any

import pytest

from calc.engines.llamacpp.cache import caches_of
from calc.engines.llamacpp.model import model_of
from calc.engines.llamacpp.refusals import refusals
from calc.engines.llamacpp.settings import settings_of
from calc.plan import Plan
from onboard.derive import derive
from onboard.gguf.converter import context_length
from onboard.gguf.derive import derive_gguf
from onboard.profile import Profile, SourceRef

BASE = {
    "hidden_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 32, "intermediate_size": 11008,
    "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip
MAMBA = {
    "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128, "mamba_d_conv": 4,
    "mamba_expand": 2,
}  # fmt: skip
DYNAMIC = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}


def config(name: str, kind: str, **keys: Any) -> Profile:
    made = {**BASE, "architectures": [name], "model_type": kind, **keys}
    return derive(made, model_id=name, source=SourceRef(kind="folder", name=name))


@pytest.mark.parametrize(
    ("profile", "arch", "context"),
    [
        (config("FalconForCausalLM", "falcon", num_kv_heads=8, new_decoder_architecture=True), "falcon", 2048),
        (config("QWenLMHeadModel", "qwen", seq_length=2048), "qwen", 4096),
        (config("BloomForCausalLM", "bloom", seq_length=2048), "bloom", 2048),
        (config("ChatGLMModel", "chatglm", multi_query_attention=True, multi_query_group_num=2), "chatglm", 4096),
        (config("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", rope_scaling=DYNAMIC), "hunyuan-dense", 2**18),
        (config("CohereForCausalLM", "cohere", model_max_length=131072), "command-r", 131072),
        (config("LlamaForCausalLM", "llama", rope_scaling={"type": "linear", "factor": 4.0}), "llama", 4096),
        (
            config("GraniteMoeHybridForCausalLM", "granitemoehybrid", layer_types=["mamba", "attention"] * 4, **MAMBA),
            "granitehybrid",
            2**20,
        ),
        (
            config(
                "GraniteMoeHybridForCausalLM", "granitemoehybrid", layer_types=["attention"] * 8, num_experts_per_tok=0
            ),
            "granite",
            4096,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_architecture_and_context_are_the_converters(profile: Profile, arch: str, context: int) -> None:
    assert (model_of(profile).name, context_length(profile)) == (arch, context)


def test_kv_heads_that_the_converter_writes() -> None:
    plamo = config("PlamoForCausalLM", "plamo", num_attention_heads=40, num_key_value_heads=40, hidden_size=5120)
    assert {r.k for r in model_of(plamo).caches[0].rows} == {5 * 128}
    deci = config("DeciLMForCausalLM", "deci", num_key_value_heads_per_layer=[4, 4, 2, 2, 4, 4, 4, 1])
    assert [r.k // 128 for r in model_of(deci).caches[0].rows] == [4, 4, 2, 2, 4, 4, 4, 1]
    old = config("RWForCausalLM", "RefinedWebModel", multi_query=True)
    assert {r.k for r in model_of(old).caches[0].rows} == {128}


def test_layouts_and_loops() -> None:
    small = config(
        "SmallThinkerForCausalLM", "smallthinker", num_key_value_heads=4, sliding_window_layout=[0, 1, 1, 1] * 2,
        sliding_window_size=4096,
    )  # fmt: skip
    assert [len(c.rows) for c in model_of(small).caches] == [2, 6]
    looped = config("NanbeigeForCausalLM", "nanbeige", num_key_value_heads=8, num_loops=2)
    assert len(model_of(looped).caches[0].rows) == 16


def test_a_class_that_the_converter_does_not_know_is_refused() -> None:
    wrapper = {
        "architectures": ["Idefics3ForConditionalGeneration"],
        "model_type": "idefics3",
        "text_config": {**BASE, "model_type": "llama"},
    }
    found = model_of(derive(wrapper, model_id="x", source=SourceRef(kind="folder", name="x")))
    said = refusals(found, settings_of(Plan(engine="llamacpp"), n_ctx_train=4096))
    assert [r.kind for r in said] == ["architecture"]
    hybrid = model_of(config("RwkvHybridForCausalLM", "rwkv_hybrid"))
    assert [r.kind for r in refusals(hybrid, settings_of(Plan(engine="llamacpp"), n_ctx_train=4096))]


def test_a_shift_is_counted_as_often_as_the_file_says() -> None:
    keys = {
        "block_count": 4, "embedding_length": 512, "context_length": 1024, "wkv.head_size": 64,
        "attention.head_count": 0, "attention.head_count_kv": 4,
    }  # fmt: skip
    for shifts in (1, 2):
        named = {f"rwkv6qwen2.{k}": v for k, v in {**keys, "token_shift_count": shifts}.items()}
        raw = {"general.architecture": "rwkv6qwen2", **named}
        found = model_of(derive_gguf(raw, model_id="x", source=SourceRef(kind="gguf", name="x")))
        assert {(s.r, s.s) for s in found.states} == {(512 * shifts, 512 * 64)}
        assert found.caches == ()


def test_a_block_without_attention_is_padded_where_flash_attention_is_off() -> None:
    """Measured: 8 blocks of which 2 have no attention; every V is as wide as the widest (4 heads of 128)."""
    keys = {
        "block_count": 8, "embedding_length": 4096, "context_length": 4096, "feed_forward_length": 11008,
        "attention.head_count": (32,) * 8, "attention.head_count_kv": (4, 4, 4, 4, 4, 0, 0, 2), "vocab_size": 32000,
        "attention.key_length": 128, "attention.value_length": 128,
    }  # fmt: skip
    raw = {"general.architecture": "deci", **{f"deci.{k}": v for k, v in keys.items()}}
    found = model_of(derive_gguf(raw, model_id="x", source=SourceRef(kind="gguf", name="x")))
    sizes = {}
    for flash in ("on", "off"):
        plan = Plan(engine="llamacpp", max_model_len=4096, max_num_seqs=1, flash_attn=flash)
        (cache,) = caches_of(found, settings_of(plan, n_ctx_train=4096))
        sizes[flash] = (cache.k_bytes >> 20, cache.v_bytes >> 20)
    assert sizes == {"on": (22, 22), "off": (22, 32)}


def test_grok_runs_without_flash_attention_so_v_stays_whole() -> None:
    grok = model_of(config("Grok1ForCausalLM", "grok-1", num_key_value_heads=8, head_dim=128))
    said = refusals(grok, settings_of(Plan(engine="llamacpp", kv_cache_dtype="q8_0"), n_ctx_train=4096))
    assert [r.kind for r in said] == ["kv_dtype"]
