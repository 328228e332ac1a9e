"""Flags of the specification's 17 rows that its own table leaves out, as the compose files of that project state them.

One entry a row: what its compose file at that time says, and which file. The measured figure is the row's; where a
header prints the same peak with more digits (`peak_mib`), that is the printed figure.
"""

from __future__ import annotations

from typing import Any

_Q = "noonghunna/club-3090 models/qwen3.6-27b/vllm/compose/docker-compose"
_G = "noonghunna/club-3090 models/gemma-4-31b/vllm/compose/dual"
_A = "noonghunna/club-3090 models/gemma-4-26b-a4b/vllm/compose/dual"
_NO_ESTIMATE = {"cuda_graph_estimate": False}  # VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0
_MTP = {"drafter": "mtp", "num_speculative_tokens": 3}
_ASSISTANT = {"num_speculative_tokens": 4}
_DFLASH = {"num_speculative_tokens": 5, "max_num_batched_tokens": 8192}

FLAGS: dict[str, tuple[dict[str, Any], str]] = {
    "d01": ({"max_num_batched_tokens": 4096, **_ASSISTANT}, f"{_G}/int8.yml"),
    "d06": ({"max_num_batched_tokens": 4096, **_ASSISTANT}, f"{_G}/docker-compose.yml"),
    "d07": ({"max_num_batched_tokens": 4096, **_ASSISTANT}, f"{_G}/int8.yml"),
    "d08": ({"max_num_batched_tokens": 8192, **_MTP}, f"{_Q}.dual.yml"),
    "d09": ({"max_num_batched_tokens": 4128, **_MTP, **_NO_ESTIMATE}, f"{_Q}.dual-turbo.yml"),
    "d10": ({**_DFLASH}, f"{_Q}.dual-dflash.yml"),
    "d11": ({"language_model_only": True, **_DFLASH}, f"{_Q}.dual-dflash-noviz.yml"),
    "d12": ({"max_num_batched_tokens": 8192, **_MTP}, f"{_Q}.dual4.yml"),
    "d13": ({**_DFLASH}, f"{_Q}.dual4-dflash.yml"),
    "d14": ({"language_model_only": True, **_DFLASH}, f"{_Q}.dual-dflash-noviz.yml"),
    "d15": (
        {"max_num_batched_tokens": 4128, "language_model_only": True, **_MTP, **_NO_ESTIMATE},
        f"{_Q}.long-text.yml",
    ),
    "d16": ({"max_num_batched_tokens": 4128, **_MTP, **_NO_ESTIMATE}, f"{_Q}.long-vision.yml"),
    "d17": (
        {"max_num_batched_tokens": 4128, "language_model_only": True, **_MTP, **_NO_ESTIMATE},
        f"{_Q}.bounded-thinking.yml",
    ),
    "d18": ({}, f"{_Q}.minimal.yml"),
    "d19": ({"max_num_batched_tokens": 4096, "language_model_only": True}, f"{_A}/awq.yml"),
    "d20": ({"max_num_batched_tokens": 4096, "language_model_only": True, **_ASSISTANT}, f"{_A}/awq-mtp.yml"),
    "d23": (
        {"max_num_batched_tokens": 8192},
        "noonghunna/club-3090 models/qwen3.6-35b-a3b/vllm/compose/dual/autoround-int4/fp8.yml",
    ),
}

# Builds with patches whose rules a later release has: the release stands for them.
PATCHED = {
    "int8_per_token_head": ("0.25.1", "a nightly of 0.20.2 with PR 40391, whose padded pages 0.25 has"),
    "turboquant_3bit_nc": ("0.20.1", "a nightly with the Genesis patches, whose KV format 0.20 has"),
}

# The nightly that a row was measured on, from its date and its compose file's image, as the release it precedes.
VERSIONS: dict[str, str] = {
    "d08": "0.19.2",
    "d09": "0.20.1",
    "d10": "0.19.2",
    "d11": "0.19.2",
    "d15": "0.20.1",
    "d16": "0.20.1",
    "d12": "0.20.1",
    "d13": "0.20.1",
    "d14": "0.20.1",
    "d17": "0.20.1",
    "d18": "0.20.1",
    "d23": "0.22.0",
    "d01": "0.20.2",
    "d06": "0.20.2",
    "d07": "0.20.2",
    "d19": "0.21.0",
    "d20": "0.21.0",
}

# What a source says against the row it prints.
NOTES = {
    "d12": "the compose file's header prints this peak as 23,494 MiB: the row's GB are MiB / 1000",
    "d13": "the compose file's header prints this peak as 21,960 MiB: the row's GB are MiB / 1000",
    "d18": "BENCHMARKS.md prints mem-util 0.95 and a TQ3 cache beside this peak; its compose file 0.92 and fp8_e5m2",
}

PEAK_MIB = {"d12": 23494, "d13": 21960}
CARDS = {"d14": "rtx-4090"}  # the row of the second rig
