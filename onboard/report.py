"""A profile, a diff, a list -> text for people. Every size carries its unit; nothing is computed here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from onboard import ranges
from onboard.console import clean
from onboard.errors import Caution
from onboard.inspection import layer_counts, layer_runs, state_elements
from onboard.layers import plain
from onboard.onboarding import Added, Change
from onboard.overrides import Outcome
from onboard.profile import Profile
from onboard.status import Status
from onboard.text_table import markdown, print_table
from onboard.tp import valid_tp

FIELDS_HEADER = ("path", "generated", "override", "effective", "status", "why")


def print_profile(profile: Profile, status: Status | None = None, *, facts: bool = False) -> None:
    """What there is to say about a model: its layers, what they keep, its weights, and what is not known."""
    click.echo(clean(" ".join(_headline(profile).split())))
    if status is not None:
        click.echo(clean(f"status: {status.name} ({status.because})"))
    click.echo()
    print_table(("kind", "count", "each keeps", "layers"), [_layer_row(run) for run in layer_runs(profile)], right=(1,))
    click.echo()
    for line in _totals(profile):
        click.echo(clean(line))
    _print_weights(profile)
    if facts:
        click.echo()
        rows = [(n, _brief(f.value), f.origin, f.where) for n, f in sorted(profile.facts.items())]
        print_table(("fact", "value", "origin", "where"), rows)
    print_cautions("warnings", profile.warnings)
    print_cautions("not known", profile.unknowns)


def _headline(profile: Profile) -> str:
    revision = f" @ {profile.source.revision[:12]}" if profile.source.revision else ""
    read = f" (read from {profile.source.read_from})" if profile.source.read_from else ""
    return f"{profile.id}: {profile.model_type or 'no model_type'}, {profile.source.name}{revision}{read}"


def _layer_row(run: dict[str, Any]) -> tuple[str, str, str, str]:
    rest = {k: v for k, v in run.items() if k not in ("kind", "indices")}
    if "states" in rest:
        parts = [f"{s['name']} {'x'.join(map(str, s['shape']))} {s['dtype']}" for s in rest["states"]]
        keeps = f"{rest['family']}: " + ", ".join(parts)
    elif "with" in rest:
        keeps = "reads the caches of layers " + ", ".join(map(str, sorted(set(rest["with"]))))
    else:
        keeps = ", ".join(f"{k} {v}" for k, v in rest.items() if v is not False) or "nothing"
    return run["kind"], str(len(run["indices"])), keeps, str(ranges.to_text(run["indices"]))


def _totals(profile: Profile) -> list[str]:
    counts = layer_counts(profile)
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n and kind != "total")
    lines = [f"layers: {counts['total']} ({kinds})"]
    lines.append(f"growing: {plain(profile.growing_elements_per_token):,} elements a token")
    if profile.window_elements:
        lines.append(f"windows: {profile.window_elements:,} elements a sequence")
    state = state_elements(profile)
    if state is None:
        lines.append("state: not known, its sizes are stated nowhere")
    elif state:
        lines.append(f"state: {state:,} elements a sequence")
    if profile.cross_elements_per_encoder_token:
        lines.append(f"cross: {profile.cross_elements_per_encoder_token:,} elements an encoder token")
    length = profile.fact("max_model_len")
    lines.append(f"context: {length:,} tokens" if isinstance(length, int) else "context: not stated")
    experts = profile.fact("num_experts")
    if experts:
        lines.append(f"experts: {experts}, {profile.fact('num_experts_per_token')} a token")
    if profile.mtp_layers:
        lines.append(f"built-in draft head: {len(profile.mtp_layers)} layer(s)")
    lines.append("tensor parallel: " + (", ".join(map(str, valid_tp(profile))) or "none from 1 to 64"))
    return lines


def _print_weights(profile: Profile) -> None:
    click.echo()
    if not profile.weights:
        click.echo("weights: not known; --weights-gb X states them")
        return
    rows = [
        (
            f"{w.name} (default)" if w.name == profile.default_weights else w.name,
            f"{w.num_bytes / 1e9:,.2f} GB",
            w.quantization or "",
            w.origin,
            w.where,
        )
        for w in profile.weights
    ]
    print_table(("weights", "size", "quantization", "origin", "where"), rows, right=(1,))


def print_cautions(title: str, cautions: Sequence[Caution]) -> None:
    """A list under a title; nothing where there is nothing."""
    if cautions:
        click.echo(f"\n{title}:")
        for caution in cautions:
            where = f"{caution.where}: " if caution.where else ""
            click.echo(clean(f"  {caution.kind}: {where}{caution.message}"))


def print_outcomes(outcomes: Sequence[Outcome], form: str) -> None:
    """The diff: every override beside what it replaces, as a table, Markdown or JSON."""
    if form == "json":
        click.echo(json.dumps({"fields": [o.to_json() for o in outcomes]}, indent=1))
        return
    rows = [
        (o.path, _brief(o.generated), _brief(o.override), _brief(o.effective), o.status, _why(o, form))
        for o in outcomes
    ]
    if form == "markdown":
        click.echo(markdown(FIELDS_HEADER, rows))
    elif rows:
        print_table(FIELDS_HEADER, rows)
    else:
        click.echo("no overrides: every value takes effect as it was generated")


def print_extras(profile: Profile) -> None:
    """Drafters and deployments, where there are any."""
    if profile.drafters:
        click.echo()
        rows = [
            (
                d.name,
                d.method,
                "-" if d.num_bytes is None else f"{d.num_bytes / 1e9:,.2f} GB",
                len(d.layers),
                d.source or "",
            )
            for d in profile.drafters
        ]
        print_table(("drafter", "method", "weights", "layers", "source"), rows, right=(2, 3))
    if profile.deployments:
        click.echo()
        named = [
            (d.name, " ".join(f"{k}={v}" for k, v in d.options.items()), d.source or "") for d in profile.deployments
        ]
        print_table(("deployment", "options", "source"), named)


def _why(outcome: Outcome, form: str) -> str:
    if form == "markdown" and outcome.link.startswith(("https://", "http://")):
        return f"{outcome.why} ([link]({outcome.link}))"
    return f"{outcome.why} ({outcome.link})" if outcome.link else outcome.why


def print_added(added: Added, outcomes: Sequence[Outcome]) -> None:
    """What `add` did: the file, what changed in it, what was moved to the override file, the overrides in effect."""
    verb = "wrote" if added.created else "updated" if added.changes or added.moved else "unchanged:"
    click.echo(clean(f"{verb} {added.path}"))
    print_changes(added.changes)
    for entry in added.moved:
        said = f"{entry.path}: {_brief(entry.was)} -> {_brief(entry.to)}"
        click.echo(clean(f"changed by hand, kept as an override in {added.override_path}: {said}"))
    if outcomes:
        click.echo()
        print_outcomes(outcomes, "table")


def print_changes(changes: Sequence[Change]) -> None:
    """Values that differ from what the catalogue holds."""
    if changes:
        print_table(("path", "was", "is"), [(c.path, _brief(c.old), _brief(c.new)) for c in changes])


def _brief(value: Any) -> str:
    """A value in a cell: facts by their value, the rest as short JSON."""
    if value is None:
        return "-"
    if isinstance(value, dict) and set(value) == {"value", "origin", "where"}:
        value = value["value"]
    text = (
        _words(value)
        if isinstance(value, dict)
        else value
        if isinstance(value, str)
        else json.dumps(value, default=str)
    )
    return text if len(text) <= 72 else text[:69] + "..."


def _words(value: dict[str, Any]) -> str:
    """A variant, drafter or deployment as a reader says it: the size in GB first, then what it is."""
    flat = {**value, **(value["options"] if isinstance(value.get("options"), dict) else {})}
    size = flat.get("num_bytes")
    known = [f"{size / 1e9:,.2f} GB"] if isinstance(size, (int, float)) else []
    known += [str(flat[k]) for k in ("quantization", "method") if flat.get(k)]
    left_out = ("num_bytes", "quantization", "method", "options", "error_ppm", "source", "repo")
    rest = (f"{k} {v if isinstance(v, (str, int, float)) else '...'}" for k, v in flat.items() if k not in left_out)
    return ", ".join([*known, *rest])
