"""Drafts and built-in heads: the layers they add, and what they take from their target."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onboard.derive import derive
from onboard.drafters import draft_method, drafter_from_profile
from onboard.layers import FullAttention, Indexer, LatentAttention, WindowAttention
from onboard.profile import Profile, SourceRef, WeightVariant
from tests.shared import SHARED, needs_shared

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 1,
    "vocab_size": 128256,
}  # fmt: skip
MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
DEEP: dict[str, Any] = {
    "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128, "num_hidden_layers": 6, **MLA,
    "num_nextn_predict_layers": 1,
}  # fmt: skip


def profile_of(config: dict[str, Any], name: str = "m") -> Profile:
    return derive(config, model_id=name, source=SourceRef(kind="file", name=name))


# --- drafts -----------------------------------------------------------------------------------------------------------

DRAFTS = [
    ({**LLAMA, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000}, "eagle3"),
    ({**LLAMA, "eagle_config": {"use_aux_hidden_state": True}}, "eagle3"),
    ({**LLAMA, "architectures": ["PEagleDraftModel"], "draft_vocab_size": 32000}, "peagle"),
    ({**LLAMA, "architectures": ["EagleLlamaForCausalLM"]}, "eagle"),
    ({**LLAMA, "architectures": ["DFlashDraftModel"], "dflash_config": {"mask_token_id": 1}}, "dflash"),
    ({**LLAMA, "architectures": ["DSparkDraftModel"], "dflash_config": {"confidence_head_alpha": 1.0}}, "dspark"),
    (LLAMA, "draft_model"),
]


@pytest.mark.parametrize(("config", "method"), DRAFTS)
def test_a_draft_says_what_it_is_and_adds_its_own_layers(config: dict[str, Any], method: str) -> None:
    draft = profile_of(config)
    assert draft_method(draft) == method
    reference = drafter_from_profile(draft)
    assert reference.method == method
    assert [c for layer in reference.layers for c in layer.caches] == [FullAttention(8, 128, 128)]
    assert (draft.fact("draft_shares") is None) == (method == "draft_model")


def test_a_plain_config_is_a_draft_by_its_repository_name() -> None:
    """The authors' own EAGLE files are llama configs of one layer; vLLM reads the name."""
    assert draft_method(profile_of(LLAMA, "yuhuili/EAGLE-LLaMA3-Instruct-8B")) == "eagle"
    assert draft_method(profile_of(LLAMA, "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")) == "eagle3"


def test_a_speculators_file_holds_its_model_inside() -> None:
    config = {"speculators_model_type": "eagle3", "draft_vocab_size": 64, "transformer_layer_config": LLAMA}
    draft = profile_of(config)
    assert draft_method(draft) == "eagle3"
    assert draft.growing_elements_per_token == 2 * 8 * 128


def test_an_assistant_reads_its_targets_cache_and_adds_no_layer() -> None:
    config = {
        "model_type": "gemma4_assistant", "backbone_hidden_size": 1536, "architectures": ["Gemma4AssistantForCausalLM"],
        "text_config": {
            "model_type": "gemma4_text", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
            "num_key_value_heads": 1, "num_kv_shared_layers": 4, "head_dim": 256, "sliding_window": 512,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        },
    }  # fmt: skip
    draft = profile_of(config)
    assert draft_method(draft) == "assistant"
    assert drafter_from_profile(draft).layers == ()
    assert draft.growing_elements_per_token == draft.window_elements == 0
    assert "KV cache" in str(draft.fact("draft_shares"))
    assert "reads-target-cache" in {w.kind for w in draft.warnings}


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"medusa_num_heads": 4, "medusa_num_layers": 1, "hidden_size": 4096}, "medusa"),
        ({"model_type": "mlp_speculator", "n_predict": 4, "inner_dim": 4096, "emb_dim": 4096}, "mlp_speculator"),
    ],
)
def test_heads_alone_keep_no_cache(config: dict[str, Any], method: str) -> None:
    draft = profile_of(config)
    assert (draft_method(draft), drafter_from_profile(draft).layers) == (method, ())
    assert "no-cache" in {w.kind for w in draft.warnings}


def test_a_drafts_bytes_are_its_default_weights() -> None:
    from onboard.values import replace

    weights = tuple(WeightVariant(name=n, num_bytes=b, origin="listing", where="x") for n, b in (("a", 5), ("b", 7)))
    draft = replace(profile_of(LLAMA), weights=weights, default_weights="b")
    assert drafter_from_profile(draft).num_bytes == 7
    assert drafter_from_profile(draft, "a").num_bytes == 5
    assert drafter_from_profile(replace(draft, weights=())).num_bytes is None


# --- built-in heads ---------------------------------------------------------------------------------------------------


