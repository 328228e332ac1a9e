"""The activation peak of vLLM's profile run: the larger of the dummy sampler and the dummy forward pass, never their
sum.

The profile run (vllm/v1/worker/gpu_model_runner.py, `profile_run` -> `_dummy_run`, then `_dummy_sampler_run`) frees the
forward pass's buffers before it samples, so the peak is a maximum. Both are transient; what stays is in `runtime`.
Widths in elements, results in bytes per card. Constants: `fit.PRIORS` and the anchors.
"""

from __future__ import annotations

from calc.arithmetic import num, over
from calc.estimates.fit import Fit
from calc.estimates.setup import Setup
from calc.units import GIB, gib
from onboard.values import Struct


class Part(Struct, frozen=True):
    """One mechanism's bytes, and the line of arithmetic that gives them."""

    name: str
    bytes: float
    rule: str


def activation(setup: Setup, fit: Fit) -> Part:
    """The text model's peak, without the encoder. Zero sequences or pooling heads leave the forward pass alone."""
    sampler, forward = sampler_part(setup, fit), forward_part(setup, fit)
    wins = sampler if sampler.bytes >= forward.bytes else forward
    base = fit.of("base_gib") * GIB
    other = forward if wins is sampler else sampler
    rule = f"{wins.rule} + {num(fit.of('base_gib'))} GiB; the {wins.name}, above the {other.name}'s {gib(other.bytes)}"
    return Part(wins.name, wins.bytes + base, rule)


def sampler_part(setup: Setup, fit: Fit) -> Part:
    """The dummy sampler: logits, their float32 copy, and what top-k / top-p sorts, for every sequence at once.

    Independent of TP (each card gathers the whole vocabulary), of the model's size and of max_model_len. From 0.17 the
    FlashInfer/Triton sampler sorts nothing. MoE workspaces of the forward pass stay allocated from 0.17 on.
    """
    if setup.pooling or (setup.v0 and setup.version < (0, 8) and setup.chunked and setup.link != "rocm"):
        return Part("sampler", 0.0, "no sampler runs in this profile")
    sequences = setup.sequences
    per_logit = fit.of("sampler_flashinfer_bytes" if sampler_class(setup) == "flashinfer" else "sampler_sort_bytes")
    hidden = 2 * setup.max_num_batched_tokens * setup.hidden
    size = per_logit * sequences * setup.vocab + hidden
    rule = (
        f"{sequences:,} sequences x {setup.vocab:,} vocabulary x {num(per_logit)} B"
        f" + 2 B x {setup.max_num_batched_tokens:,} tokens x {setup.hidden:,} hidden"
    )
    kept = moe_workspace(setup) * fit.of("moe_kept_factor") if keeps_workspace(setup) else 0.0
    if kept:
        size += kept
        rule += f" + {num(fit.of('moe_kept_factor'))} kept x {workspace_line(setup)}"
    return Part("sampler", size, rule)


def forward_part(setup: Setup, fit: Fit) -> Part:
    """The dummy forward pass of max_num_batched_tokens: the MLP's buffers (divided by TP) and hidden-state copies."""
    tokens, hidden = setup.max_num_batched_tokens, hidden_bytes(setup, fit)
    states = f"{num(hidden)} B x {tokens:,} tokens x {setup.hidden:,} hidden"
    if setup.experts:
        factor = fit.of("moe_forward_factor")
        size = factor * moe_workspace(setup)
        rule = f"{num(factor)} x {workspace_line(setup)} + {states}"
    else:
        wide = 6 if setup.gated else 4
        size = wide * tokens * setup.intermediate / setup.tp
        rule = f"{wide} B x {tokens:,} tokens x {over(setup.intermediate, setup.tp)} MLP width + {states}"
    size += hidden * tokens * setup.hidden
    if dequantised := dequantised_bytes(setup):
        size += dequantised
        width = over(setup.intermediate, setup.tp)
        rule += f" + 2 B x 2 matrices dequantised x {width} MLP width x {setup.hidden:,} hidden"
    return Part("forward pass", size, rule)


def dequantised_bytes(setup: Setup) -> float:
    """AWQ's plain kernel unpacks the whole gate-and-up matrix for 256 tokens or more (vLLM's awq.py: awq_dequantize).

    The Marlin kernels, V1's choice, unpack in registers.
    """
    if not setup.v0 or not setup.quantization.startswith("awq") or setup.max_num_batched_tokens < 256:
        return 0.0
    return 2 * 2 * setup.intermediate / setup.tp * setup.hidden


def hidden_bytes(setup: Setup, fit: Fit) -> float:
    """Bytes a hidden element: residual, normalised input, output; V0 with TP keeps the all-reduce's copy too."""
    if not setup.v0:
        return fit.of("hidden_v1_bytes")
    if setup.era == "v0.6":
        return fit.of("hidden_v0.6_bytes")
    return fit.of("hidden_v0_bytes") + (2.0 if setup.tp > 1 else 0.0)


def moe_workspace(setup: Setup) -> float:
    """Bytes of the fused-MoE workspaces: two scratch buffers and the gated output for topk copies of each token.

    Source: vllm/model_executor/layers/fused_moe (workspace13, workspace2), 2 B an element.
    """
    if not setup.experts:
        return 0.0
    width = setup.moe_intermediate / (1 if setup.expert_parallel else setup.tp)
    return setup.max_num_batched_tokens * setup.topk * (2 * max(2 * width, setup.hidden) + 2 * width)


def workspace_line(setup: Setup) -> str:
    """`moe_workspace` as arithmetic."""
    width = over(setup.moe_intermediate, 1 if setup.expert_parallel else setup.tp)
    copies = f"{setup.max_num_batched_tokens:,} tokens x {setup.topk} experts each"
    return f"{copies} x (2 B x max(2 x {width} expert width, {setup.hidden:,} hidden) + 2 B x {width} expert width)"


def keeps_workspace(setup: Setup) -> bool:
    """From 0.17 the modular MoE kernels keep their workspace between layers; the mxfp4 kernels have none to keep."""
    return bool(setup.experts) and not setup.v0 and setup.version >= (0, 17) and "mxfp4" not in setup.quantization


def sampler_class(setup: Setup) -> str:
    """ "sort" (PyTorch top-k/top-p) or "flashinfer". Said by the log, else by the version: 0.17 made the latter
    default.
    """
    if setup.sampler:
        return setup.sampler
    if setup.link == "rocm" or setup.v0:
        return "sort"
    return "flashinfer" if setup.version >= (0, 17) else "sort"
