"""Classes of boot by how well the rules know them, and the spread each class starts from before any boot speaks.

A class's spread is the mean absolute residual that is drawn toward `PRIOR_GIB` by `WEIGHT` imaginary boots: a class
with few boots keeps an honest, wide interval. Order matters: the first class that applies.
"""

from __future__ import annotations

from calc.estimates.graphs import estimate_is_subtracted
from calc.estimates.setup import Setup

TERMS = ("activation", "encoder", "runtime", "cuda_graphs", "context", "reserve")
WEIGHT = 3.0
FEW = 16  # sequences for which the graphs are too small to matter

PRIOR_GIB: dict[str, dict[str, float]] = {
    "unified": {"activation": 0.5, "runtime": 1.5, "cuda_graphs": 0.6, "reserve": 2.0},
    "uncovered": {"activation": 0.8, "runtime": 0.4, "cuda_graphs": 0.6, "reserve": 1.2},
    "multimodal": {"activation": 0.15, "runtime": 0.15, "cuda_graphs": 0.4, "reserve": 0.5},
    "parallel": {"activation": 0.1, "runtime": 0.3, "cuda_graphs": 0.4, "reserve": 0.3},
    "graphs": {"activation": 0.1, "runtime": 0.1, "cuda_graphs": 0.2, "reserve": 0.17},
    "moe": {"activation": 0.12, "runtime": 0.1, "cuda_graphs": 0.4, "reserve": 0.2},
    "dense": {"activation": 0.08, "runtime": 0.06, "cuda_graphs": 0.4, "reserve": 0.08},
}
FLOOR_GIB = {
    "activation": 0.05,
    "runtime": 0.05,
    "reserve": 0.08,
    "cuda_graphs": 0.2,
}  # no band is narrower than logs and allocators
CONTEXT_GIB = (
    -0.25,
    0.6,
)  # what the context and later workspaces stray, on any card; graphs: a share of the prediction

NOT_MODELLED = {
    "sparse": "sparse attention's workspaces are sized by batched tokens and known from one project's boots",
    "drafter": "a separate drafter's own activations and graphs are not modelled",
    "lora": "LoRA's buffers for batched adapters are not modelled (boots with one small adapter fit without them)",
    "v2": "from 0.27 the profile run may skip the sampler's float32 copies (V2 runner): an upper bound",
    "states": "state-space prefill buffers other than Gated DeltaNet's are not modelled",
}


def class_of(setup: Setup) -> str:
    """The class of boot a setup belongs to."""
    if setup.link == "unified":
        return "unified"
    if setup.sparse or setup.drafter:
        return "uncovered"
    if setup.encoder:
        return "multimodal"
    if setup.tp > 1 or setup.pp > 1 or setup.link == "rocm":
        return "parallel"
    if (
        estimate_is_subtracted(setup) and setup.max_num_seqs > FEW
    ):  # the budget also loses the engine's own graph estimate
        return "graphs"
    return "moe" if setup.experts else "dense"


def unmodelled(setup: Setup) -> tuple[str, ...]:
    """What the rules know to be missing for this setup, in words."""
    found = []
    if setup.sparse:
        found.append("sparse")
    if setup.drafter:
        found.append("drafter")
    if setup.max_loras:
        found.append("lora")
    if setup.engine == "vllm" and setup.version >= (0, 27):
        found.append("v2")
    if setup.states and not setup.delta[0]:
        found.append("states")
    return tuple(NOT_MODELLED[name] for name in found)
