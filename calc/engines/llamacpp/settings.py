"""llama.cpp's context parameters from a plan: defaults of llama-server, context length, batches, slots, streams.

Source: llama.cpp 0c1e57098 src/llama-context.cpp:133-305, common/common.h:450-600, tools/server/server.cpp:156,
server-context.cpp:41.
"""

from __future__ import annotations

from calc.engines.llamacpp.versions import NEWEST, swa_pad
from calc.plan import Plan
from onboard.values import Struct

PAD = 256
MAX_SEQUENCES = 256
SERVER_SLOTS = 4
DEFAULT_BATCH, DEFAULT_UBATCH = 2048, 512
ALL_LAYERS = 10**6


def pad(cells: int, to: int = PAD) -> int:
    """`cells` rounded up to a multiple of `to`."""
    return -(-cells // to) * to


class Settings(Struct, frozen=True, kw_only=True):
    """What a context is made with. `n_ctx` counts all slots together; `n_ctx_seq` cells a stream."""

    n_ctx: int
    n_ctx_seq: int
    n_seq_max: int
    unified: bool
    n_batch: int
    n_ubatch: int
    n_outputs: int
    type_k: str
    type_v: str
    flash_attn: bool
    swa_full: bool
    n_rs_seq: int
    gpus: int
    n_gpu_layers: int
    tensor_split: tuple[float, ...]
    offload_kqv: bool
    cpu_moe_layers: int
    asked: int
    swa_pad: int = PAD

    @property
    def streams(self) -> int:
        return 1 if self.unified else self.n_seq_max


def settings_of(
    plan: Plan,
    *,
    n_ctx_train: int,
    causal: bool = True,
    rollback: bool = False,
    swa_rule: tuple[int, ...] = NEWEST,
) -> Settings:
    """The context parameters of a plan whose knobs may be unset."""
    slots, unified = slots_of(plan)
    asked = plan.max_model_len or n_ctx_train
    batch = plan.batch_size or DEFAULT_BATCH
    n_batch = min(asked, batch) if causal else batch
    n_ubatch = min(n_batch, plan.ubatch_size or DEFAULT_UBATCH)
    drafts = plan.num_speculative_tokens or 0
    outputs = plan.n_outputs_max if plan.n_outputs_max is not None else slots * (1 + drafts)
    n_ctx = pad(asked)
    n_ctx_seq = n_ctx if unified else pad(n_ctx // slots)
    type_k, type_v = cache_types(plan)
    return Settings(
        n_ctx=n_ctx if unified else n_ctx_seq * slots,
        n_ctx_seq=n_ctx_seq,
        n_seq_max=slots,
        unified=unified,
        n_batch=n_batch,
        n_ubatch=n_ubatch,
        n_outputs=min(n_ubatch, outputs or n_batch),
        type_k=type_k,
        type_v=type_v,
        flash_attn=plan.flash_attn != "off",
        swa_full=plan.swa_full,
        n_rs_seq=drafts if rollback else 0,
        gpus=1 if plan.gpus is None else plan.gpus,
        n_gpu_layers=ALL_LAYERS if plan.n_gpu_layers is None or plan.n_gpu_layers < 0 else plan.n_gpu_layers,
        tensor_split=plan.tensor_split or (),
        offload_kqv=not plan.no_kv_offload,
        cpu_moe_layers=ALL_LAYERS if plan.cpu_moe else plan.n_cpu_moe or 0,
        asked=asked,
        swa_pad=swa_pad(swa_rule),
    )


def slots_of(plan: Plan) -> tuple[int, bool]:
    """Slots and whether they share one cache: unset means the server's 4 unified ones, a number turns sharing off."""
    if plan.max_num_seqs is None:
        return SERVER_SLOTS, True if plan.kv_unified is None else plan.kv_unified
    return plan.max_num_seqs, bool(plan.kv_unified)


def cache_types(plan: Plan) -> tuple[str, str]:
    """K and V types under their ggml names; `auto` is f16."""
    both = "f16" if plan.kv_cache_dtype == "auto" else plan.kv_cache_dtype
    return plan.cache_type_k or both, plan.cache_type_v or both
