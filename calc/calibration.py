"""Anchors in, residuals out: every measured figure beside a prediction made without its thread.

Two kinds of prediction: `calc.fitting` estimates the parts of a boot from its flags and its model's widths (activation,
runtime, graphs, what is left for the cache); `calc.predict` answers whole boots of catalogued models (the
specification's peaks, with their verdicts). Nothing prints, nothing is fitted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median
from typing import Any

from calc.calibration_models import anchored, key_of
from calc.calibration_record import Calibration, Record
from calc.calibration_verdicts import starts, verdict_of, verdicts
from calc.estimates.classes import class_of
from calc.estimates.fit import Fit
from calc.estimates.intervals import TAIL, at
from calc.estimates.reserve import Estimate
from calc.estimates.tables import ENCODERS
from calc.fitting import Boot, boots_of, fits_without, learn, left_out, residuals
from calc.plan import Plan
from calc.predict import predict
from calc.spreads import spread_of
from calc.units import GIB
from onboard.anchor_file import Anchor
from onboard.errors import Refusal, UnknownModel
from onboard.profile import Profile
from onboard.values import fields, replace

QUANTITIES = {"activation": "activation", "runtime": "runtime", "cuda_graphs": "cuda_graphs", "reserve": "kv_available"}
ON_ONE_CARD = ("dense", "moe", "graphs")  # the classes of text models on one discrete card
MIN_PEAKS = 4
DRAFT_METHODS = ("assistant", "dflash", "eagle", "eagle3", "draft_model")


def calibrate(anchors: Sequence[Anchor], profile_of: Callable[[str], Profile]) -> Calibration:
    """A record for every figure that a rule predicts. `profile_of` gives a model's profile or raises a Refusal."""
    boots = boots_of(anchors)
    fits = fits_without(boots)
    records = list(_parts(list(left_out(boots, fits).values())))
    records += starts(anchors, [r.id for r in records if r.verdict], fits)
    skipped = []
    known = {r.id for r in records}
    for anchor in anchors:
        if "measured_peak_gib" in anchor.printed:
            try:
                records.append(_whole(anchor, profile_of))
            except Refusal as refusal:
                skipped.append((anchor.id, refusal.message))
        elif anchor.id not in known:
            skipped.append((anchor.id, _why_skipped(anchor)))
    return Calibration(tuple(_with_peak_bands(records)), tuple(skipped))


def _with_peak_bands(records: Sequence[Record]) -> Iterable[Record]:
    """Peaks get the reach of the other peaks' residuals, half as far again: nvidia-smi sees what no log prints, and
    so few
    boots have shown such peaks that their own largest miss is no 95 % quantile.
    """
    misses = [abs(r.residual_bytes) for r in records if r.quantity == "reserved" and r.set != "specification"]
    reach = 3 * max(misses) // 2 if len(misses) >= MIN_PEAKS else GIB
    for r in records:
        peak = r.quantity == "reserved"
        yield replace(r, low_bytes=r.predicted_bytes - reach, high_bytes=r.predicted_bytes + reach) if peak else r


def refit(anchors: Sequence[Anchor], peaks: Sequence[Record] = ()) -> Fit:
    """What `--fit` writes: constants from all boots but the specification's, spreads from left-out threads.

    `peaks` are records of whole boots; they teach nothing and only tell each model's mean error.
    """
    boots = boots_of(anchors)
    pairs = list(left_out(boots).values())
    return replace(learn(boots), spreads=spread_of(pairs), anchored=anchored(anchors, [*_parts(pairs), *peaks]))


def selected(found: Calibration, ids: Sequence[str]) -> Calibration:
    """Only the anchors, or the models, that `ids` name; everything where there are none. Raises UnknownModel."""
    if not ids:
        return found
    wanted = {key_of(i) for i in ids}
    kept = tuple(r for r in found.records if r.id in wanted or r.model in wanted)
    skipped = tuple(s for s in found.skipped if s[0] in wanted)
    if not kept and not skipped:
        hint = "an anchor's id or a model's name; `calc calibration` lists them"
        raise UnknownModel(f"no anchor speaks of {', '.join(ids)}", path="IDS", value=" ".join(ids), hint=hint)
    return Calibration(kept, skipped)


def _parts(pairs: Sequence[tuple[Boot, Estimate]]) -> Iterable[Record]:
    """Records of the estimated parts. Intervals come from the spreads of the other threads' left-out residuals."""
    for thread in sorted({b.thread for b, _ in pairs}):
        spreads = spread_of([p for p in pairs if p[0].thread != thread])
        for boot, guess in pairs:
            if boot.thread != thread:
                continue
            for term, miss in residuals(boot, guess).items():
                shape = spreads[class_of(boot.setup)][term]
                low, high = min(0.0, at(shape, TAIL)), max(0.0, at(shape, 1 - TAIL))
                if term == "cuda_graphs":  # shares of the prediction
                    unit = guess.graphs.bytes / GIB
                    miss, low, high = miss * unit, low * unit, high * unit
                if term == "activation" and boot.setup.encoder:  # its encoder strays on its own account
                    entry = ENCODERS[boot.setup.encoder]
                    low, high = low + entry.low - entry.gib, high + entry.high - entry.gib
                yield _record(boot, guess, term, miss, low, high)


