"""SGLang's automatic static fraction and captured sizes, against values that its own code printed (0.5.23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.engines.sglang.defaults import (
    Load,
    decode_graph_sizes,
    prefill_graph_sizes,
    static_fraction,
    tier,
    vision_factor,
)
from calc.engines.sglang.versions import NEWEST, RULES, parse, rules_for
from onboard.errors import UnknownEngine

CARDS = {
    "t4": 15360,
    "24gb": 24564,
    "5090": 32607,
    "l40s": 46068,
    "a100": 81920,
    "h100": 81559,
    "h200": 143771,
    "b200": 183359,
}
# card -> chunk, decode max_bs (below TP 4, from TP 4), fractions at TP 1, 2, 4, 8, DeepSeek-V3 at TP 8, 7B VLM at TP 1
PRINTED = {
    "t4": (2048, (8, 8), (0.735, 0.727, 0.710, 0.677), None, 0.679),
    "24gb": (4096, (48, 160), (0.704, 0.698, 0.679, 0.658), 0.612, 0.646),
    "5090": (4096, (48, 160), (0.777, 0.773, 0.758, 0.742), 0.708, 0.707),
    "l40s": (4096, (32, 160), (0.843, 0.840, 0.829, 0.818), 0.793, 0.763),
    "a100": (8192, (256, 512), (0.830, 0.829, 0.819, 0.813), 0.800, 0.750),
    "h100": (8192, (256, 512), (0.830, 0.828, 0.819, 0.812), 0.799, 0.749),
    "h200": (8192, (256, 512), (0.903, 0.902, 0.897, 0.893), 0.886, 0.813),
    "b200": (16384, (512, 512), (0.854, 0.853, 0.852, 0.849), 0.844, 0.768),
}
VLM_7B = (24, 1280)  # Qwen2.5-VL names no num_hidden_layers, so 24 is taken


def load(card: str, tp: int, **changes: object) -> Load:
    chunk, max_bs = tier(NEWEST, CARDS[card], tp)
    known: dict[str, object] = {
        "card_mib": CARDS[card],
        "tp": tp,
        "pp": 1,
        "chunk": chunk,
        "decode_max_bs": max_bs,
        "num_prefill_graphs": len(prefill_graph_sizes(chunk)),
    }
    return Load(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("card", PRINTED)
def test_tiers_are_the_printed_ones(card: str) -> None:
    chunk, (small, large), *_ = PRINTED[card]
    assert tier(NEWEST, CARDS[card], 1) == tier(NEWEST, CARDS[card], 2) == (chunk, small)
    assert tier(NEWEST, CARDS[card], 4) == tier(NEWEST, CARDS[card], 8) == (chunk, large)


@pytest.mark.parametrize("card", PRINTED)
def test_fractions_are_the_printed_ones(card: str) -> None:
    _, _, dense, latent, vlm = PRINTED[card]
    assert [static_fraction(NEWEST, load(card, tp)) for tp in (1, 2, 4, 8)] == list(dense)
    if latent is not None:
        assert static_fraction(NEWEST, load(card, 8, latent=True)) == latent
    assert round(static_fraction(NEWEST, load(card, 1, prefill_graph=False, vision=VLM_7B)), 3) == vlm


def test_single_knobs_on_an_h100() -> None:
    assert static_fraction(NEWEST, load("h100", 8, latent=True, dp_attention=8)) == 0.573
    assert static_fraction(NEWEST, load("h100", 1, decode_max_bs=16)) == 0.835
    small = load("h100", 1, chunk=2048, num_prefill_graphs=len(prefill_graph_sizes(2048)))
    assert static_fraction(NEWEST, small) == 0.874
    assert static_fraction(NEWEST, load("h100", 1, decode_graph=False, prefill_graph=False)) == 0.841


@pytest.mark.parametrize(("tower", "factor"), [((24, 1280), 0.8966), ((27, 1152), 0.9097), ((24, 1152), 0.9248)])
def test_vision_factors_are_the_printed_ones(tower: tuple[int, int], factor: float) -> None:
    assert round(vision_factor(*tower), 4) == factor


@given(st.integers(1, 200), st.integers(1, 20_000))
def test_a_tower_takes_between_a_quarter_and_nothing(layers: int, hidden: int) -> None:
    assert 0.76 - 1e-9 <= vision_factor(layers, hidden) <= 0.9975


def test_captured_sizes_are_the_printed_counts() -> None:
    assert [len(decode_graph_sizes(n, speculative=False)) for n in (256, 512, 48)] == [36, 52, 10]
    assert len(prefill_graph_sizes(8192)) == 58
    assert len(prefill_graph_sizes(512)) == 30


@given(st.integers(1, 4096), st.booleans())
def test_decode_sizes_rise_to_the_largest_batch(max_bs: int, speculative: bool) -> None:
    sizes = decode_graph_sizes(max_bs, speculative=speculative)
    assert sizes == sorted(set(sizes)) and sizes[-1] == max_bs


@given(st.sampled_from(sorted(CARDS)), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_more_cards_never_raise_the_fraction(card: str, tp: int, latent: bool) -> None:
    assert static_fraction(NEWEST, load(card, 2 * tp, latent=latent)) <= static_fraction(
        NEWEST, load(card, tp, latent=latent)
    )


def test_older_builds_keep_a_fixed_reserve() -> None:
    """(81559 - (9.5 + 0.5) x 1024) / 81559, and 4 GiB more with DP attention."""
    old = rules_for((0, 4, 9))
    assert static_fraction(old, load("h100", 1)) == round((81559 - 10 * 1024) / 81559, 3)
    assert static_fraction(old, load("h100", 8, dp_attention=8)) == round((81559 - 13.5 * 1024 - 4096) / 81559, 3)
    assert static_fraction(old, load("h100", 1, vision=VLM_7B)) == round((81559 - 10 * 1024) / 81559, 3) * 0.9


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (None, (0, 5, 23)),
        ("0.5", (0, 5, 23)),
        ("0.4", (0, 4, 9)),
        ("v0.5.9", (0, 5, 9)),
        ("0.5.15.post1", (0, 5, 15)),
        ("0.5.2rc1", (0, 5, 2)),
    ],
)
def test_versions_are_read(text: str | None, version: tuple[int, ...]) -> None:
    assert parse(text) == version


@pytest.mark.parametrize("text", ["", "5", "0.x.1", "0.3.9", "0.4.8", "999999999999.0.0", "..", "-1.2.3"])
def test_versions_without_rules_are_refused(text: str) -> None:
    with pytest.raises(UnknownEngine):
        parse(text)


def test_a_version_uses_the_newest_rules_that_are_not_newer() -> None:
    assert [rules_for(v).first for v in ((0, 5, 1), (0, 5, 2), (0, 5, 8), (0, 5, 14), (0, 5, 22), (0, 6, 0))] == [
        (0, 4, 9),
        (0, 5, 2),
        (0, 5, 2),
        (0, 5, 9),
        (0, 5, 15),
        (0, 5, 23),
    ]
    assert [r.first for r in RULES] == sorted(r.first for r in RULES)
