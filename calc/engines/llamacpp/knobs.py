"""Which knobs llama.cpp has, and the plan with every one of them filled in as llama-server would."""

from __future__ import annotations

from calc.engines.llamacpp.settings import DEFAULT_BATCH, DEFAULT_UBATCH, cache_types, slots_of
from calc.plan import Plan
from calc.prediction import Note
from onboard.errors import UnknownKnob, UsageError
from onboard.values import replace

KNOBS = frozenset(
    {
        "max_model_len", "max_num_seqs", "kv_cache_dtype", "num_speculative_tokens", "kv_unified", "batch_size",
        "ubatch_size", "cache_type_k", "cache_type_v", "flash_attn", "swa_full", "n_gpu_layers", "tensor_split",
        "n_cpu_moe", "cpu_moe", "no_kv_offload", "n_outputs_max", "fit_target_mib", "language_model_only",
    }
)  # fmt: skip
_EVERYWHERE = frozenset(
    {
        "engine", "card", "vram_gib", "gpus", "weights", "weights_gb", "drafter", "drafter_gb", "activation_model",
        "include_draft_kv", "draft_kv_gb", "compressed_layers", "compression_ratio", "compressed_head_dim",
        "indexer_ratio_layers", "indexer_compress_ratio", "indexer_head_dim", "indexer_format",
    }
)  # fmt: skip
_INSTEAD = {
    "tensor_parallel_size": "--gpus N splits the layers over N cards",
    "pipeline_parallel_size": "--gpus N splits the layers over N cards",
    "gpu_memory_utilization": "llama.cpp leaves --fit-target MiB free on each card",
    "max_num_batched_tokens": "--batch-size and --ubatch-size",
    "kv_cache_memory_bytes": "its caches follow from --ctx-size",
}
DEFAULT_FIT_TARGET_MIB = 1024  # common/common.h:478


def check_knobs(plan: Plan) -> None:
    """Raises UnknownKnob for a knob that llama.cpp does not have, UsageError for a value it cannot take."""
    for name, value in plan.given().items():
        if name not in KNOBS | _EVERYWHERE:
            raise UnknownKnob(
                f"llama.cpp has no {name}",
                path="--" + name.replace("_", "-"),
                value=str(value),
                hint=_INSTEAD.get(name, "leave it out"),
            )
    for name in ("max_model_len", "max_num_seqs", "batch_size", "ubatch_size"):
        number = getattr(plan, name)
        if number is not None and not 1 <= number < 2**31:
            raise UsageError(f"{name} must be from 1 to 2^31", path="--" + name.replace("_", "-"), value=number)
    if plan.gpus is not None and not 0 <= plan.gpus <= 256:
        raise UsageError("--gpus is from 0 (the host alone) to 256", path="--gpus", value=plan.gpus)
    if plan.flash_attn not in (None, "on", "off", "auto"):
        raise UsageError("--flash-attn is on, off or auto", path="--flash-attn", value=plan.flash_attn)


def filled(plan: Plan, n_ctx: int) -> tuple[Plan, tuple[Note, ...]]:
    """The plan with defaults of llama-server (common/common.h:450-600, server.cpp:156), and notes of it."""
    slots, unified = slots_of(plan)
    type_k, type_v = cache_types(plan)
    values = {
        "gpus": 1 if plan.gpus is None else plan.gpus,
        "max_num_seqs": slots,
        "kv_unified": unified,
        "max_model_len": n_ctx,
        "batch_size": plan.batch_size or DEFAULT_BATCH,
        "ubatch_size": plan.ubatch_size or DEFAULT_UBATCH,
        "cache_type_k": type_k,
        "cache_type_v": type_v,
        "flash_attn": plan.flash_attn or "auto",
        "n_gpu_layers": -1 if plan.n_gpu_layers is None else plan.n_gpu_layers,
        "fit_target_mib": DEFAULT_FIT_TARGET_MIB if plan.fit_target_mib is None else plan.fit_target_mib,
    }
    notes = []
    if plan.max_num_seqs is None:
        notes.append(
            Note("default", f"llama-server's {slots} slots share one cache (kv_unified); --parallel 1 holds less")
        )
    unset = sorted(n for n in ("batch_size", "ubatch_size", "flash_attn") if getattr(plan, n) is None)
    if unset:
        notes.append(Note("default", ", ".join(f"{n} {values[n]}" for n in unset) + ": llama-server's defaults"))
    return replace(plan, **values), tuple(notes)
