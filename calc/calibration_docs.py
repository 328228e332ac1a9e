"""Calibration -> docs/accuracy.md: what the figures are worth, where errors come from, the specification's table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from calc.calibration import coverage, summary, within
from calc.calibration_record import Calibration, Record
from calc.calibration_report import accuracy_table, status_table, verdict_table
from calc.calibration_verdicts import verdicts
from calc.units import GIB
from onboard.anchor_file import Anchor

# The specification's own "sources of error" table, as its page prints it, and what answers each line here: a source
# of `_source_of`, else words.
THEIRS = (
    ("Activation coefficient empirical fit", "±0.5 GB", "activation peak, text models"),
    ("Cudagraph capture variance", "±0.3 GB", "CUDA graphs"),
    ("FlashInfer workspace per card", "±0.1 GB", "394 MiB by the engine's own constant, where that backend is chosen"),
    ("Driver/allocator overhead (cross-rig)", "±0.5 GB", "what stands outside the budget (nvidia-smi peaks)"),
    ("PagedAttention fragmentation", "<4% of KV pool", "exact: whole blocks are counted"),
    ("K=V tying detection (if missed)", "2x KV pool", "exact: read from the config, checked against printed tokens"),
    ("Wrong growing-layer count", "3-6x KV pool", "exact: read from the config, checked against printed tokens"),
)

HEAD = """# How far off the estimates are

Written by `calc calibration --write-docs docs/accuracy.md` from the anchors in `calibration/`, not by hand. Weights,
cache layout and pool follow exact rules and are not here; what is estimated is the rest. Sizes are GiB (2^30) per card.
Every figure below is a prediction made without the boot's whole thread of origin.
"""

CHOSEN = """Three kinds of constants, and no other:

- read from an engine's source, and never fitted: FlashInfer's workspace of 394 MiB, the chunk states of a Gated
  DeltaNet prefill, the MoE workspaces' shape, how many bytes of hidden state and MLP a forward pass holds, which
  releases take the graphs' estimate from the budget;
- learned from boots, drawn toward what a source says (`calibration/fit.json` holds the values, `calc/estimates/fit.py`
  the priors): bytes a logit, the factor on MoE workspaces, non-torch memory by release, link and cards, one factor a
  class of releases on the graphs;
- taken from lines of logs that show free memory before anything was loaded: the CUDA context (0.33 GiB on workstation
  cards, 0.5 on data-centre cards) and what a second card adds (0.4 GiB).

The specification's 17 rows taught none of them: `--fit` leaves them out, and a test proves that the constants do not
change with them. Encoders' shares by family are medians of the few boots there are, with bands as wide as those boots.
"""

CLASSES = """`kv_available` is utilisation x memory - weights - everything estimated, against what the engine
printed; the suffix is the class of boot, by which intervals are learned (`calc/estimates/classes.py`).
"""


def _source_of(r: Record) -> str:
    """The source of error that a record's residual measures."""
    if r.quantity == "activation":
        return "activation peak, " + ("multimodal models" if r.kind == "multimodal" else "text models")
    if r.quantity == "runtime":
        return "non-torch memory, " + ("several cards" if r.kind == "parallel" else "one card")
    return {"cuda_graphs": "CUDA graphs", "reserved": "what stands outside the budget (nvidia-smi peaks)"}.get(
        r.quantity, ""
    )


def page(found: Calibration, anchors: Sequence[Anchor]) -> str:
    """The whole page. Figures come from `found`; nothing is typed in."""
    sections: list[tuple[str, list[str]]] = [
        ("Sources of error, largest first", [*_markdown(*_ranked(found)), "", *_limits()]),
        ("What was chosen how", CHOSEN.splitlines()),
        (
            "The specification's table",
            _markdown(["its source of error", "its typical magnitude", "here, GiB"], _beside(found)),
        ),
        ("The specification's 17 boots", _specification(found)),
        ("By quantity and class of boot", [*_markdown(*accuracy_table(found)), "", *CLASSES.splitlines()]),
        ("Did it start?", _verdicts(found)),
        ("Residuals, boot by boot", _residuals(found)),
        ("Models", _markdown(*status_table(found, anchors))),
    ]
    lines = [HEAD, *_markdown(*first_screen(found)), "", *_started(found), ""]
    for title, body in sections:
        lines += [f"## {title}", "", *body, ""]
    return "\n".join(lines)


TERMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("activation peak, text models", "activation", ("dense", "moe", "graphs", "parallel")),
    ("activation peak, multimodal models", "activation", ("multimodal",)),
    ("non-torch memory, one card", "runtime", ("dense", "moe", "graphs", "multimodal")),
    ("non-torch memory, several cards", "runtime", ("parallel",)),
    ("CUDA graphs, discrete cards", "cuda_graphs", ("dense", "moe", "graphs", "multimodal", "parallel")),
    ("all of it: memory left for the cache, text on one card", "kv_available", ("dense", "moe", "graphs")),
    ("memory left for the cache, several cards", "kv_available", ("parallel",)),
    ("memory left for the cache, multimodal", "kv_available", ("multimodal",)),
    ("memory left for the cache, sparse attention or a drafter", "kv_available", ("uncovered",)),
    ("peak that nvidia-smi shows", "reserved", ("peak",)),
)


def first_screen(found: Calibration) -> tuple[list[str], list[list[str]]]:
    """A line a term: how far off, how wide the 90 % band is each way, and how often it held."""
    rows = []
    for name, quantity, kinds in TERMS:
        records = [r for r in found.records if r.quantity == quantity and r.kind in kinds]
        if not records:
            continue
        misses = [abs(r.residual_bytes) / GIB for r in records]
        told = coverage(records)
        rows.append(
            [name, f"{mean(misses):.2f}", f"{max(misses):.2f}", f"{told['median_half_width_bytes'] / GIB:.2f}",
             f"{100 * told['coverage_90']:.0f} %", str(len(records))]
        )  # fmt: skip
    return ["estimated", "mean error", "worst", "90 % band, each way", "it held", "boots"], rows


def _started(found: Calibration) -> list[str]:
    told = verdicts(found.records)
    started, refused = told["booted"], told["refused"]
    return [
        f"Of {started['num_anchors']} boots that started, {started['num_verdicts_right']} were predicted to start;",
        f"of {refused['num_anchors']} that the engine refused, {refused['num_verdicts_right']} were predicted to be.",
    ]


def _verdicts(found: Calibration) -> list[str]:
    """The verdict table, and the boots that were refused."""
    table = verdict_table(found)
    if table is None:
        return []
    refused = [r for r in found.records if r.verdict and not r.booted]
    rows = [
        [r.id, r.model, r.engine, f"{r.predicted_bytes / GIB:.2f}", r.verdict or ""]
        for r in sorted(refused, key=lambda r: r.id)
    ]
    return [
        *_markdown(*table),
        "",
        "Refused boots with flags enough for a prediction; what was left for the cache did not hold one request:",
        "",
        *_markdown(["boot", "model", "engine", "left, predicted", "verdict"], rows),
    ]


def _residuals(found: Calibration) -> list[str]:
    """Every boot's memory left for the cache, and the peaks of others than the specification's."""
    shown = [
        r for r in found.records if r.quantity == "kv_available" or (r.quantity == "reserved" and r.set == "boots")
    ]
    rows = [
        [r.id, r.model, r.engine, r.kind, f"{r.predicted_bytes / GIB:.2f}", f"{r.measured_bytes / GIB:.2f}",
         f"{r.residual_bytes / GIB:+.2f}", "yes" if r.covered else "NO"]
        for r in sorted(shown, key=lambda r: (r.quantity, r.kind, r.model, r.id))
    ]  # fmt: skip
    head = ["boot", "model", "engine", "class", "predicted", "measured", "residual", "within its band"]
    lead = (
        "Memory left for the cache (class `peak`: what nvidia-smi showed). `calc calibration` prints every other term."
    )
    return [lead, "", *_markdown(head, rows)]


