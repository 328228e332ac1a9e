"""`calc table`: contexts x KV formats, what fits at each TP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from calc.kv_formats import kv_format
from calc.plan_options import Tokens, plan_options
from calc.units import gib
from onboard.errors import UsageError

if TYPE_CHECKING:
    from calc.plan import Plan
    from calc.table import Row
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

    A cell shows the verdict and how many requests of that length the pool holds (llama.cpp: what is left free). FAIL:
    the memory is short. refused: the engine stops for another reason, named below. Exit code 1 where nothing fits.
    """
    from calc.commands.request import request
    from calc.solve import card_counts
    from calc.table import table

    profile, plan = request(source, options)
    if all_weights:
        return _side_by_side(profile, plan, as_json)
    lengths, sizes = _counts("--contexts", contexts), _counts("--tp-sizes", tp_sizes)
    formats = [_format(name.strip()) for name in kv_formats.split(",")] if kv_formats else []
    if not sizes and options.get("gpus") and not options.get("tensor_parallel_size"):
        sizes = card_counts(profile, plan, options["gpus"])
    rows = table(profile, plan, contexts=lengths, kv_formats=formats, tp_sizes=sizes)
    if as_json:
        click.echo(json.dumps({"rows": [r.to_json() for r in rows]}, indent=1))
    else:
        _print(profile, plan, rows)
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


def _counts(option: str, text: str | None) -> list[int]:
    """Comma-separated counts. Raises UsageError naming the option and the part that is none."""
    try:
        return [Tokens().convert(part, None, None) for part in text.split(",")] if text else []
    except click.BadParameter as error:
        raise UsageError(error.message, path=option, value=text, hint="separate with commas: 32k,128k,262144") from None


def _format(name: str) -> str:
    """A KV format's name, as `calc predict` takes it. Raises UnknownKvFormat."""
    if name != "auto":
        kv_format(name)
    return name


def _print(profile: Profile, plan: Plan, rows: Sequence[Row]) -> None:
    """The grid, then why a row is refused, fails in every column, or is not worth its format."""
    from calc.engines import engine_of
    from calc.report import print_table

    columns = sorted({r.max_model_len for r in rows})
    cells = {(r.tensor_parallel_size, r.kv_cache_dtype, r.max_model_len): r for r in rows}
    cards = "TP" if engine_of(plan.engine)[0].cards_knob == "tensor_parallel_size" else "cards"
    header = [cards, "KV format", *(f"{n:,}" for n in columns)]
    names = dict.fromkeys((r.tensor_parallel_size, r.kv_cache_dtype) for r in rows)
    body = [[str(tp), name, *(_cell(cells[tp, name, n]) for n in columns)] for tp, name in names]
    what = (
        "requests held at full length"
        if all(r.pooled for r in rows if r.verdict != "FAIL")
        else "what is left free on the fullest card"
    )
    click.echo(f"{profile.id} on {plan.engine}, {plan.card or f'{plan.vram_gib:g} GiB'}: verdict and {what}\n")
    print_table(header, body)
    for line in _footnotes(rows, cards):
        click.echo(f"  {line}")


def _footnotes(rows: Sequence[Row], cards: str) -> list[str]:
    """Each reason once, with the rows it holds for; memory's is the shortest context's."""
    found: dict[tuple[str, int], list[str]] = {}
    for tp, name in dict.fromkeys((r.tensor_parallel_size, r.kv_cache_dtype) for r in rows):
        row = [r for r in rows if (r.tensor_parallel_size, r.kv_cache_dtype) == (tp, name)]
        refused = [r for r in row if r.verdict == "FAIL" and r.kind != "memory"]
        if refused or all(r.verdict == "FAIL" for r in row):
            found.setdefault(((refused or row)[0].reason, tp), []).append(name)
    lines = [f"{cards} {tp} {', '.join(names)}: {reason}" for (reason, tp), names in found.items()]
    from calc.table import useless_formats

    useless = useless_formats(rows)
    if useless:
        lines.append(f"{', '.join(useless)}: holds no more than {rows[0].kv_cache_dtype} (its pages get no smaller)")
    return lines


def _cell(row: Row) -> str:
    """PASS 7.9x; FAIL where memory is short, refused where the engine would not start with any memory."""
    if row.verdict == "FAIL":
        return "FAIL" if row.kind == "memory" else "refused"
    return f"{row.verdict} {row.max_concurrency:.1f}x" if row.pooled else f"{row.verdict} {gib(row.headroom_bytes)}"
