"""Parameter counts from the config alone against published counts, and laws of the rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.shared import SHARED, needs_shared
from tests.weights_rule import by_rule, profile_of, read_config

TOLERANCE = 0.01

_TWICE = "tied: the count holds the head as well as the embedding"
_NO_MTP = "the checkpoint does not hold the draft layers its config counts"
_PACKED = "packed tensors counted as they are stored, not unpacked"
_OTHER = "counted from another set of files"
EXCEPTIONS = {
    "Qwen/Qwen1.5-0.5B-Chat": _TWICE,
    "Qwen/Qwen3-0.6B": _TWICE,
    "Qwen/Qwen3-1.7B": _TWICE,
    "facebook/opt-125m": "the published count is 1.4 % lower; vLLM's modules agree with the rule",
    "google/gemma-4-26B-A4B": _TWICE,
    "tiiuae/falcon-7b": _TWICE,
    "Qwen/Qwen3-Embedding-8B": "an embedding checkpoint without the head its architecture has",
    "MiniMaxAI/MiniMax-M2": _NO_MTP,
    "MiniMaxAI/MiniMax-M2.5": _NO_MTP,
    "MiniMaxAI/MiniMax-M2.7": _NO_MTP,
    "nvidia/MiniMax-M2.5-NVFP4": _PACKED,
    "stepfun-ai/Step-3.7-Flash-FP8": _NO_MTP,
    "Qwen/Qwen2-VL-2B-Instruct-AWQ": _TWICE,
    "nvidia/DeepSeek-V3.1-NVFP4": _PACKED,
    "nvidia/DeepSeek-V3.2-NVFP4": _PACKED,
    "nvidia/DeepSeek-V4-Pro-NVFP4": _PACKED,
    "nvidia/GLM-5.1-NVFP4": _PACKED,
    "nvidia/GLM-5.2-NVFP4": _PACKED,
    "nvidia/GLM-5.3-NVFP4": _PACKED,
    "nvidia/Gemma-4-31B-IT-NVFP4": _PACKED,
    "nvidia/Qwen3.5-122B-A10B-NVFP4": _PACKED,
    "nvidia/Qwen3.6-27B-NVFP4": _PACKED,
    "nvidia/Qwen3.6-35B-A3B-NVFP4": _PACKED,
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4": "a round figure from the name, 30 billion",
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": "a round figure from the name, 30 billion",
    "unsloth/Llama-3.2-1B-Instruct-bnb-4bit": _PACKED,
    "openai-community/gpt2-xl": "the count holds 48 causal masks of 1024 x 1024",
    "liuhaotian/llava-v1.5-7b": _OTHER,
    "openbmb/MiniCPM3-4B": "the config names no model type, so that no entry says its head is tied",
}  # fmt: skip


@needs_shared
@pytest.mark.wide
def test_published_counts() -> None:
    facts: dict[str, Any] = json.loads((SHARED / "corpus/checkpoint_facts.json").read_text(encoding="utf-8"))
    wrong, counted = {}, 0
    for repo, fact in facts.items():
        folder = SHARED / "corpus" / repo.replace("/", "__")
        profile = profile_of(read_config(folder / "config.json"), repo) if folder.is_dir() else None
        if profile is None or not fact["params"] or not profile.weights:
            continue
        counted += 1
        off = (by_rule(profile).num_parameters or 0) / fact["params"] - 1
        if abs(off) > TOLERANCE:
            wrong[repo] = round(100 * off, 2)
    assert counted > 140
    assert set(wrong) == set(EXCEPTIONS), wrong
