"""`calc calibration`: every anchor predicted, measured, residual; what the estimates are worth; the self-test."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("calibration")
@click.argument("ids", nargs=-1)
@click.option("--fit", "fit_again", is_flag=True, help="Learn again from the anchors and write calibration/fit.json.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write the plots to FILE as SVG.")
@click.option("--write-docs", type=click.Path(dir_okay=False, path_type=Path), help="Write docs/accuracy.md to FILE.")
@click.option("--json", "as_json", is_flag=True, help="The contract's JSON on standard output.")
@click.option("--catalog", type=click.Path(file_okay=False), help="The user's catalogue, laid over the shipped one.")
def command(
    ids: tuple[str, ...],
    fit_again: bool,
    plot: Path | None,
    write_docs: Path | None,
    as_json: bool,
    catalog: str | None,
) -> int:
    """Set every anchor beside its prediction, made without the anchor's own thread.

    IDS keep to these models or anchors. Exit code 1 where a boot that started is predicted to FAIL.
    """
    from calc.calibration import calibrate, refit, selected, summary
    from onboard.anchor_file import load_anchors
    from onboard.open import load_profile

    anchors = load_anchors(catalog)
    whole = calibrate(anchors, lambda model: load_profile(model, catalog=catalog))
    if fit_again:
        _write_fit(refit(anchors, [r for r in whole.records if r.quantity == "reserved"]), catalog)
        whole = calibrate(anchors, lambda model: load_profile(model, catalog=catalog))
    found = selected(whole, ids)
    if plot is not None:
        from calc.calibration_plot import draw
        from onboard.yamlio import write_atomic

        write_atomic(plot, draw(found))
    if write_docs is not None:
        from calc.calibration_docs import page
        from onboard.yamlio import write_atomic

        write_atomic(write_docs, page(whole, anchors))
    if as_json:
        click.echo(json.dumps({"anchors": [r.to_json() for r in found.records], "summary": summary(found)}, indent=1))
    else:
        from calc.calibration_report import show

        show(found, anchors)
    return 1 if any((r.verdict == "FAIL") == r.booted for r in found.records if r.verdict) else 0


def _write_fit(fit: object, catalog: str | None) -> None:
    """Into the user's catalogue where there is one, else beside the shipped anchors."""
    from calc.estimates.fit import Fit, fit_path, fit_text, load_fit
    from onboard.yamlio import write_atomic

    assert isinstance(fit, Fit)
    path = fit_path(catalog)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, fit_text(fit))
    load_fit.cache_clear()
