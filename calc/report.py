"""Predictions, solutions and tables -> text. Tables are drawn by rich on a terminal, plain columns when piped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from calc.arithmetic import line_of
from calc.prediction import Note, Prediction, Term
from calc.units import gb, gib
from onboard.text_table import print_table as print_table

if TYPE_CHECKING:
    from calc.breakdown import Bucket
    from calc.plan import Plan
    from calc.table import VariantRow
    from onboard.profile import Profile

WIDTH = 100
LABELS = {
    "weights": "weights", "kv_growing": "KV, growing", "kv_window": "KV, windows", "state": "recurrent state",
    "kv_padding": "KV, rounding and padding", "null_block": "null block", "activation": "activation peak",
    "cuda_graphs": "CUDA graphs", "runtime": "runtime and workspace", "drafter": "drafter weights",
    "adapters": "LoRA adapters", "encoder": "encoder run", "context": "CUDA context", "prefill": "prefill scratch",
    "slots": "other slots", "pool_page": "padding page", "request_table": "request table",
}  # fmt: skip


def print_prediction(prediction: Prediction, *, explain: bool = False) -> None:
    """The whole answer: what was assumed, every term, the totals, the pool, the verdict and what to do next."""
    click.echo(assumed(prediction))
    click.echo()
    rows = [_term_row(prediction, t.name, explain) for t in prediction.terms if t.bytes or t.low != t.high]
    header = ["per card", "size", "origin"] + (["rule"] if explain else [])
    print_table(header, rows, right=(1,))
    click.echo()
    for line in totals(prediction):
        click.echo(line)
    click.echo()
    click.echo(verdict_line(prediction))
    for reason in prediction.reasons:
        _paragraph(reason.kind, reason.message)
    print_notes(prediction.notes)


def assumed(prediction: Prediction) -> str:
    """One paragraph that names the model, the engine, the card and every figure the answer rests on."""
    resolved, plan = prediction.resolved, prediction.resolved.plan
    cards = f"{plan.gpus or 1} card(s)" if prediction.devices else f"TP {plan.tensor_parallel_size}"
    parts = [
        f"{plan.max_model_len:,} tokens" if plan.max_model_len else "no context stated",
        f"{plan.max_num_seqs} sequence{'s' if plan.max_num_seqs > 1 else ''} at most" if plan.max_num_seqs else "",
        f"KV {resolved.derived.get('kv_cache_dtype', plan.kv_cache_dtype)}",
        cards,
        f"PP {plan.pipeline_parallel_size}" if plan.pipeline_parallel_size > 1 else "",
        f"utilisation {plan.gpu_memory_utilization:g}" if plan.gpu_memory_utilization else "",
        f"{plan.max_num_batched_tokens:,} batched tokens" if plan.max_num_batched_tokens else "",
    ]
    card = resolved.card
    return (
        f"{prediction.model} on {resolved.engine} {resolved.version_text}, {card.name} "
        f"({gib(card.usable_bytes)} usable of {gib(card.vram_bytes)})\n" + ", ".join(p for p in parts if p)
    )


def _term_row(prediction: Prediction, name: str, explain: bool) -> list[str]:
    term = next(t for t in prediction.terms if t.name == name)
    size = gib(term.bytes)
    if term.low != term.high:
        size += f" ({gib(term.low)} to {gib(term.high)})"
    label = LABELS.get(name, name.replace("_", " ")) + ("" if term.inside_budget else ", outside the budget")
    return [label, size, term.origin] + ([rule_line(term)] if explain else [])


def rule_line(term: Term) -> str:
    """The term's arithmetic with its result; one whose inputs are estimated says so."""
    return ("estimate: " if term.low != term.high else "") + line_of(term.rule, term.bytes)


