"""Flags of the specification's 17 rows that its own table leaves out, as the compose files of that project state them.

One entry a row: what its compose file at that time says, and which file. The measured figure is the row's; where a
header prints the same peak with more digits (`peak_mib`), that is the printed figure.
"""

from __future__ import annotations

from typing import Any

_Q = "noonghunna/club-3090 models/qwen3.6-27b/vllm/compose/docker-compose"
_G = "noonghunna/club-3090 models/gemma-4-31b/vllm/compose/dual"
_A = "noonghunna/club-3090 models/gemma-4-26b-a4b/vllm/compose/dual"
_M = "noonghunna/club-3090 models/qwen3.6-35b-a3b/vllm/compose/dual"
_NO_ESTIMATE = {"cuda_graph_estimate": False}  # VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0
_PCIE = {"disable_custom_all_reduce": True}  # beside NCCL_P2P_DISABLE=1
_CACHING = {"enable_prefix_caching": True}
_TEXT = {"language_model_only": True}
_MTP = {"drafter": "mtp", "num_speculative_tokens": 3}
_ASSISTANT = {"num_speculative_tokens": 4}
_HALF = {"dtype": "float16", **_CACHING, "weights_gb": 17.5}  # auto_round kernels ask for float16
_DFLASH = {
    "num_speculative_tokens": 5, "max_num_batched_tokens": 8192, "dtype": "bfloat16", "kv_cache_dtype": "auto",
    "weights_gb": 17.5, **_CACHING, **_PCIE,
}  # fmt: skip
_TURBO = {"max_num_batched_tokens": 4128, **_HALF, **_MTP, **_NO_ESTIMATE}
_GEMMA = {"max_num_batched_tokens": 4096, "dtype": "bfloat16", "weights_gb": 18.0, **_ASSISTANT, **_PCIE}
_MOE = {
    "max_num_batched_tokens": 4096, "dtype": "bfloat16", "kv_cache_dtype": "auto", "weights_gb": 17.0,
    **_TEXT, **_CACHING,
}  # fmt: skip

FLAGS: dict[str, tuple[dict[str, Any], str]] = {
    "d01": (_GEMMA, f"{_G}/int8.yml"),
    "d06": ({**_GEMMA, "kv_cache_dtype": "auto"}, f"{_G}/docker-compose.yml"),
    "d07": ({**_GEMMA, "num_speculative_tokens": 3}, f"{_G}/int8.yml"),  # 3 in the rebench, to match another model
    "d08": ({"max_num_batched_tokens": 8192, **_HALF, **_MTP, **_PCIE}, f"{_Q}.dual.yml"),
    "d09": ({**_TURBO, **_PCIE}, f"{_Q}.dual-turbo.yml"),
    "d10": (_DFLASH, f"{_Q}.dual-dflash.yml"),
    "d11": ({**_DFLASH, **_TEXT}, f"{_Q}.dual-dflash-noviz.yml"),
    "d12": ({"max_num_batched_tokens": 8192, **_HALF, **_MTP, **_PCIE}, f"{_Q}.dual4.yml"),
    "d13": (_DFLASH, f"{_Q}.dual4-dflash.yml"),
    "d14": ({**_DFLASH, **_TEXT}, f"{_Q}.dual-dflash-noviz.yml"),
    "d15": ({**_TURBO, **_TEXT}, f"{_Q}.long-text.yml"),
    "d16": (_TURBO, f"{_Q}.long-vision.yml"),
    "d17": ({**_TURBO, **_TEXT}, f"{_Q}.bounded-thinking.yml"),
    "d18": ({"max_num_batched_tokens": 2048, **_HALF}, f"{_Q}.minimal.yml"),  # not given there: the release's default
    "d19": (_MOE, f"{_A}/awq.yml"),
    "d20": ({**_MOE, **_ASSISTANT}, f"{_A}/awq-mtp.yml"),
    "d23": (
        {"max_num_batched_tokens": 8192, **_HALF, **_PCIE, "weights_gb": 20.0}, f"{_M}/autoround-int4/fp8.yml",
    ),
}  # fmt: skip

# How the flags are known that no compose file states.
WEIGHTS_HOW = "the page's own figure for the whole checkpoint (seed_tool of its calibration row, x TP)"
# Boots of the same page and checkpoint whose own row names no size: its builds pack the cache as no release does
# (PR 40391), so their verdicts are judged with the page's own figure, like the rows above.
SAME_CHECKPOINT = {"d02": 18.0, "d24": 18.0, "d26": 18.0}
SAME_CHECKPOINT_HOW = "the page's own figure for this checkpoint, as in its calibration row d01"
HOW: dict[str, dict[str, str]] = {
    "d07": {"num_speculative_tokens": "the rebench's own text"},
    "d18": {"max_num_batched_tokens": "defaulted"},
    "d19": {"weights_gb": "the page's tool counts 17.0 on each card; read as the whole checkpoint"},
    "d20": {"weights_gb": "the page's tool counts 17.0 on each card; read as the whole checkpoint"},
}

# What a compose file's header says that this boot printed, beside the peak.
PRINTED: dict[str, dict[str, Any]] = {
    "d12": {"kv_tokens": 483200, "max_concurrency": "6.77"},
    "d13": {"kv_tokens": 207264, "max_concurrency": "2.27"},
}

# Builds with patches whose rules a later release has: the release stands for them.
PATCHED = {
    "int8_per_token_head": ("0.25.1", "a nightly of 0.20.2 with PR 40391, whose padded pages 0.25 has"),
    "turboquant_3bit_nc": ("0.20.1", "a nightly with the Genesis patches, whose KV format 0.20 has"),
}

# The nightly that a row was measured on, from its date and its compose file's image, as the release it precedes.
# 0.20.1rc1.dev16 (d12, d13) printed its tokens in 0.20.0's meaning.
VERSIONS: dict[str, str] = {
    "d08": "0.19.2",
    "d09": "0.20.1",
    "d10": "0.19.2",
    "d11": "0.19.2",
    "d15": "0.20.1",
    "d16": "0.20.1",
    "d12": "0.20.0",
    "d13": "0.20.0",
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
