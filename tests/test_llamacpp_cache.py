"""Every measured case of llama.cpp: cells, layers, K, V and recurrent bytes, and context bytes of every device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from calc.engines.llamacpp.placement import context_bytes
from calc.engines.llamacpp.refusals import refusals
from onboard.profile import Profile
from tests.llamacpp_cases import Case, answer, cases, device, from_config, from_gguf
from tests.shared import needs_shared

HALF_MIB_DIGIT = 0.005 * 2**20 + 1024  # log lines print hundredths of a MiB, of a float
# The measured refusal is an abort in the draft context's graph, which the engine refuses when a draft is asked for.
DRAFT_ABORTS = {"XiaomiMiMo__MiMo-V2-Flash|mtp"}
# The converter finds no attention layer in this config's keys and wrote 40 recurrent layers; the model has 4 of them.
CONVERTER_MISREADS = {"ibm-granite__granite-4.0-h-micro"}


def differences(case: Case, profile: Profile) -> list[str]:
    """What the engine says otherwise than the log."""
    got = answer(profile, case.params)
    if case.refused or case.name in DRAFT_ABORTS:
        refused = bool(refusals(got.model, got.settings)) or case.name in DRAFT_ABORTS
        return [] if refused else [f"not refused: {case.refused}"]
    found = [f"refused: {r.message}" for r in refusals(got.model, got.settings)]
    logged = case.logged
    if (got.settings.n_ctx, got.settings.n_ctx_seq) != (logged["n_ctx"], logged["n_ctx_seq"]):
        found.append(f"n_ctx {got.settings.n_ctx} ({got.settings.n_ctx_seq})")
    caches = [c for c in got.caches if not c.slots]
    if len(caches) != len(logged["kv_caches"]):
        return [*found, f"{len(caches)} caches"]
    for cache, line in zip(caches, logged["kv_caches"], strict=True):
        if (cache.cells, cache.num_layers, cache.streams) != (line["cells"], line["layers"], line["streams"]):
            found.append(f"{cache.name}: {cache.cells} cells, {cache.num_layers} layers, {cache.streams} streams")
        for side, size, mib in (("K", cache.k_bytes, line["k_mib"]), ("V", cache.v_bytes, line["v_mib"])):
            if abs(size - mib * 2**20) > HALF_MIB_DIGIT:
                found.append(f"{cache.name} {side}: {size}")
    found += _states(got, logged)
    held = context_bytes(got.caches, got.placement, got.settings)
    wanted = {device(name): sizes["context"] for name, sizes in logged["devices"].items()}
    if {d: b for d, b in held.items() if b} != {d: b for d, b in wanted.items() if b}:
        found.append(f"devices {held}")
    return found


def _states(got: Any, logged: Mapping[str, Any]) -> list[str]:
    states = [c for c in got.caches if c.slots and not got.model.compressors]
    if len(states) != len(logged["recurrent"]):
        return [f"{len(states)} recurrent memories"]
    found = []
    for cache, line in zip(states, logged["recurrent"], strict=True):
        if (cache.cells, cache.num_layers) != (line["cells"], line["layers"]):
            found.append(f"state: {cache.cells} cells, {cache.num_layers} layers")
        for size, mib in ((cache.k_bytes, line["r_mib"]), (cache.v_bytes, line["s_mib"])):
            if abs(size - mib * 2**20) > HALF_MIB_DIGIT:
                found.append(f"state: {size}")
    return found


@pytest.mark.parametrize("case", list(cases(small=True)), ids=lambda c: c.name)
def test_a_few_cases_of_every_kind(case: Case) -> None:
    assert differences(case, from_gguf(case.model, small=True)) == []


@needs_shared
@pytest.mark.wide
def test_every_case_from_the_files_metadata() -> None:
    wrong = {c.name: found for c in cases() if (found := differences(c, from_gguf(c.model)))}
    assert wrong == {}


@needs_shared
@pytest.mark.wide
def test_every_case_from_the_config() -> None:
    wrong = {
        c.name: found
        for c in cases()
        if c.model not in CONVERTER_MISREADS and (found := differences(c, from_config(c.model)))
    }
    assert wrong == {}


@needs_shared
def test_the_misread_config_keeps_its_attention_layers() -> None:
    profile = from_config("ibm-granite__granite-4.0-h-micro")
    assert sum(kind == "full" for layer in profile.layers for kind in layer.kinds()) == 4
