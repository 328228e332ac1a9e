"""`calc table`: contexts x KV formats, what fits at each TP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from calc.plan_options import Tokens, plan_options

if TYPE_CHECKING:
    from calc.plan import Plan
    from onboard.profile import Profile


@click.command("table")
@click.argument("source")
@plan_options
@click.option("--contexts", help="Contexts to try, comma-separated (32k,128k,262144).")
@click.option("--kv-formats", help="KV formats to try, comma-separated.")
@click.option("--tp-sizes", help="TP sizes to try, comma-separated; up to --gpus where that is given.")
@click.option(
    "--all-weights", is_flag=True, help="Every set of weights side by side instead, at one context and format."
)
@click.option("--json", "as_json", is_flag=True, help="The contract's JSON on standard output.")
def command(
    source: str,
    contexts: str | None,
    kv_formats: str | None,
    tp_sizes: str | None,
    all_weights: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """What fits: every context with every KV format, at each TP.

    A cell shows the verdict and how many requests of that length the pool holds. Exit code 1 where nothing fits.
    """
    from calc.commands.request import request
    from calc.engines import engine_of
    from calc.solve import card_counts
    from calc.table import table

    profile, plan = request(source, options)
    if all_weights:
        return _side_by_side(profile, plan, as_json)
    lengths = [Tokens().convert(part, None, None) for part in contexts.split(",")] if contexts else []
    formats = kv_formats.split(",") if kv_formats else []
    sizes = [Tokens().convert(part, None, None) for part in tp_sizes.split(",")] if tp_sizes else []
    if not sizes and options.get("gpus") and not options.get("tensor_parallel_size"):
        sizes = card_counts(profile, plan, options["gpus"])
    rows = table(profile, plan, contexts=lengths, kv_formats=formats, tp_sizes=sizes)
    if as_json:
        click.echo(json.dumps({"rows": [r.to_json() for r in rows]}, indent=1))
    else:
        from calc.report import print_table

        columns = sorted({r.max_model_len for r in rows})
        cells = {(r.tensor_parallel_size, r.kv_cache_dtype, r.max_model_len): r for r in rows}
        cards = "TP" if engine_of(plan.engine)[0].cards_knob == "tensor_parallel_size" else "cards"
        header = [cards, "KV format", *(f"{n:,}" for n in columns)]
        names = dict.fromkeys((r.tensor_parallel_size, r.kv_cache_dtype) for r in rows)
        body = [[str(tp), name, *(_cell(cells[tp, name, n]) for n in columns)] for tp, name in names]
        click.echo(
            f"{profile.id} on {plan.engine}, {plan.card or f'{plan.vram_gib:g} GiB'}: "
            "verdict and requests held at full length\n"
        )
        print_table(header, body)
        for (tp, name), reason in {
            (r.tensor_parallel_size, r.kv_cache_dtype): r.reason for r in rows if r.needed_bytes == 0
        }.items():
            click.echo(f"  {cards} {tp} {name}: {reason}")
    return 0 if any(r.verdict != "FAIL" for r in rows) else 1


def _side_by_side(profile: Profile, plan: Plan, as_json: bool) -> int:
    """Every set of weights under the plan."""
    from calc.table import variants

    rows = variants(profile, plan)
    if as_json:
        click.echo(json.dumps({"rows": [r.to_json() for r in rows]}, indent=1))
    else:
        from calc.report import print_variants

        print_variants(profile, plan, rows)
    return 0 if any(r.verdict != "FAIL" for r in rows) else 1


def _cell(row: Any) -> str:
    if row.needed_bytes == 0:
        return "refused"
    return row.verdict if row.verdict == "FAIL" else f"{row.verdict} {row.max_concurrency:.1f}x"