def _by_source(found: Calibration) -> dict[str, list[float]]:
    """Absolute residuals in GiB by source of error."""
    misses: dict[str, list[float]] = {}
    for r in found.records:
        if source := _source_of(r):
            misses.setdefault(source, []).append(abs(r.residual_bytes) / GIB)
    return misses


def _ranked(found: Calibration) -> tuple[list[str], list[list[str]]]:
    """Sources of error by their mean, the largest first."""
    rows = sorted(_by_source(found).items(), key=lambda item: -mean(item[1]))
    return ["source", "anchors", "mean error", "worst"], [
        [name, str(len(m)), f"{mean(m):.3f}", f"{max(m):.2f}"] for name, m in rows
    ]


def _beside(found: Calibration) -> list[list[str]]:
    """The specification's table, each line with what was measured here."""
    misses = _by_source(found)
    told = {name: f"{name}: mean {mean(m):.3f}, worst {max(m):.2f}" for name, m in misses.items()}
    return [[source, magnitude, told.get(answer, answer)] for source, magnitude, answer in THEIRS]


def _limits() -> list[str]:
    from calc.estimates.classes import NOT_MODELLED

    return ["Not modelled, and said so with a wide band:", "", *(f"- {text}" for text in NOT_MODELLED.values())]


def _specification(found: Calibration) -> list[str]:
    rows = [r for r in found.records if r.set == "specification"]
    if not rows:
        return ["Their models are not in this catalogue."]
    told = summary(found)["specification"]
    alone = told["utilisation_alone_mean_absolute_error_bytes"] / GIB
    in_mib = [abs(_as_mib(r.measured_bytes) - r.predicted_bytes) / GIB for r in rows]
    plain = [abs(_as_mib(r.measured_bytes) - r.utilisation_bytes) / GIB for r in rows]
    lines = [
        f"All {len(rows)} booted; {told['num_verdicts_right']} verdicts are right. Mean error of what is reserved plus",
        f"what stands outside the budget: {told['mean_absolute_error_bytes'] / GIB:.2f} GiB, worst",
        f"{told['max_absolute_error_bytes'] / GIB:.2f}; utilisation x memory alone gives",
        f"{alone:.2f}, and the page's own tool 2.42 (worst 8.42).",
        f"Within 0.5 / 1.0 / 1.5 GiB: {within(rows, 0.5)} / {within(rows, 1.0)} / {within(rows, 1.5)} of {len(rows)}.",
        "",
        "The figures are read as GiB, as the evidence file's note does; their source says GB. Two of its headers print",
        "the same peaks as 23,494 and 21,960 MiB where the table has 23.5 and 22.0, and a third prints 24.1 GB on a",
        "card of 24,576 MiB: they are MiB / 1000. Read so, the mean error is",
        f"{mean(in_mib):.2f} GiB, worst {max(in_mib):.2f}, and utilisation x memory alone gives {mean(plain):.2f}:",
        "what an engine may take is seldom touched in full. Flags the page leaves out are those of the compose file",
        "that each row names; weights are the page's own figures.",
        "",
    ]
    table = [_row(r) for r in sorted(rows, key=lambda r: r.id)]
    return lines + _markdown(
        [
            "row",
            "model",
            "engine",
            "predicted",
            "measured",
            "residual",
            "measured as MiB / 1000",
            "residual",
            "verdict",
        ],
        table,
    )


def _row(r: Record) -> list[str]:
    sizes = [f"{r.predicted_bytes / GIB:.2f}", f"{r.measured_bytes / GIB:.2f}", f"{r.residual_bytes / GIB:+.2f}"]
    mib = _as_mib(r.measured_bytes)
    return [
        r.id,
        r.model,
        r.engine,
        *sizes,
        f"{mib / GIB:.2f}",
        f"{(mib - r.predicted_bytes) / GIB:+.2f}",
        r.verdict or "",
    ]


def _as_mib(measured_bytes: int) -> float:
    """A figure read as GiB, read as MiB / 1000 instead."""
    return measured_bytes * 1000 / 1024


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *rows)]
