"""Whether a boot was predicted to start: the memory predicted for the cache against what one request needed.

Needed is what the log prints, or implies: available memory by the concurrency printed beside it. A boot that the
engine refused counts as much as one that started. Where a log leaves out the batch flags, that version's defaults for
that card stand in for them: good enough for a yes or no, never for a residual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from calc.anchors import anchor_card, setup_from
from calc.calibration_models import key_of
from calc.calibration_record import Record
from calc.engines import engine_of
from calc.estimates.fit import Fit
from calc.estimates.reserve import estimate
from calc.estimates.setup import Setup
from calc.units import GIB
from onboard.anchor_file import Anchor
from onboard.values import replace

_BATCH = ("max_num_seqs", "max_num_batched_tokens")


def needed_gib(anchor: Anchor) -> float | None:
    """GiB that one request of max_model_len took of the pool, None where the log does not say."""
    needed, available = anchor.printed.get("needed_gib"), anchor.printed.get("available_gib")
    if needed is not None:
        return float(needed)
    concurrency = float(anchor.printed.get("max_concurrency") or 0)
    return float(available) / concurrency if available is not None and concurrency > 0 else None


def verdict_of(anchor: Anchor, available_gib: float) -> str | None:
    """PASS or FAIL for one request with `available_gib` left for the cache; None where nothing says what it needs."""
    needed = needed_gib(anchor)
    if needed is None:
        return None
    return "FAIL" if available_gib < needed else "PASS"


def with_defaults(anchor: Anchor) -> Anchor:
    """The anchor with the batch flags that its log does not print as that version sets them for that card."""
    card = anchor_card(anchor)
    if anchor.known(*_BATCH) or card is None or not anchor.version or anchor.v0:
        return anchor
    engine, version = engine_of(f"{anchor.engine}@{anchor.version}")
    defaults = getattr(engine, "batch_defaults", None)
    if defaults is None:
        return anchor
    flags = {name: value for name, value in defaults(card, version).items() if not anchor.known(name)}
    how = {name: text for name, text in anchor.how.items() if name not in flags}
    return replace(anchor, flags={**anchor.flags, **flags}, how={**how, **dict.fromkeys(flags, "defaulted")})


def starts(anchors: Sequence[Anchor], judged: Iterable[str], fits: Mapping[str, Fit]) -> Iterable[Record]:
    """Records of `quantity` start, for boots that no other record judges: memory left against memory needed. `fits` are
    learned without the thread that names them; "" is the one from all boots.
    """
    done = set(judged)
    for anchor in anchors:
        needed, total = needed_gib(anchor), _total_gib(anchor)
        weights, share = anchor.printed.get("weights_gib"), anchor.flags.get("gpu_memory_utilization")
        setup = setup_from(with_defaults(anchor)) if anchor.set != "specification" else None
        if anchor.id in done or None in (needed, total, weights, share) or setup is None:
            continue
        fit = fits.get(anchor.thread, fits[""])
        left = float(share or 0) * (total or 0) - float(weights or 0) - _inside(setup, fit, anchor)
        size = round(left * GIB)
        yield Record(
            id=anchor.id, set=anchor.set, model=key_of(anchor.model), engine=f"vllm@{anchor.version}", quantity="start",
            source=anchor.source, thread=anchor.thread, predicted_bytes=size, low_bytes=size, high_bytes=size,
            measured_bytes=round((needed or 0) * GIB), verdict=verdict_of(anchor, left), booted=anchor.booted,
            kind="start",
        )  # fmt: skip


def verdicts(records: Iterable[Record]) -> dict[str, dict[str, int]]:
    """Of boots that started and boots that were refused, how many were judged and how many rightly."""
    right: dict[str, list[bool]] = {"booted": [], "refused": []}
    for r in records:
        if r.verdict:
            right["booted" if r.booted else "refused"].append((r.verdict == "FAIL") != r.booted)
    return {name: {"num_anchors": len(found), "num_verdicts_right": sum(found)} for name, found in right.items()}


def _inside(setup: Setup, fit: Fit, anchor: Anchor) -> float:
    return estimate(setup, fit, key_of(anchor.model)).inside / GIB


def _total_gib(anchor: Anchor) -> float | None:
    """What the driver hands out: as printed, else the card's; a nominal figure counts too much."""
    card, printed = anchor_card(anchor), anchor.printed.get("total_gib")
    if printed is not None and anchor.how.get("total_gib") != "nominal":
        return float(printed)
    return card.usable_bytes / GIB if card is not None else None
