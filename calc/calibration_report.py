"""Calibration -> text: the anchors, the accuracy bands, the verdicts, and each model's status."""

from __future__ import annotations

from collections.abc import Sequence

import click

from calc.calibration import coverage, within
from calc.calibration_models import key_of, status
from calc.calibration_record import Calibration, Record
from calc.report import print_table
from calc.units import GIB
from onboard.anchor_file import Anchor

BANDS = (0.5, 1.0, 1.5)
TITLES = {"start": "start: memory left for the cache against what one request needs (`measured`), GiB per card"}


def show(found: Calibration, anchors: Sequence[Anchor]) -> None:
    """Print everything."""
    for quantity in ("reserved", "kv_available", "start", "activation", "runtime", "cuda_graphs"):
        records = [r for r in found.records if r.quantity == quantity]
        if records:
            click.echo(TITLES.get(quantity, f"{quantity}, GiB per card"))
            print_table(*anchor_table(records), right=(3, 4, 5, 6))
            click.echo()
    print_table(*accuracy_table(found), right=(1, 2, 3, 4, 5, 6, 7))
    click.echo()
    if verdicts := verdict_table(found):
        print_table(*verdicts, right=(1, 2))
        click.echo()
    print_table(*status_table(found, anchors), right=(1, 2))
    if found.skipped:
        click.echo(f"\n{len(found.skipped)} anchors are not set beside a prediction: " + _reasons(found))


def anchor_table(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """One line an anchor. `training` rows were left out by thread; the specification's rows are never trained on."""
    header = ["anchor", "model", "engine", "predicted", "90 % band", "measured", "residual", "verdict", "rows"]
    rows = []
    for r in sorted(records, key=lambda r: (r.set, r.model, r.id)):
        verdict = "" if r.verdict is None else r.verdict + ("" if (r.verdict == "FAIL") != r.booted else " (it booted)")
        band = f"{r.low_bytes / GIB:.2f} to {r.high_bytes / GIB:.2f}"
        rows.append(
            [r.id, r.model[:38], r.engine, f"{r.predicted_bytes / GIB:.2f}", band, f"{r.measured_bytes / GIB:.2f}",
             f"{r.residual_bytes / GIB:+.2f}", verdict, "specification" if r.set == "specification" else "held out"]
        )  # fmt: skip
    return header, rows


def accuracy_table(found: Calibration) -> tuple[list[str], list[list[str]]]:
    """Accuracy within 0.5, 1.0 and 1.5 GiB, by quantity and set."""
    header = ["quantity", "anchors", "mean error", "worst", *(f"within {b:g} GiB" for b in BANDS), "90 % band held"]
    rows = []
    for name, records in groups(found):
        misses = [abs(r.residual_bytes) / GIB for r in records]
        rows.append(
            [name, str(len(records)), f"{sum(misses) / len(misses):.3f}", f"{max(misses):.2f}",
             *(f"{within(records, b)}/{len(records)}" for b in BANDS),
             f"{100 * coverage(records)['coverage_90']:.0f} %"]
        )  # fmt: skip
    return header, rows


def groups(found: Calibration) -> list[tuple[str, list[Record]]]:
    """Records by what they measure: the specification's peaks, other peaks, and the parts by class of boot."""
    named: dict[str, list[Record]] = {}
    for r in found.records:
        if r.quantity == "start":  # a yes or no, no residual
            continue
        if r.quantity == "reserved":
            named.setdefault("peak, specification" if r.set == "specification" else "peak, other boots", []).append(r)
        else:
            named.setdefault(r.quantity, []).append(r)
            named.setdefault(f"{r.quantity}, {r.kind}", []).append(r)
    return sorted(named.items())


def verdict_table(found: Calibration) -> tuple[list[str], list[list[str]]] | None:
    """Verdicts against what happened: a verdict is right where FAIL and having booted disagree."""
    judged = [r for r in found.records if r.verdict]
    if not judged:
        return None
    rows = []
    for verdict in ("PASS", "TIGHT", "FAIL"):
        booted = [r.booted for r in judged if r.verdict == verdict]
        rows.append([verdict, str(sum(booted)), str(len(booted) - sum(booted))])
    right = [(r.verdict == "FAIL") != r.booted for r in judged]
    rows.append(
        ["right", *(str(sum(ok for ok, r in zip(right, judged, strict=True) if r.booted == b)) for b in (True, False))]
    )
    return ["verdict", "booted", "refused"], rows


def status_table(found: Calibration, anchors: Sequence[Anchor]) -> tuple[list[str], list[list[str]]]:
    """Every model with anchors: how many, the mean error, and whether four make it calibrated."""
    counts: dict[str, int] = {}
    for anchor in anchors:
        counts[key_of(anchor.model)] = counts.get(key_of(anchor.model), 0) + 1
    shown = {r.model for r in found.records}
    rows = []
    for model, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        misses = [
            abs(r.residual_bytes) / GIB
            for r in found.records
            if r.model == model and r.quantity in ("reserved", "kv_available")
        ]
        if model in shown or count >= 4:
            rows.append([model[:48], str(count), f"{sum(misses) / len(misses):.2f}" if misses else "-", status(count)])
    return ["model", "anchors", "mean error GiB", "status"], rows


def _reasons(found: Calibration) -> str:
    counts: dict[str, int] = {}
    for _, reason in found.skipped:
        counts[reason] = counts.get(reason, 0) + 1
    return "; ".join(f"{n}: {reason}" for reason, n in sorted(counts.items(), key=lambda item: -item[1]))
