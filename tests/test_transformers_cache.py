"""Layouts against the caches that tiny random transformers models really kept (../shared/conformance).

transformers 5.24, float32: 4 bytes an element. A saturated window holds w - 1 tokens there. States are compared in
test_states; here each layer's way of growing, and the growing, window and cross totals.
"""

from __future__ import annotations

import json
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pytest

from tests.deriving import growth_kinds, profile_of, saturated_elements
from tests.shared import SHARED, needs_shared

pytestmark = [needs_shared, pytest.mark.wide]
FORMS = ("minimal_config", "config")
ENCODER_TOKENS = 19

# Where a serving engine must keep something else than the library's reference path did, with the reason.
ALONE = "the decoder ran alone there: no encoder, so no cross-attention"
GROWING = {"falcon#new_arch": "K and V are broadcast to all query heads before they are cached there"}
WINDOW = {
    "mimo_v2_flash#hub_sliding_window_size": "the class adds one to sliding_window_size; vLLM does not",
    "mimo_v2_flash#swa_dims": "the class reads no swa_* key; published weights and vLLM follow them",
    "xlnet": "segment memory holds mem_len states, not one less",
    "deepseek_v4#compress_ratios": "plain sliding layers are counted with K and V there; they are one tensor",
}
CROSS = dict.fromkeys(
    (
        "blenderbot", "blenderbot-small", "encoder-decoder", "florence2", "marian", "musicgen", "musicgen_melody",
        "mvp", "pix2struct", "pp_formulanet", "vision-encoder-decoder", "whisper",
    ),
    ALONE,
) | {"mllama": "no image was given there, so its cross-attention layers stored nothing"}  # fmt: skip
LAYERS = {"xlstm": "an int64 offset is listed as a layer of its own there"}


@lru_cache(maxsize=1)
def cases() -> dict[str, dict[str, Any]]:
    path = SHARED / "conformance" / "transformers_cache.json"
    return {c["case"]: c for c in json.loads(path.read_text())} if path.is_file() else {}


def _differences(exceptions: dict[str, str], measure: Any) -> dict[str, tuple[Any, Any]]:
    found = {}
    for name, case in cases().items():
        for form in FORMS:
            derived, kept = measure(profile_of(case[form]), case)
            if derived != kept and name not in exceptions:
                found[f"{name} {form}"] = (derived, kept)
    return found


def test_growing_elements_are_the_measured_ones() -> None:
    assert cases()
    assert not _differences(
        GROWING, lambda p, c: (float(p.growing_elements_per_token), float(Fraction(c["per_token_growing_bytes"]) / 4))
    )


def test_window_elements_are_the_measured_ones() -> None:
    assert not _differences(WINDOW, lambda p, c: (4 * saturated_elements(p), c["fixed_window_bytes_at_saturation"]))


def test_cross_elements_are_the_measured_ones() -> None:
    assert not _differences(
        CROSS,
        lambda p, c: (4 * ENCODER_TOKENS * p.cross_elements_per_encoder_token, c["cross_attention_bytes"]),
    )


def test_every_layer_grows_as_measured() -> None:
    assert not _differences(
        LAYERS,
        lambda p, c: (
            [growth_kinds(layer) for layer in p.layers],
            [{k for k in layer["kind"].split("+") if k in ("growing", "fixed", "recurrent")} for layer in c["layers"]],
        ),
    )


@pytest.mark.parametrize("name", [*GROWING, *WINDOW, *CROSS, *LAYERS])
def test_exceptions_are_of_cases_that_exist(name: str) -> None:
    assert name in cases()
