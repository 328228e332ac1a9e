"""Boot logs of SGLang: token counts, window splits and printed sizes (two decimals), and the budget they imply.

A log gives no free-memory figure, so a row's budget is taken from its own token count; what is tested is the printed
sizes, the window split, and that one budget explains every ratio and dtype tried on the same weights and fraction.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from calc.cards import load_card
from calc.engines.sglang.budget import BEFORE_WEIGHTS
from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Prediction
from onboard.derive import derive
from onboard.profile import Profile, SourceRef
from tests.shared import SHARED, needs_shared

GIB = 2**30
DATA: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "sglang" / "boots.json").read_text())
ROWS: list[dict[str, Any]] = DATA["rows"]
PLAN = ("engine", "card", "tensor_parallel_size", "kv_cache_dtype", "swa_full_tokens_ratio", "mem_fraction_static")


@cache
def profile(name: str) -> Profile:
    return derive(DATA["configs"][name], model_id=name, source=SourceRef(kind="file", name=name))


def boot(row: dict[str, Any], budget: int) -> Prediction:
    knobs = {name: row[name] for name in PLAN if row[name] is not None}
    return predict(profile(row["model"]), Plan(**knobs, kv_cache_memory_bytes=budget, weights_gb=1.0))


def cell(row: dict[str, Any]) -> float:
    """Bytes of the budget that one token of max_total_num_tokens takes."""
    extra = boot(row, GIB).cache.pool.extra
    return float(extra["cell_bytes"] + (row["swa_full_tokens_ratio"] or 0) * extra["window_cell_bytes"])


def budgets(row: dict[str, Any]) -> tuple[float, float]:
    """The budgets that give this row's token count: from, and up to but not including."""
    tokens = row["pools"]["full"][0]
    page = boot(row, GIB).cache.pool.block_size
    return tokens * cell(row), (tokens + page) * cell(row)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["id"])
def test_printed_tokens_and_sizes(row: dict[str, Any]) -> None:
    low, high = budgets(row)
    caches = {c.name: c for c in boot(row, int((low + high) / 2)).cache.pool.caches}
    for name, (tokens, k_gib, v_gib) in row["pools"].items():
        assert caches[name].num_cells == tokens
        assert round(caches[name].k_bytes / GIB, 2) == k_gib
        assert v_gib is None or round(caches[name].v_bytes / GIB, 2) == v_gib


def ladders() -> list[list[dict[str, Any]]]:
    windowed = [r for r in ROWS if "window" in r["pools"]]
    return [list(rows) for _, rows in groupby(windowed, key=lambda r: (r["model"], r["mem_fraction_static"]))]


@pytest.mark.parametrize("ladder", ladders(), ids=lambda rows: f"{rows[0]['model']} {rows[0]['mem_fraction_static']}")
def test_one_budget_explains_a_ladder(ladder: list[dict[str, Any]]) -> None:
    assert len(ladder) >= 2
    low = max(budgets(row)[0] for row in ladder)
    high = min(budgets(row)[1] for row in ladder)
    assert low < high, "no budget gives all the printed token counts"
    for row in ladder:
        caches = {c.name: c.num_cells for c in boot(row, int((low + high) / 2)).cache.pool.caches}
        assert caches == {name: printed[0] for name, printed in row["pools"].items()}


@pytest.mark.parametrize("row", [r for r in ROWS if r["card"] == "rtx-3090"], ids=lambda r: r["id"])
def test_memory_before_weights_lies_in_the_stated_interval(row: dict[str, Any]) -> None:
    """(pool + load) / fraction is what was free before the weights: 22.8 to 22.9 GiB on two RTX 3090s."""
    low, high = budgets(row)
    free = [(edge / GIB + row["load_gib"]) / row["mem_fraction_static"] for edge in (low, high)]
    least, used, most = BEFORE_WEIGHTS["several"]
    usable = load_card("rtx-3090").usable_bytes / GIB
    assert usable - most < free[0] and free[1] < usable - least
    assert abs(usable - used - sum(free) / 2) < 0.06


@needs_shared
@pytest.mark.wide
def test_every_row_of_the_evidence_is_among_these() -> None:
    from onboard.yamlio import load

    logged = [r["id"] for r in load(SHARED / "evidence" / "boot_logs.yml")["rows"] if r["kind"] == "sglang"]
    assert logged == [r["id"] for r in ROWS]
