"""What changed between vLLM releases, as data: one table of changes, each with the release it came in.

Read in the wheels of 0.10.2, 0.11.0, 0.11.2, 0.12.0 to 0.18.0, 0.19.1, 0.20.0 to 0.20.2, 0.21.0 to 0.24.0, 0.25.1 and
0.26.0 to 0.33.0; a change between two of them that are not neighbours is dated by the later one.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from onboard.errors import UsageError
from onboard.values import Struct, replace

Version = tuple[int, ...]
FIRST: Version = (0, 10, 0)
LATEST: Version = (0, 33, 0)
_LAST_PATCH = 999  # "0.20" means the last release of that minor


class Rules(Struct, frozen=True, kw_only=True):
    """How one release plans its cache. Files are those of the release that brought the change."""

    group_merge_below: Fraction = Fraction(0)  # largest kind's count is the group size while max < this x min
    tokens_from_concurrency: bool = (
        False  # the log's tokens: int(concurrency x max_model_len), else blocks // groups x block
    )
    utilization: Fraction = Fraction(9, 10)
    graphs_inside_budget: bool = False  # CUDA-graph estimate subtracted before the pool is sized
    pipeline_adds_batch: bool = False  # with async scheduling, pipeline stages + 1 batches are in flight
    batches_in_flight: bool = False  # windows reserve every concurrent batch, not one
    mtp_modules_extend_windows: bool = False  # several MTP modules keep k - 1 tokens more behind a window
    wider_windows: bool = False  # classes that count the token itself apart (`specs.WIDER_WINDOWS`)
    null_block_checked: bool = False  # the fit check leaves one block out
    fit_check: str = "groups"  # "layers": no group padding; "groups"
    fit_check_whole_model: bool = False  # all pipeline stages against one stage's memory
    unify_pages: str = "none"  # "none", "ratio" (integer multiples only), "pad"
    chunked_manager: bool = True  # chunked layers keep their chunk; else they grow
    longrope_default_is_original: bool = False  # LongRoPE models serve their original length by default
    large_card_tier: bool = False  # >= 160 GiB cards get 16,384 batched tokens
    gb10_small_tier: bool = False
    async_by_default: bool = True
    # --- recurrent state ---
    state_prefix_caching: str = "forced-off"  # "forced-off", "by-class", "off", "on" (the default)
    state_modes: tuple[str, ...] = ()  # what prefix caching may use beyond "none"
    align_when_speculating: bool = False  # classes with mode "all" use "align" while speculating
    speculative_state_blocks: bool = True
    all_mode_adds_speculative: bool = False
    checkpoint_block_mamba2: bool = False  # one more state block a group for checkpoints inside a prefill
    checkpoint_block_gdn: bool = False  # the same for GDN with FlashInfer's prefill, on 64-token boundaries
    hybrid_kernel_block: str = "backend"  # "16"; "config" (MLA 64, Blackwell 32), "config-late" (MLA 64, 16); "backend"
    mla_hybrid_floor: int = 0
    state_slots_refused: bool = False  # max_num_seqs above the number of blocks, with full CUDA graphs
    align_block_within_batch: bool = False  # mode align: the block must fit max_num_batched_tokens
    nemotron_ssm_dtype: str = "float32"  # where the config names none; "model" ignores the config's key
    # --- attention formats and backends ---
    declared_kv_wins: bool = False  # compressed-tensors' declared scheme overrides an explicit --kv-cache-dtype
    declared_kv: tuple[str, ...] = ()  # quantisation methods whose declared KV scheme is what auto means
    sparse_auto: str = "bf16"  # what auto means for DeepSeek V3.2 (0.11: the packed fp8)
    sparse_fp8_plain_on_blackwell: bool = True
    sparse_fp8_e4m3_plain_on_hopper: bool = False
    sparse_auto_packed_on_sm120: bool = False
    dsa_fp8_on_blackwell: bool = False  # GLM-DSA switches auto to fp8 on SM 10.x
    compressed_auto_is_fp8: bool = False  # DeepSeek V4: auto is the packed fp8, else fp8 must be given
    claims_by_bytes: bool = True  # mixed groups: concurrency divides bytes by the first group's page
    compressed_layout: str = "tuples"  # "tuples", "slots", "packed"
    diffkv_fp8: bool = False  # K and V of different widths can be fp8
    hopper_fp8_head_512_block: int = 16
    mla_hopper_auto_block: int = 16
    mla_blackwell_block: int = 32
    mm_prefix_blackwell_block: int = 16
    skip_layers_raise_block: bool = False
    flashinfer_needed: bool = False  # Ampere's fp8_e4m3 goes through FlashInfer


CHANGES: tuple[tuple[Version, dict[str, Any]], ...] = (
    (
        (0, 10, 0),
        {  # v1/core/kv_cache_utils.py:977, :1076, :678; config/__init__.py:512; models/config.py:296, :367, :403
            "fit_check": "layers",
            "chunked_manager": False,
            "async_by_default": False,
            "speculative_state_blocks": False,
            "hybrid_kernel_block": "16",
            "nemotron_ssm_dtype": "model",
            "sparse_auto": "fp8_ds_mla",
            "sparse_fp8_plain_on_blackwell": False,
            "mla_hopper_auto_block": 64,
            "mla_blackwell_block": 128,
        },
    ),
    ((0, 11, 2), {"state_prefix_caching": "by-class", "state_modes": ("all",), "hybrid_kernel_block": "config"}),
    (
        (0, 12, 0),
        {  # kv_cache_utils.py:885 (ratio), :1017 (1.25); models/config.py (bf16 for V3.2); platforms/cuda.py:63
            "group_merge_below": Fraction(5, 4),
            "unify_pages": "ratio",
            "sparse_auto": "bf16",
            "mla_hopper_auto_block": 16,
            "longrope_default_is_original": True,  # config/model.py
        },
    ),
    (
        (0, 14, 0),
        {  # kv_cache_utils.py:1318, :1514; envs.py:216; models/config.py:537
            "fit_check": "groups",
            "fit_check_whole_model": True,
            "chunked_manager": True,
            "async_by_default": True,
            "nemotron_ssm_dtype": "float16",
            "declared_kv": ("modelopt",),  # utils/torch_utils.py
        },
    ),
    (
        (0, 15, 0),
        {  # kv_cache_interface.py:293; models/config.py:332
            "state_prefix_caching": "off",
            "state_modes": ("all", "align"),
            "speculative_state_blocks": True,
        },
    ),
    (
        (0, 17, 0),
        {  # kv_cache_utils.py:1574; platforms/cuda.py:68
            "fit_check_whole_model": False,
            "mla_blackwell_block": 32,
            "align_block_within_batch": True,  # config/vllm.py:1220
            "declared_kv": ("modelopt", "compressed-tensors"),  # layers/attention/attention.py:232
            "declared_kv_wins": True,
        },
    ),
    (
        (0, 18, 0),
        {"group_merge_below": Fraction(3, 2), "hybrid_kernel_block": "config-late"},
    ),
    (
        (0, 20, 0),
        {  # config/cache.py:66; envs.py:261; config/compilation.py:1427; models/config.py:348, :410
            "utilization": Fraction(92, 100),
            "graphs_inside_budget": True,
            "state_slots_refused": True,
            "hybrid_kernel_block": "backend",  # platforms/interface.py:502
            "align_when_speculating": True,
            "nemotron_ssm_dtype": "float32",
            "sparse_fp8_plain_on_blackwell": True,
        },
    ),
    ((0, 20, 1), {"tokens_from_concurrency": True}),  # kv_cache_utils.py:1706
    (
        (0, 22, 0),  # models/config.py; kv_cache_interface.py; layers/attention/attention.py:238
        {"align_when_speculating": False, "all_mode_adds_speculative": True, "declared_kv_wins": False},
    ),
    ((0, 23, 0), {"compressed_layout": "slots"}),  # kv_cache_utils.py:1221
    ((0, 24, 0), {"unify_pages": "pad"}),  # kv_cache_utils.py:1087
    ((0, 25, 0), {"skip_layers_raise_block": True, "sparse_auto_packed_on_sm120": True}),  # platforms/interface.py:639
    (
        (0, 26, 0),
        {  # kv_cache_interface.py (max_in_flight_tokens); config/model.py:1896
            "batches_in_flight": True,
            "state_prefix_caching": "on",
        },
    ),
    (
        (0, 27, 0),  # platforms/interface.py:885; kv_cache_utils.py:944
        {"mla_hybrid_floor": 128, "align_block_within_batch": False, "claims_by_bytes": False},
    ),
    (
        (0, 28, 0),  # engine/arg_utils.py:2582; kv_cache_utils.py:2137
        {"large_card_tier": True, "gb10_small_tier": True, "mtp_modules_extend_windows": True},
    ),
    (
        (0, 29, 0),
        {  # kv_cache_utils.py:975, :1668
            "null_block_checked": True,
            "compressed_layout": "packed",
            "compressed_auto_is_fp8": True,
            "diffkv_fp8": True,
        },
    ),
    (
        (0, 30, 0),
        {"mm_prefix_blackwell_block": 64, "pipeline_adds_batch": True},
    ),  # platforms/cuda.py:160; config/vllm.py
    ((0, 31, 0), {"hopper_fp8_head_512_block": 64}),  # v1/attention/backends/flash_attn.py:298
    ((0, 32, 0), {"state_modes": ("align",), "checkpoint_block_mamba2": True}),  # config/cache.py; mamba_mixer2.py:1107
    (
        (0, 33, 0),
        {  # layers/mamba/gdn/qwen_gdn_linear_attn.py:739; models/config.py:89; platforms/cuda.py:104; commandr.py:244
            "checkpoint_block_gdn": True,
            "wider_windows": True,
            "dsa_fp8_on_blackwell": True,
            "sparse_fp8_e4m3_plain_on_hopper": True,
        },
    ),
)


def parse_version(text: str) -> Version:
    """`0.20`, `0.20.2`, `v0.20.1rc1` -> a tuple to compare. A release candidate stands before its release.

    Raises UsageError where the text is not a version.
    """
    found = re.fullmatch(r"v?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,5}|x))?\.?((?:rc|dev|a|b)\d*)?(?:[.+-].*)?", text.strip())
    if found is None:
        raise UsageError(
            f"{text!r} is not a vLLM version", path="--engine", value=text, hint="vllm@0.33 or vllm@0.20.2"
        )
    major, minor, patch, pre = found.groups()
    last = _LAST_PATCH if patch in (None, "x") else int(patch)
    return (int(major), int(minor), last - 1, 1) if pre else (int(major), int(minor), last)


@lru_cache(maxsize=256)
def rules_for(version: Version) -> Rules:
    """The rules of a release: every change up to it. Outside the known range, the nearest release's."""
    changed: dict[str, Any] = {}
    for since, values in CHANGES:
        if since <= max(version, FIRST):
            changed.update(values)
    return replace(Rules(), **changed)


@lru_cache(maxsize=256)
def known_version(text: str | None) -> tuple[Version, str, str]:
    """(version, its text, a note where it is outside the known range). None is the latest."""
    if text is None:
        return LATEST, f"{LATEST[0]}.{LATEST[1]}", ""
    version = parse_version(text)
    plain = text.strip().lstrip("v")
    if version < FIRST:
        return version, plain, f"vLLM {plain} is older than 0.10: answered with the rules of 0.10"
    if version[:2] > LATEST[:2]:
        return (
            version,
            plain,
            f"vLLM {plain} is newer than {LATEST[0]}.{LATEST[1]}, the last release read: answered with its rules",
        )
    return version, plain, ""
