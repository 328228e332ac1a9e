"""Memory that is neither weights, cache nor activation: what torch does not count, and what stands outside the budget.

Inside (vLLM): the growth of non-torch memory during the profile run: NCCL, custom all-reduce, symmetric buffers,
kernels' workspaces. The step comes with NVLink and TP > 1, not with the card's size. Outside: the CUDA context, taken
before the engine's first snapshot, and workspaces allocated after profiling. `TABLE` holds medians of boots in GiB by
class of version and link, then by TP; the anchors move them (`fit.runtime`).
"""

from __future__ import annotations

from calc.arithmetic import num
from calc.estimates.activation import Part
from calc.estimates.fit import Fit
from calc.estimates.setup import QUANTISED_KV, Setup
from calc.units import GIB

TABLE: dict[str, dict[int, float]] = {
    "v0.6 pcie": {1: 0.35, 2: 0.39, 4: 0.4, 8: 0.4},
    "v0.6 nvlink": {1: 0.4, 2: 1.2, 4: 1.4, 8: 2.0},
    "v0 pcie": {1: 0.07, 2: 0.28, 4: 0.2, 8: 0.2},
    "v0 nvlink": {1: 0.1, 2: 1.3, 4: 1.4, 8: 2.1},
    "v1 pcie": {1: 0.03, 2: 0.12, 4: 0.15, 8: 0.25},
    "v1 nvlink": {1: 0.13, 2: 0.7, 4: 1.84, 8: 2.1},
    "v1.18 pcie": {1: 0.2, 2: 0.35, 4: 0.4, 8: 0.5},
    "v1.18 nvlink": {1: 0.25, 2: 2.08, 4: 2.17, 8: 2.25},
    "rocm": {1: 0.5, 2: 0.72, 4: 0.6, 8: 1.8},
    "unified": {1: 3.5, 2: 5.0, 4: 4.0, 8: 4.0},
    "pipeline": {1: 0.07},
}

# GiB outside the budget, as logs show memory that is free before anything is loaded: an H100 78.68 of 79.19; an RTX
# 3090 about 23.1 of 23.5 alone (0.3 to 0.5 taken) and 22.82 to 22.91 of 23.58 beside a second card (0.67 to 0.76). The
# context grows with the number of SMs; what the second card adds are NCCL's buffers, taken before vLLM's first snapshot
# since that moved behind NCCL's start.
CONTEXT_GIB = {True: 0.5, False: 0.33}  # by datacentre
NCCL_GIB = 0.4
FLASHINFER_BYTES = 394 * 2**20  # VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE, allocated when the backend builds its metadata


def runtime_key(setup: Setup) -> str:
    """The row and column of the table, as one name."""
    if setup.link in ("unified", "rocm"):
        row = setup.link
    elif setup.pp > 1 and setup.tp == 1 and not setup.expert_parallel:
        return "pipeline 1"
    else:
        row = f"{setup.era} {setup.link}"
    ranks = max(setup.tp, 2) if setup.expert_parallel else setup.tp  # experts over data-parallel ranks talk too
    return f"{row} {tp_step(ranks)}"


def tp_step(tp: int) -> int:
    """The step of the table that a TP size stands on: 1, 2, 4 or 8."""
    return next((step for step in (8, 4, 2) if tp >= step), 1)


def table_value(key: str, fit: Fit) -> float:
    """GiB for a key: learned, else the table's."""
    if key in fit.runtime:
        return fit.runtime[key]
    row, _, column = key.rpartition(" ")
    return TABLE[row][int(column)]


def inside(setup: Setup, fit: Fit) -> Part:
    """Non-torch memory inside the budget."""
    key = runtime_key(setup)
    return Part(
        "runtime",
        table_value(key, fit) * GIB,
        f"{num(table_value(key, fit))} GiB; non-torch memory of boots with {key.replace('.18', ' from 0.18')} way(s)",
    )


def outside(setup: Setup, fit: Fit) -> Part:
    """The CUDA context and what is allocated after the budget was sized."""
    size = CONTEXT_GIB[setup.datacentre] * GIB
    rule = f"{num(CONTEXT_GIB[setup.datacentre])} GiB CUDA context"
    if setup.tp > 1:
        size += NCCL_GIB * GIB
        rule += f" + {num(NCCL_GIB)} GiB NCCL"
    if uses_flashinfer(setup):
        size += FLASHINFER_BYTES
        rule += " + 394 MiB FlashInfer workspace"
    return Part("context", size, rule)


def uses_flashinfer(setup: Setup) -> bool:
    """vLLM's choice of attention backend: FlashInfer on Blackwell, and on older cards for an fp8 cache (FA3 does
    Hopper's).
    """
    if setup.engine != "vllm" or setup.v0 or setup.link in ("rocm", "unified"):
        return False
    if setup.compute_capability >= (10, 0):
        return True
    return (
        setup.kv_cache_dtype.startswith("fp8")
        and not setup.kv_cache_dtype.endswith("head")
        and setup.compute_capability < (9, 0)
    )


def delta_prefill_line(setup: Setup) -> str:
    """`delta_prefill_bytes` as arithmetic."""
    heads, key_dim, value_dim = setup.delta
    chunks = f"ceil({setup.max_num_batched_tokens:,} tokens / 64) chunks"
    share = heads // min(setup.tp, heads) if heads else 0
    return f"{chunks} x {share} value heads x {key_dim} x {value_dim} x 2 B; Gated DeltaNet chunk states, up to 4 kept"


def delta_prefill_bytes(setup: Setup) -> int:
    """Chunk states of a Gated DeltaNet prefill: tokens/64 x value heads/TP x k x v x 2 B, outside the profile run.

    Source: fla's chunk kernel (chunk 64, model dtype). A failed allocation of exactly 96 MiB (8,192 tokens, TP 2, the
    27B) is this figure. The profile run has no attention metadata and skips the kernel, so the budget knows nothing
    of it.
    """
    heads, key_dim, value_dim = setup.delta
    if not heads:
        return 0
    return -(-setup.max_num_batched_tokens // 64) * (heads // min(setup.tp, heads)) * key_dim * value_dim * 2


__all__ = [
    "QUANTISED_KV",
    "TABLE",
    "delta_prefill_bytes",
    "delta_prefill_line",
    "inside",
    "outside",
    "runtime_key",
    "table_value",
    "tp_step",
    "uses_flashinfer",
]
