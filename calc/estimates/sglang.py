"""SGLang's graphs: no log of many sequences states them, so the engine's own allowance for them is the estimate.

Its automatic mem_fraction_static keeps 2 MiB a captured decode batch size's sequence and 8 MiB a captured prefill size
free (arg_groups/memory_hook.py, 0.5.23). Ten boots of 1 to 8 sequences print 0.03 to 0.11 GiB on discrete cards, 0.58
and 1.26 GiB on a GB10, and 1.66 GiB for a sparse 8-card model: the band holds all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc.estimates.setup import Setup
from calc.prediction import Term

MIB, GIB = 2**20, 2**30
LEAST, DECODE, PREFILL = 30 * MIB, 2 * MIB, 8 * MIB
LEAST_SHARE = 0.5  # of the decode graphs' allowance; prefill graphs share one pool and may take nothing more
TIMES, BESIDE, BESIDE_UNIFIED = 2.5, GIB // 10, 13 * GIB // 10  # the most that boots took: a factor, and what is beside


def sglang_graphs(setup: Setup, derived: Mapping[str, Any]) -> Term:
    """The `cuda_graphs` term, outside the budget. 0 where graphs are off."""
    decode = int(derived.get("cuda_graph_max_bs") or setup.max_num_seqs)
    prefill = int(derived.get("num_prefill_graphs") or 0)
    if setup.eager:
        return Term(name="cuda_graphs", bytes=0, rule="; disabled", origin="anchor", inside_budget=False)
    size = LEAST + DECODE * decode + PREFILL * prefill
    beside = BESIDE_UNIFIED if setup.link == "unified" else BESIDE + (GIB if setup.sparse or setup.latent else 0)
    return Term(
        name="cuda_graphs", bytes=size,
        low_bytes=int(LEAST_SHARE * (LEAST + DECODE * decode)), high_bytes=int(TIMES * size) + beside,
        rule=f"30 MiB + {decode} sequences x 2 MiB + {prefill} prefill sizes x 8 MiB; the engine's own allowance",
        origin="default", inside_budget=False,
    )  # fmt: skip