def test_heads_come_on_top_and_cost_nothing_until_used() -> None:
    glm = {"model_type": "glm4_moe", "hidden_size": 4096, "num_hidden_layers": 46, "num_nextn_predict_layers": 1}
    profile = profile_of({**glm, "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128})
    assert len(profile.layers) == 46
    assert profile.growing_elements_per_token * 2 == 188_416
    added = sum(c.growing_elements() for layer in profile.mtp_layers for c in layer.caches)
    assert (profile.growing_elements_per_token + added) * 2 == 192_512


def test_a_latent_stack_has_a_latent_head_and_an_indexer_where_the_family_has_one() -> None:
    (head,) = profile_of({"model_type": "deepseek_v3", **DEEP}).mtp_layers
    assert head.caches == (LatentAttention(512, 64),)
    (sparse,) = profile_of({"model_type": "deepseek_v32", **DEEP, "index_head_dim": 128}).mtp_layers
    assert sparse.caches == (LatentAttention(512, 64), Indexer(128))
    shared = {"index_topk_freq": 4, "index_skip_topk_offset": 3, "index_head_dim": 128}
    (glm,) = profile_of({"model_type": "glm_moe_dsa", **DEEP, **shared}).mtp_layers
    assert glm.kinds() == ("latent", "indexer")


def test_a_hybrid_head_is_attention_not_state() -> None:
    qwen = {
        "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 8, "num_attention_heads": 24,
        "num_key_value_heads": 4, "head_dim": 256, "full_attention_interval": 4, "mtp_num_hidden_layers": 1,
    }  # fmt: skip
    (head,) = profile_of(qwen).mtp_layers
    assert head.caches == (FullAttention(4, 256, 256),)


def test_nemotrons_head_is_its_own_pattern_one_layer_a_prediction() -> None:
    config = {
        "model_type": "nemotron_h", "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 128,
        "hybrid_override_pattern": "ME*E", "mtp_hybrid_override_pattern": "*E", "num_nextn_predict_layers": 2,
    }  # fmt: skip
    heads = profile_of(config).mtp_layers
    assert [head.caches for head in heads] == [(FullAttention(2, 128, 128),)] * 2
    listed = {**config, "mtp_layers_block_type": ["attention", "moe"]}
    del listed["mtp_hybrid_override_pattern"]
    assert profile_of(listed).mtp_layers == heads


def test_v4s_head_is_the_entry_behind_the_stack() -> None:
    config = {
        "model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 64,
        "head_dim": 512,
        "num_key_value_heads": 1, "sliding_window": 128, "index_head_dim": 128, "num_nextn_predict_layers": 1,
        "compress_ratios": [0, 4, 128, 4, 0],
    }  # fmt: skip
    profile = profile_of(config)
    assert [layer.kinds() for layer in profile.layers] == [
        ("window",),
        ("window", "compressed", "indexer", "state"),
        ("window", "compressed"),
        ("window", "compressed", "indexer", "state"),
    ]
    assert profile.mtp_layers[0].caches == (WindowAttention(1, 512, 0, 128),)


def test_a_list_that_covers_the_head_gives_its_kind() -> None:
    config = {
        "model_type": "step3p5", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 64,
        "num_key_value_heads": 2, "sliding_window": 16, "num_nextn_predict_layers": 1,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    }  # fmt: skip
    assert [layer.kinds() for layer in profile_of(config).mtp_layers] == [("window",)]


@needs_shared
def test_the_drafts_of_the_corpus() -> None:
    want = {
        "SpecForge__deepseek-v3-671b-eagle3": ("eagle3", 1), "SpecForge__kimi-k3-dspark": ("dspark", 5),
        "SpecForge__lfm2.5-1.2b-instruct-dflash": ("dflash", 8), "SpecForge__qwen3-8b-peagle": ("peagle", 4),
        "yuhuili__EAGLE-llama2-chat-7B": ("eagle", 1), "yuhuili__EAGLE3-LLaMA3.1-Instruct-8B": ("eagle3", 1),
        "AngelSlim__hunyuan-7b-eagle3": ("eagle3", 1), "google__gemma-4-E2B-it-assistant": ("assistant", 0),
        "google__gemma-4-E4B-it-assistant": ("assistant", 0), "SpecForge__qwen3-8b-dspark": ("dspark", 5),
    }  # fmt: skip
    for name, (method, count) in want.items():
        config = json.loads((SHARED / "corpus" / name / "config.json").read_text())
        reference = drafter_from_profile(profile_of(config, name))
        assert (reference.method, len(reference.layers)) == (method, count), name


@needs_shared
def test_the_heads_of_the_corpus() -> None:
    want = {
        "Qwen__Qwen3.6-27B": [("full",)], "deepseek-ai__DeepSeek-V3.1": [("latent",)],
        "deepseek-ai__DeepSeek-V3.2": [("latent", "indexer")], "zai-org__GLM-5.2": [("latent", "indexer")],
        "deepseek-ai__DeepSeek-V4-Flash": [("window",)], "zai-org__GLM-4.5": [("full",)],
        "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8": [("full",)],
        "nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": [("full",)], "moonshotai__Kimi-K3": [],
    }  # fmt: skip
    for name, kinds in want.items():
        config = json.loads((SHARED / "corpus" / name / "config.json").read_text())
        assert [layer.kinds() for layer in profile_of(config, name).mtp_layers] == kinds, name
