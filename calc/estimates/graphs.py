"""CUDA graphs: what capture takes, by version, layers and the largest captured batch.

Inside the budget only where the engine subtracts its own estimate before it sizes the cache (default from 0.20.0,
opt-in
in 0.18 and 0.19); before that the graphs come on top of utilisation x memory. GiB per card. Sources: 48 boots of 0.19
on H100 (dense TP 1: 0.53 + 0.0112 a layer; TP > 1: 0.14 + 0.0192), and the medians of older versions.
"""

from __future__ import annotations

from calc.arithmetic import num
from calc.estimates.activation import Part
from calc.estimates.fit import Fit
from calc.estimates.setup import Setup
from calc.units import GIB

MAX_CAPTURE = 512  # vllm/config: the largest default capture size; twice max_num_seqs where that is smaller
FLOOR_GIB = 0.05  # captures of 4 to 16 tokens: 0.03 to 0.06 GiB
V0_GIB = 0.28  # capture up to 256 sequences
TO_0_10_GIB = 0.93
SCALES = (
    ((0, 20), "scale 0.20", 0.6),
    ((0, 18), "scale 0.18", 1.0),
    ((0,), "scale", 1.0),
)  # by version, of the lines below
SPARSE_GIB = 4.5  # the engine's own estimate for GLM-5.1 with sparse attention: 4.9 to 6.3 GiB (one project's boots)
TO_0_17_GIB = 0.3  # 0.11 and 0.12 print negative figures: capture frees memory too


def estimate_is_subtracted(setup: Setup) -> bool:
    """Whether the graphs' estimate is taken from the budget before the cache is sized."""
    if setup.eager or setup.v0:
        return False
    if setup.graph_estimate is not None:
        return setup.graph_estimate
    return setup.version >= (0, 20)


def capture_size(setup: Setup) -> int:
    """The largest batch captured, in tokens: 2 x sequences x (1 + draft tokens), at most 512."""
    if setup.graph_capture:
        return setup.graph_capture
    return min(MAX_CAPTURE, 2 * setup.sequences * (1 + setup.num_speculative_tokens))


def graphs(setup: Setup, fit: Fit) -> Part:
    """Bytes that CUDA graphs take; 0 with enforce_eager."""
    if setup.eager:
        return Part("cuda_graphs", 0.0, "; enforce_eager: nothing is captured")
    if setup.v0:
        return Part("cuda_graphs", V0_GIB * GIB, f"{num(V0_GIB)} GiB; median of V0 boots")
    share = min(1.0, capture_size(setup) / MAX_CAPTURE)
    if setup.version < (0, 18):
        whole = TO_0_10_GIB if setup.version < (0, 11) else TO_0_17_GIB
        words = f"{num(whole)} the median of this version's boots"
    else:
        whole = 0.53 + 0.0112 * setup.layers if setup.tp == 1 else 0.14 + 0.0192 * setup.layers
        words = f"{'0.53 + 0.0112' if setup.tp == 1 else '0.14 + 0.0192'} x {setup.layers} layers"
        if setup.experts:
            whole += 0.2 * setup.layers / 40
            words += f" + 0.2 MoE x {setup.layers} layers / 40"
        if setup.latent and not setup.sparse:
            whole += 0.55
            words += " + 0.55 MLA"
    name, prior = next((n, p) for low, n, p in SCALES if setup.version >= low)
    scale = fit.graphs.get(name, prior)
    size = FLOOR_GIB + whole * share * scale
    shown = f"{min(capture_size(setup), MAX_CAPTURE)} tokens captured / {MAX_CAPTURE}"
    rule = f"{FLOOR_GIB} + ({words}) x {shown} x {num(scale)} learned"
    if setup.sparse and setup.version >= (0, 18):
        size += SPARSE_GIB
        rule += f" + {SPARSE_GIB} sparse attention"
    return Part("cuda_graphs", size * GIB, f"({rule}) GiB")
