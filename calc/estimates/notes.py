"""What frees memory, in the user's terms: each sentence is the difference of two estimates, none is a rule of thumb."""

from __future__ import annotations

from dataclasses import replace

from calc.estimates.activation import forward_part, sampler_part
from calc.estimates.classes import unmodelled
from calc.estimates.fit import GIB, Fit, load_fit
from calc.estimates.intervals import confidence, hangs_on_estimate
from calc.estimates.reserve import Estimate, estimate
from calc.estimates.setup import Setup, setup_of
from calc.prediction import Note, Prediction, Resolved
from onboard.profile import Profile

WORTH_GIB = 0.1  # below this a change is not worth a sentence


def advice(profile: Profile, resolved: Resolved, prediction: Prediction | None = None) -> tuple[Note, ...]:
    """Which knobs lower the estimated terms, by how much, and which do not. () for engines that do not profile.

    With a prediction that already passes with room to spare nothing needs freeing, and only what is not modelled is
    said.
    """
    if resolved.engine != "vllm" or resolved.plan.activation_model is not None:
        return ()
    setup, fit = setup_of(profile, resolved), load_fit()
    missing = tuple(Note("not-modelled", text) for text in unmodelled(setup))
    if prediction is not None and prediction.verdict == "PASS" and prediction.headroom_bytes > 2 * GIB:
        return missing
    return missing + tuple(Note("advice", text) for text in suggestions(setup, fit))


def trust(profile: Profile, prediction: Prediction) -> tuple[Note, ...]:
    """What `advice` says, after one sentence where the verdict hangs on the estimate: how many boots start."""
    resolved = prediction.resolved
    if resolved.engine != "vllm" or resolved.plan.kv_cache_memory_bytes is not None or resolved.plan.activation_model:
        return ()
    notes = advice(profile, resolved, prediction)
    if any(r.kind != "memory" for r in prediction.reasons):
        return notes
    share = confidence(profile, resolved, prediction.headroom_bytes)
    if not hangs_on_estimate(share):
        return notes
    return (Note("confidence", f"this hangs on the estimate: it starts in {share:.0%} of comparable boots"), *notes)


def suggestions(setup: Setup, fit: Fit) -> tuple[str, ...]:
    """The sentences of `advice`."""
    now = estimate(setup, fit)
    sampler_binds = sampler_part(setup, fit).bytes >= forward_part(setup, fit).bytes
    found = [
        *_sequences(setup, fit, now),
        *_tokens(setup, fit, now, sampler_binds),
        *_tensor_parallel(setup, sampler_binds),
    ]
    if now.graphs_inside and now.graphs.bytes > WORTH_GIB * GIB:
        found.append(
            f"enforce_eager frees {now.graphs.bytes / GIB:.1f} GiB of CUDA graphs, at the cost of slower decoding"
        )
    if setup.encoder and now.encoder.bytes > WORTH_GIB * GIB:
        found.append(
            f"language_model_only frees {now.encoder.bytes / GIB:.1f} GiB of the encoder's profile run, and its weights"
        )
    return tuple(found)


def _sequences(setup: Setup, fit: Fit, now: Estimate) -> list[str]:
    """The smallest of the usual values that still frees noticeably more than the one before it."""
    best, freed_before = "", 0.0
    for fewer in (256, 64, 16, 4, 1):
        if fewer >= setup.max_num_seqs:
            continue
        freed = (now.inside - estimate(replace(setup, max_num_seqs=fewer), fit).inside) / GIB
        if freed - freed_before < WORTH_GIB:
            break
        best, freed_before = f"max_num_seqs {setup.max_num_seqs} -> {fewer} frees {freed:.1f} GiB", freed
    return [best] if best else []


def _tokens(setup: Setup, fit: Fit, now: Estimate, sampler_binds: bool) -> list[str]:
    fewer = 2048 if setup.max_num_batched_tokens > 2048 else 512
    if fewer >= setup.max_num_batched_tokens:
        return []
    freed = (now.inside - estimate(replace(setup, max_num_batched_tokens=fewer), fit).inside) / GIB
    if freed >= WORTH_GIB:
        return [f"max_num_batched_tokens {setup.max_num_batched_tokens} -> {fewer} frees {freed:.1f} GiB"]
    why = "the sampler is the larger part of the peak" if sampler_binds else "it is small already"
    return [f"lowering max_num_batched_tokens does not lower the activation peak: {why}"]


def _tensor_parallel(setup: Setup, sampler_binds: bool) -> list[str]:
    if sampler_binds and not setup.pooling:
        return [
            "raising tensor_parallel_size does not lower the activation peak: each card samples the whole vocabulary"
        ]
    return []
