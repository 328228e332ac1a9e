"""`calc predict`: bytes per card, term by term, and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from calc.plan_options import plan_options

if TYPE_CHECKING:
    from calc.breakdown import Bucket
from onboard.values import asdict, replace


@click.command("predict")
@click.argument("source")
@plan_options
@click.option("--json", "as_json", is_flag=True, help="The contract's JSON on standard output.")
@click.option("--explain", is_flag=True, help="Each term as a line of arithmetic that can be redone by hand.")
@click.option("--kv-breakdown", is_flag=True, help="Raw cache buckets beside the verdict.")
@click.option(
    "--require", type=click.Choice(["start", "pass"]), default="start", help="What counts as yes for the exit code."
)
def command(source: str, as_json: bool, explain: bool, kv_breakdown: bool, require: str, **options: Any) -> int:
    """Predict what SOURCE takes of each card, and whether it fits.

    SOURCE is a catalogue id, org/name on the Hub, a folder, a config.json or a .gguf file.
    Exit code 0 for PASS and TIGHT (1 for TIGHT under --require pass), 1 for FAIL.
    """
    from calc.commands.request import request
    from calc.engines import engine_of
    from calc.estimates import trust
    from calc.predict import fits, predict
    from calc.prediction import Note
    from calc.unused import format_notes, idle, idle_cards

    profile, plan = request(source, options)
    prediction = predict(profile, plan)
    prediction = replace(prediction, notes=prediction.notes + trust(profile, prediction))
    own_split = engine_of(plan.engine)[0].cards_knob != "tensor_parallel_size"
    idle_notes = idle(plan, breakdown=kv_breakdown) + idle_cards(profile, plan, splits_itself=own_split)
    prediction = replace(prediction, notes=prediction.notes + idle_notes + format_notes(profile, plan, prediction))
    if options.get("compose"):
        deployment = next(d for d in profile.deployments if d.name == options["compose"])
        told = Note("compose", f"{deployment.name}: {deployment.source or 'no source is stated'}")
        prediction = replace(prediction, notes=(*prediction.notes, told))
    if prediction.verdict != "PASS":
        from calc.advice import next_steps

        prediction = replace(prediction, notes=prediction.notes + next_steps(profile, plan, prediction))
    found: tuple[Bucket, ...] = ()
    if kv_breakdown:
        from calc.breakdown import buckets

        found = buckets(profile, prediction, plan)
    if as_json:
        import json

        answer = prediction.to_json()
        if kv_breakdown:
            answer["kv_breakdown"] = [asdict(b) for b in found]
        click.echo(json.dumps(answer, indent=1))
    else:
        from calc.report import print_breakdown, print_prediction

        print_prediction(prediction, explain=explain)
        if kv_breakdown:
            from calc.breakdown import against_verdict, layout, scope

            beside = against_verdict(found, prediction)
            print_breakdown(layout(profile), found, scope(prediction, plan), beside)
    return 0 if fits(prediction, require) else 1
