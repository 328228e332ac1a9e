"""What frees memory, in the user's terms: each sentence is the difference of two estimates, none is a rule of thumb."""

from __future__ import annotations

from calc.estimates.activation import forward_part, sampler_part
from calc.estimates.classes import unmodelled
from calc.estimates.fit import Fit, load_fit
from calc.estimates.intervals import confidence, hangs_on_estimate
from calc.estimates.reserve import Estimate, estimate
from calc.estimates.setup import Setup, setup_of
from calc.estimates.unstated import unstated
from calc.prediction import Note, Prediction, Resolved
from calc.units import GIB
from onboard.profile import Profile
from onboard.values import replace

STEPS = 8  # places within the weights' range at which a probability is asked
WORTH_GIB = 0.1  # below this a change is not worth a sentence
WORTH_WHERE_IT_FITS_GIB = 0.5


def advice(profile: Profile, resolved: Resolved, prediction: Prediction | None = None) -> tuple[Note, ...]:
    """Which knobs lower the estimated terms, by how much, and which do not. () for engines that do not profile.

    Where a prediction passes already, only what frees a good deal is worth a sentence.
    """
    if resolved.engine != "vllm" or resolved.plan.activation_model is not None:
        return ()
    if unstated(profile):
        return ()
    setup, fit = setup_of(profile, resolved), load_fit()
    passes = prediction is not None and prediction.verdict == "PASS"
    told = suggestions(setup, fit, WORTH_WHERE_IT_FITS_GIB if passes else WORTH_GIB)
    notes = [*(Note("not-modelled", text) for text in unmodelled(setup)), *(Note("advice", text) for text in told)]
    return tuple(notes)


def trust(profile: Profile, prediction: Prediction) -> tuple[Note, ...]:
    """What `advice` says, after one sentence where the verdict hangs on the estimate: how many boots start."""
    resolved = prediction.resolved
    if resolved.engine != "vllm" or resolved.plan.kv_cache_memory_bytes is not None or resolved.plan.activation_model:
        return ()
    notes = advice(profile, resolved, prediction)
    share = verdict_share(profile, prediction)
    if share is None or not hangs_on_estimate(share):
        return notes
    words = "PASS" if prediction.verdict == "PASS" else "it starts"
    return (Note("confidence", f"{words} in {share:.0%} of comparable boots: this hangs on the estimate"), *notes)


def verdict_share(profile: Profile, prediction: Prediction) -> float | None:
    """The share of comparable boots of which the verdict's promise holds: PASS that everything asked for fits, else
    that it starts at all. None where the verdict does not rest on memory, or nothing in it is estimated.

    Weights that are known only within a range count as evenly likely anywhere in it.
    """
    resolved = prediction.resolved
    if resolved.engine != "vllm" or resolved.plan.kv_cache_memory_bytes is not None or resolved.plan.activation_model:
        return None
    if any(r.kind != "memory" for r in prediction.reasons):
        return None
    passes = prediction.verdict == "PASS"
    spare = prediction.cache.pool.bytes - prediction.cache.asked.total if passes else prediction.headroom_inside_bytes
    loaded = [t for t in prediction.terms if t.inside_budget and t.name in ("weights", "drafter", "adapters")]
    less, more = sum(t.bytes - t.low for t in loaded), sum(t.high - t.bytes for t in loaded)
    steps = [round(less - (less + more) * (i + 0.5) / STEPS) for i in range(STEPS)] if less + more else [0]
    return sum(confidence(profile, resolved, spare + step) for step in steps) / len(steps)


def suggestions(setup: Setup, fit: Fit, worth: float = WORTH_GIB) -> tuple[str, ...]:
    """The sentences of `advice`, each worth at least `worth` GiB; what does not help is said of a peak that large."""
    now = estimate(setup, fit)
    sampler_binds = sampler_part(setup, fit).bytes >= forward_part(setup, fit).bytes
    large = now.activation.bytes >= worth * GIB
    found = [*_sequences(setup, fit, now, worth), *_tokens(setup, fit, now, worth, sampler_binds and large)]
    if sampler_binds and large and not setup.pooling:
        found.append(
            "raising tensor_parallel_size does not lower the activation peak: each card samples the whole vocabulary"
        )
    if now.graphs_inside and now.graphs.bytes > worth * GIB:
        found.append(
            f"enforce_eager frees {now.graphs.bytes / GIB:.1f} GiB of CUDA graphs, at the cost of slower decoding"
        )
    if setup.encoder and now.encoder.bytes > worth * GIB:
        found.append(
            f"language_model_only frees {now.encoder.bytes / GIB:.1f} GiB of the encoder's run, and its weights"
        )
    return tuple(found)


def _sequences(setup: Setup, fit: Fit, now: Estimate, worth: float) -> list[str]:
    """The smallest of the usual values that still frees noticeably more than the one before it."""
    best, freed_before = "", 0.0
    for fewer in (256, 64, 16, 4, 1):
        if fewer >= setup.max_num_seqs:
            continue
        freed = (now.inside - estimate(replace(setup, max_num_seqs=fewer), fit).inside) / GIB
        if freed - freed_before < WORTH_GIB:
            break
        best, freed_before = f"max_num_seqs {setup.max_num_seqs} -> {fewer} frees {freed:.1f} GiB", freed
    return [best] if freed_before >= worth else []


def _tokens(setup: Setup, fit: Fit, now: Estimate, worth: float, sampler_binds: bool) -> list[str]:
    fewer = 2048 if setup.max_num_batched_tokens > 2048 else 512
    if fewer >= setup.max_num_batched_tokens:
        return []
    freed = (now.inside - estimate(replace(setup, max_num_batched_tokens=fewer), fit).inside) / GIB
    if freed >= worth:
        return [f"max_num_batched_tokens {setup.max_num_batched_tokens} -> {fewer} frees {freed:.1f} GiB"]
    if not sampler_binds:
        return []
    return ["lowering max_num_batched_tokens does not lower the activation peak: the sampler is the larger part of it"]
