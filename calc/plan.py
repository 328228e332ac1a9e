"""The plan: every knob a user may set, under its long option name. None means "the engine's own default"."""

from __future__ import annotations

from typing import Any

from onboard.values import Struct, fields


class Plan(Struct, frozen=True, kw_only=True):
    """What to run and how. Sizes are bytes unless the name says otherwise; `engine` is a name or name@version."""

    engine: str = "vllm"
    card: str | None = None
    vram_gib: float | None = None
    gpus: int | None = None
    # --- parallelism ---
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
    # --- what is served ---
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_dtype: str = "auto"
    block_size: int | None = None
    enable_prefix_caching: bool | None = None
    enforce_eager: bool = False
    kv_cache_memory_bytes: int | None = None
    disable_hybrid_kv_cache_manager: bool = False
    language_model_only: bool = False
    mamba_cache_mode: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    mamba_block_size: int | None = None
    async_scheduling: bool | None = None
    cuda_graph_estimate: bool | None = None  # VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
    # --- speculation and adapters ---
    num_speculative_tokens: int | None = None
    drafter: str | None = None
    drafter_gb: float | None = None
    max_loras: int | None = None
    max_lora_rank: int | None = None
    # --- weights ---
    weights: str | None = None
    weights_gb: float | None = None
    quantization: str | None = None
    # --- estimates ---
    activation_model: str | None = None
    # --- llama.cpp ---
    kv_unified: bool | None = None
    batch_size: int | None = None
    ubatch_size: int | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    flash_attn: str | None = None
    swa_full: bool = False
    n_gpu_layers: int | None = None
    tensor_split: tuple[float, ...] | None = None
    n_cpu_moe: int | None = None
    cpu_moe: bool = False
    no_kv_offload: bool = False
    n_outputs_max: int | None = None
    fit_target_mib: int | None = None
    # --- SGLang ---
    mem_fraction_static: float | None = None
    page_size: int | None = None
    swa_full_tokens_ratio: float | None = None
    mamba_full_memory_ratio: float | None = None
    disable_radix_cache: bool = False
    chunked_prefill_size: int | None = None
    max_total_tokens: int | None = None
    data_parallel_size: int = 1
    max_mamba_cache_size: int | None = None
    # --- planning extras of the specification (reporting only) ---
    include_draft_kv: bool = False
    draft_kv_gb: float | None = None
    compressed_layers: int = 0
    compression_ratio: float | None = None
    compressed_head_dim: int | None = None
    indexer_ratio_layers: int = 0
    indexer_compress_ratio: float | None = None
    indexer_head_dim: int | None = None
    indexer_format: str | None = None

    def given(self) -> dict[str, Any]:
        """The knobs that differ from this class's defaults, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
