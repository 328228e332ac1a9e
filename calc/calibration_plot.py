"""Calibration -> SVG, by hand: predicted against measured, and residuals by term with their 90 % bands."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil

from calc.calibration_record import Calibration, Record
from calc.units import GIB

SIZE, PAD = 460, 56
FONT = 'font-family="sans-serif" font-size="12"'
COLOURS = {
    "reserved": "#7b3294",
    "kv_available": "#2c7bb6",
    "activation": "#d7191c",
    "runtime": "#1a9641",
    "cuda_graphs": "#e08214",
}


def draw(found: Calibration) -> str:
    """The whole SVG: two panels and a legend. Each point says its anchor when pointed at."""
    shown = [r for r in found.records if r.quantity in COLOURS]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * SIZE + 60}" height="{SIZE + 60}" {FONT}>',
        '<rect width="100%" height="100%" fill="white"/>',
        *_scatter([r for r in shown if r.quantity != "kv_available"]),
        *_strips(shown),
        *_legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _scatter(records: Sequence[Record]) -> list[str]:
    top = max((max(r.predicted_bytes, r.measured_bytes) / GIB for r in records), default=1.0)
    top = float(ceil(top))
    inner = SIZE - 2 * PAD

    def x(gib: float) -> float:
        return PAD + inner * gib / top

    def y(gib: float) -> float:
        return SIZE - PAD - inner * gib / top

    lines = [
        f'<text x="{SIZE / 2}" y="24" text-anchor="middle">measured against predicted, GiB per card</text>',
        _frame(0),
    ]
    lines.append(f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(top)}" y2="{y(top)}" stroke="#999"/>')
    for i in range(5):
        value = top * i / 4
        lines.append(f'<text x="{x(value):.1f}" y="{SIZE - PAD + 18}" text-anchor="middle">{value:g}</text>')
        lines.append(f'<text x="{PAD - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for r in records:
        lines.append(_dot(x(r.predicted_bytes / GIB), y(max(0.0, r.measured_bytes / GIB)), r))
    return lines


def _strips(records: Sequence[Record]) -> list[str]:
    left, inner, most = SIZE + 40, SIZE - 2 * PAD, 2.0
    names = [q for q in COLOURS if any(r.quantity == q for r in records)]

    def y(gib: float) -> float:
        return SIZE / 2 - (inner / 2) * max(-most, min(most, gib)) / most

    title = "measured minus predicted by term, GiB (beyond 2 at the edge)"
    lines = [f'<text x="{left + SIZE / 2}" y="24" text-anchor="middle">{title}</text>', _frame(left)]
    for value in (-2, -1, 0, 1, 2):
        lines.append(f'<text x="{left + PAD - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
        lines.append(
            f'<line x1="{left + PAD}" x2="{left + SIZE - PAD}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
        )
    for column, name in enumerate(names):
        rows = sorted((r for r in records if r.quantity == name), key=lambda r: r.id)
        start = left + PAD + inner * column / len(names)
        width = inner / len(names)
        for i, r in enumerate(rows):
            lines.append(_dot(start + width * (0.15 + 0.7 * (i + 0.5) / len(rows)), y(r.residual_bytes / GIB), r))
        lines.append(
            f'<text x="{start + width / 2:.1f}" y="{SIZE - PAD + 18}" text-anchor="middle">{escape(name)}</text>'
        )
    return lines


def _frame(left: float) -> str:
    side = SIZE - 2 * PAD
    return f'<rect x="{left + PAD}" y="{PAD}" width="{side}" height="{side}" fill="none" stroke="#444"/>'


def _dot(x: float, y: float, r: Record) -> str:
    """A point, hollow where the band missed, that names its anchor when pointed at."""
    colour = COLOURS[r.quantity]
    paint = f'fill="{colour if r.covered else "none"}" stroke="{colour}" fill-opacity="0.6"'
    sizes = f"predicted {r.predicted_bytes / GIB:.2f}, measured {r.measured_bytes / GIB:.2f} GiB"
    words = escape(f"{r.id} {r.model} {r.quantity}: {sizes}")
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {paint}><title>{words}</title></circle>'


def _legend() -> list[str]:
    lines, x = [], PAD
    for name, colour in COLOURS.items():
        lines.append(
            f'<circle cx="{x}" cy="{SIZE + 20}" r="5" fill="{colour}"/><text x="{x + 10}" y="{SIZE + 24}">{name}</text>'
        )
        x += 120
    lines.append(f'<text x="{x}" y="{SIZE + 24}">hollow: outside its 90 % band</text>')
    return lines