def totals(prediction: Prediction) -> list[str]:
    """The lines under the table: needed, minimum, reserved, budget and pool."""
    pool = prediction.cache.pool
    starts = prediction.verdict != "FAIL"
    outside = f"  ({gib(prediction.outside_bytes)} of it outside the budget)" if prediction.outside_bytes else ""
    lines = [
        f"needed    {gib(prediction.needed_bytes)}{outside}",
        f"minimum   {gib(prediction.minimum_bytes)}  (one request of full length)",
        f"reserved  {gib(prediction.reserved_bytes)}  (what the engine will hold inside its budget once up)",
        f"budget    {gib(prediction.budget_bytes)}  (left inside it: {gib(prediction.headroom_inside_bytes)})",
    ]
    if not starts:
        del lines[2]  # nothing will be held
    if any(r.kind != "memory" for r in prediction.reasons) and not starts:
        return lines  # the engine stops before it sizes a pool
    if pool.num_blocks:
        lines.append(
            f"KV pool   {gib(pool.bytes)}: {pool.num_blocks:,} blocks, {pool.tokens:,} tokens, "
            f"{pool.max_concurrency:.2f}x at full length"
        )
    elif pool.tokens:
        lines.append(f"KV pool   {gib(pool.bytes)}: {pool.tokens:,} tokens")
    for cache in pool.caches:
        size = cache.bytes or cache.k_bytes + cache.v_bytes
        cells = f"{cache.num_cells:,} cells" if cache.num_cells else f"{cache.num_slots:,} slots"
        lines.append(f"  cache {cache.name}: {gib(size)}, {cells}, {cache.num_layers} layers")
    for device in prediction.devices:
        lines.append(
            f"  {device.name}: weights {gib(device.weights_bytes)}, context {gib(device.context_bytes)}, "
            f"compute {gib(device.compute_bytes)}"
        )
    return lines


def verdict_line(prediction: Prediction) -> str:
    """The verdict, what it means, and, where it hangs on the estimate, in how many boots like it that holds."""
    meaning = {
        "PASS": "it starts and holds what was asked",
        "TIGHT": "it starts, but cannot hold every sequence asked for at full length",
        "FAIL": "it would not start",
    }[prediction.verdict]
    longest = prediction.cache.max_model_len_that_fits
    asked = prediction.resolved.plan.max_model_len or 0
    tail = f"; one request of up to {longest:,} tokens fits" if 0 < longest < asked else ""
    doubts = [n.message for n in prediction.notes if n.kind == "confidence"]
    if prediction.verdict != "FAIL" and any(n.kind == "drafter-kv" for n in prediction.notes):
        doubts.append("the drafter's own KV cache left out")
    return f"{prediction.verdict}: {meaning}{tail}" + (f" ({'; '.join(doubts)})" if doubts else "")


def print_notes(notes: Iterable[Note]) -> None:
    """What to do next first, then what to know, then the defaults together; each wrapped, none twice."""
    listed = list(dict.fromkeys(notes))
    for wanted in ("next-step", ""):
        for note in listed:
            if (note.kind == wanted) or (not wanted and note.kind not in ("next-step", "default", "confidence")):
                _paragraph(note.kind, note.message)
    defaults = "; ".join(n.message.replace(" not given: ", " ", 1) for n in listed if n.kind == "default")
    if defaults:
        _paragraph("not given, so by default", defaults)


def _paragraph(kind: str, message: str) -> None:
    """`kind: message`, wrapped with a hanging indent. Option names and paths stay whole."""
    click.echo(
        textwrap.fill(
            f"{kind}: {message}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    )


def print_variants(profile: Profile, plan: Plan, rows: Sequence[VariantRow]) -> None:
    """Every set of weights of a profile side by side."""
    tp = plan.tensor_parallel_size
    click.echo(
        f"{profile.id} on {plan.engine}, {plan.card or f'{plan.vram_gib:g} GiB'}, TP {tp}: every set of weights\n"
    )
    body = [
        [r.weights, r.quantization or "-", gb(r.checkpoint_bytes), gib(r.weights_bytes), r.verdict,
         f"{r.max_model_len_that_fits:,}" if r.max_model_len_that_fits else "-"]
        for r in rows
    ]  # fmt: skip
    header = ["weights", "packed as", "checkpoint", "per card", "verdict", "longest context"]
    print_table(header, body, right=(2, 3, 5))
    for r in rows:
        if r.reason and r.verdict == "FAIL":
            click.echo(f"  {r.weights}: {r.reason}")


def print_breakdown(title: str, found: Sequence[Bucket], scope: str, told: str) -> None:
    """The specification's cache architecture breakdown, in GB (10^9) and GiB; `told` sets it beside the verdict."""
    click.echo("\nCache architecture breakdown")
    click.echo("----------------------------")
    click.echo(f"  Layout:  {title}")
    click.echo(f"  Scope:   {scope}")
    for bucket in found:
        click.echo(f"  {bucket.name}: {gb(bucket.bytes)} ({gib(bucket.bytes)})  [{bucket.rule}]")
    total = sum(b.bytes for b in found)
    click.echo(f"  Cache/state subtotal: {gb(total)} ({gib(total)})")
    click.echo(f"  {told}")
    if any(b.estimate for b in found):
        click.echo("  Figures given by hand are architecture estimates; the verdict does not use them.")
