"""Every card loads, is sane, and says where its usable memory comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calc.cards import card_names, card_of, load_card
from calc.units import GIB
from onboard.catalog_paths import shipped
from onboard.errors import UnknownCard, UsageError
from onboard.yamlio import load

NAMES = card_names()
PROMISED = (
    "rtx-3090", "rtx-4090", "rtx-5090", "rtx-pro-6000", "a100-40gb", "a100-80gb", "h100-80gb", "h200-141gb",
    "b200-180gb", "l40s", "dgx-spark",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_card_loads_and_is_sane(name: str) -> None:
    card = load_card(name)
    assert name == name.lower() and " " not in name
    assert card.vram_bytes % GIB == 0
    assert 0.7 * card.vram_bytes < card.usable_bytes <= card.vram_bytes
    if card.nvidia_smi_mib is not None:
        assert card.usable_bytes <= card.nvidia_smi_mib * 2**20 <= card.vram_bytes * 1.01
        assert card.usable_bytes > 0.95 * card.nvidia_smi_mib * 2**20, (
            "the driver keeps back more than any measured card"
        )
    assert (card.compute_capability == (0, 0)) == (
        "NVIDIA" not in card.product and "Tesla" not in card.product and card.product != "Orin"
    )
    assert ("shares" in card.note or "share this memory" in card.note) == (card.kind == "unified")


@pytest.mark.parametrize("name", NAMES)
def test_a_card_file_obeys_its_schema(name: str) -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads((shipped("schema") / "card.schema.json").read_text())
    Draft202012Validator(schema).validate(load(shipped("cards") / f"{name}.yaml"))


def test_the_promised_cards_exist() -> None:
    assert set(PROMISED) <= set(NAMES)
    assert len(NAMES) >= 45


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("rtx-3090", 23.58),
        ("h100-80gb", 79.19),
        ("h200-141gb", 139.81),
        ("dgx-spark", 121.69),
        ("t4", 14.74),
        ("b300-288gb", 267.69),
    ],
)
def test_measured_totals_are_what_torch_printed(name: str, gib: float) -> None:
    assert round(load_card(name).usable_bytes / GIB, 2) == gib
    assert load_card(name).usable_source == "measured"


def test_an_unknown_card_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UnknownCard) as caught:
        load_card("rtx3090")
    assert "rtx-3090" in caught.value.hint


@pytest.mark.parametrize("name", ["../cards/rtx-3090", "/etc/passwd", "", "rtx-3090\x00"])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(UnknownCard):
        load_card(name)


def test_vram_alone_is_gib_and_all_usable() -> None:
    card = card_of(None, 24)
    assert card.vram_bytes == card.usable_bytes == 24 * GIB
    assert card.nvidia_smi_mib is None and card.usable_source == "stated"


@pytest.mark.parametrize("gib", [0, -1, float("nan"), float("inf"), 10**6])
def test_a_size_that_no_card_has_is_refused(gib: float) -> None:
    with pytest.raises(UsageError):
        card_of(None, gib)


def test_card_files_name_no_machine() -> None:
    for path in Path(shipped("cards")).glob("*.yaml"):
        assert "/work" not in path.read_text()