def _record(boot: Boot, guess: Estimate, term: str, miss: float, low: float, high: float) -> Record:
    anchor, quantity = boot.anchor, QUANTITIES[term]
    if quantity == "kv_available":  # what is not reserved is left for the cache: the sign turns
        measured, miss, low, high = float(anchor.printed["available_gib"]), -miss, -high, -low
    else:
        predicted = {
            "activation": guess.activation.bytes + guess.encoder.bytes,
            "runtime": guess.runtime.bytes,
            "cuda_graphs": guess.graphs.bytes,
        }[term]
        measured = predicted / GIB + miss
    predicted_gib = measured - miss
    return Record(
        id=anchor.id,
        set=anchor.set,
        model=key_of(anchor.model),
        engine=_engine(anchor),
        quantity=quantity,
        source=anchor.source,
        thread=anchor.thread,
        predicted_bytes=round(predicted_gib * GIB),
        low_bytes=round((predicted_gib + low) * GIB),
        high_bytes=round((predicted_gib + high) * GIB),
        measured_bytes=round(measured * GIB),
        verdict=verdict_of(anchor, predicted_gib) if quantity == "kv_available" else None,
        booted=anchor.booted,
        kind=class_of(boot.setup),
    )


# --- whole boots ----------------------------------------------------------------------------------------------------


def _whole(anchor: Anchor, profile_of: Callable[[str], Profile]) -> Record:
    """The peak that nvidia-smi showed, against what the engine reserves plus what stands outside its budget."""
    profile = profile_of(key_of(anchor.model))
    answer = predict(profile, plan_from(anchor, profile))
    outside = [t for t in answer.terms if not t.inside_budget]
    predicted = answer.reserved_bytes + sum(t.bytes for t in outside)
    utilisation = answer.resolved.plan.gpu_memory_utilization or 0.92
    return Record(
        id=anchor.id,
        set=anchor.set,
        model=profile.id,
        engine=_engine(anchor),
        quantity="reserved",
        source=anchor.source,
        thread=anchor.thread,
        predicted_bytes=predicted,
        low_bytes=predicted,
        high_bytes=predicted,
        measured_bytes=round(float(anchor.printed["measured_peak_gib"]) * GIB),
        verdict=answer.verdict,
        booted=anchor.booted,
        kind="peak",
        utilisation_bytes=round(utilisation * answer.resolved.card.vram_bytes),
    )


def plan_from(anchor: Anchor, profile: Profile) -> Plan:
    """The plan of an anchor: its flags under the plan's names. A draft model is the profile's of that method."""
    names = {f.name for f in fields(Plan)}
    given = {k: v for k, v in anchor.flags.items() if k in names and k != "drafter"}
    draft = anchor.flags.get("drafter")
    if draft == "mtp":
        given["drafter"] = "mtp"
    elif draft in DRAFT_METHODS:
        known = next((d for d in profile.drafters if d.method == draft), None)
        given["drafter"] = known.name if known is not None else "ngram"
    elif given.get("num_speculative_tokens") is None:
        given["drafter"] = "none"
    return Plan(engine=_engine(anchor), card=anchor.card, **given)


def _engine(anchor: Anchor) -> str:
    return f"{anchor.engine}@{anchor.version}" if anchor.version else anchor.engine


def _why_skipped(anchor: Anchor) -> str:
    if anchor.engine != "vllm":
        return "its engine states its own pools and compute buffers; nothing is estimated there"
    if not anchor.version:
        return "its version was not printed"
    if not all(anchor.geometry.get(n) for n in ("hidden", "vocab", "layers")):
        return "its model's widths are not known"
    if not anchor.known("max_num_seqs", "max_num_batched_tokens"):
        return "max_num_seqs or max_num_batched_tokens was not printed"
    return "it prints no figure that is estimated"


# --- summaries ------------------------------------------------------------------------------------------------------


def summary(found: Calibration) -> dict[str, Any]:
    """The contract's `summary`: the specification's rows, and all others."""
    peaks, pools = found.of("reserved", "specification"), found.of("kv_available")
    alone = [r for r in pools if r.kind in ON_ONE_CARD]
    return {
        "specification": {
            **_errors(peaks),
            "num_verdicts_right": sum((r.verdict == "FAIL") != r.booted for r in peaks),
            "utilisation_alone_mean_absolute_error_bytes": _mean(
                abs(r.measured_bytes - r.utilisation_bytes) for r in peaks
            ),
        },
        "boots": {**_errors(pools), **coverage(pools)},
        "text_on_one_card": {**_errors(alone), **coverage(alone)},
        "verdicts": verdicts(found.records),
        "terms": {
            q: {**_errors(found.of(q)), **coverage(found.of(q))} for q in ("activation", "runtime", "cuda_graphs")
        },
    }


def coverage(records: Sequence[Record]) -> dict[str, Any]:
    """How often the 90 % interval held, and its median half-width."""
    if not records:
        return {"coverage_90": None, "median_half_width_bytes": None}
    return {
        "coverage_90": mean(r.covered for r in records),
        "median_half_width_bytes": round(median((r.high_bytes - r.low_bytes) / 2 for r in records)),
    }


def within(records: Sequence[Record], gib: float) -> int:
    """How many lie within `gib` of what was measured."""
    return sum(abs(r.residual_bytes) <= gib * GIB for r in records)


def _errors(records: Sequence[Record]) -> dict[str, Any]:
    misses = [abs(r.residual_bytes) for r in records]
    return {
        "num_anchors": len(records),
        "mean_absolute_error_bytes": _mean(misses),
        "max_absolute_error_bytes": max(misses) if misses else None,
    }


def _mean(values: Iterable[int]) -> int | None:
    found = list(values)
    return round(mean(found)) if found else None
