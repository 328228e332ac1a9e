"""Compute buffers against llama.cpp's own: dense graphs within 1 %, estimates within their interval."""

from __future__ import annotations

from typing import Any

import pytest

from calc.engines.llamacpp import compute
from calc.engines.llamacpp.compute import compute_buffers
from calc.engines.llamacpp.graph.alloc import Tensor, peaks
from calc.engines.llamacpp.graph.condense import condensed
from calc.engines.llamacpp.graph.recipes import RECIPES
from calc.engines.llamacpp.graph.tensors import Graph
from onboard.profile import Profile
from tests.llamacpp_cases import Case, answer, cases, device, from_config, from_gguf
from tests.shared import needs_shared

# Cases beyond 1 %, and why.
NO_KV_OFFLOAD = "with -nkvo the engine pins attention to the host, which the graph here does not"
JOINT_QKV_ROTATED = "one joint projection with a rotated (quantised) cache: copies are placed otherwise, 2 to 5 % off"
SPLIT_BY_KIND = "cards that hold the last layers only: the first layer's query is placed otherwise"
PER_LAYER = "per-layer embeddings with flash attention off or separate slots: 2 to 4 % too much"
BEYOND: dict[str, str] = {
    "Qwen__Qwen-7B-Chat|p2": JOINT_QKV_ROTATED,
    "Qwen__Qwen3-8B|gpu1 no-kv-offload": NO_KV_OFFLOAD,
    "bigscience__bloom-7b1|p2": JOINT_QKV_ROTATED,
    "bigscience__bloom|p2": JOINT_QKV_ROTATED,
    "google__gemma-4-31B-it|gpu1 ngl10": SPLIT_BY_KIND,
    "google__gemma-4-31B-it|tensors gpu1 ngl10": SPLIT_BY_KIND,
    "google__gemma-4-31B-it|gpu1 no-kv-offload": NO_KV_OFFLOAD,
    "google__gemma-4-E2B-it|p3": PER_LAYER,
    "google__gemma-4-E2B-it|p4": PER_LAYER,
}


def is_rebuilt(case: Case, profile: Profile) -> bool:
    """Whether the graph is built here: a known dense architecture, its main context."""
    name = profile.fact("gguf_architecture")
    return name in RECIPES and not profile.fact("num_experts") and not case.params.get("ctx_type")


def errors(case: Case, profile: Profile) -> dict[str, float]:
    """Relative error of every device's buffer."""
    got = answer(profile, case.params)
    buffers = compute_buffers(profile, got.model, got.settings, got.placement)
    return {
        name: buffers[device(name)].bytes / sizes["compute"] - 1
        for name, sizes in case.logged["devices"].items()
        if sizes["compute"]
    }


def beyond(found: dict[str, float]) -> dict[str, float]:
    return {name: round(error, 4) for name, error in found.items() if abs(error) > 0.01}


@needs_shared
@pytest.mark.wide
def test_dense_buffers_are_within_one_percent() -> None:
    wrong, checked = {}, 0
    for case in cases():
        profile = from_gguf(case.model)
        if case.logged and is_rebuilt(case, profile):
            checked += 1
            if found := beyond(errors(case, profile)):
                wrong[case.name] = found
    assert set(wrong) == set(BEYOND), wrong
    assert checked > 450
    assert len(BEYOND) / checked < 0.02


@needs_shared
@pytest.mark.wide
def test_dense_buffers_from_the_config_are_those_of_the_file() -> None:
    names = {c.model: c for c in cases() if c.name.endswith("|p1") and is_rebuilt(c, from_gguf(c.model))}
    wrong = {n: found for n, c in names.items() if (found := beyond(errors(c, from_config(n))))}
    assert wrong == {}


FEW = [c for c in cases(small=True) if c.logged and is_rebuilt(c, from_gguf(c.model, small=True))]


@pytest.mark.parametrize("case", FEW, ids=lambda c: c.name)
def test_a_few_buffers(case: Case) -> None:
    profile = from_gguf(case.model, small=True)
    found = beyond(errors(case, profile))
    assert not found or case.name in BEYOND


def test_freed_blocks_merge_and_are_taken_again_by_the_best_fit() -> None:
    graph = Graph()
    start = graph.leaf(64)
    first, second = graph.op(1024, start), graph.op(512, start)
    joined = graph.op(256, first, second)
    last = graph.op(1536, joined)  # fits where the two freed ones were
    graph.expand(last)
    for node in (*graph.leafs, *graph.nodes):
        node.device = 0
    assert peaks(graph.nodes, graph.leafs, (0,)) == {0: 64 + 1536 + 256}


def test_an_operation_in_place_takes_no_memory() -> None:
    graph = Graph()
    product = graph.op(4096, graph.leaf(32))
    graph.expand(graph.op(4096, product, inplace=True))
    for node in (*graph.leafs, *graph.nodes):
        node.device = 0
    assert peaks(graph.nodes, graph.leafs, (0,)) == {0: 4096 + 32}


def test_a_copy_is_made_for_what_another_device_computed() -> None:
    from calc.engines.llamacpp.graph.schedule import buffers

    graph = Graph()
    there = Tensor(1000, (graph.leaf(96),), layer=0)
    graph.expand(Tensor(500, (there,), layer=1))
    sizes = buffers(graph, lambda layer: layer - 1, (0, -1), pipeline=False)
    assert sizes[0] == 1024 + 512  # the copy, and the result
    assert sizes[-1] == 96 + 1024


# Architectures whose buffers no formula here describes: the interval is not claimed to hold them.
UNDESCRIBED = frozenset({"t5", "mamba", "deepseek4", "glm-dsa", "deepseek32"})


@needs_shared
@pytest.mark.wide
def test_estimated_buffers_lie_within_their_interval() -> None:
    inside = total = 0
    for case in cases():
        profile = from_gguf(case.model)
        if not case.logged or case.params.get("ctx_type") or is_rebuilt(case, profile):
            continue
        if profile.fact("gguf_architecture") in UNDESCRIBED:
            continue
        got = answer(profile, case.params)
        buffers = compute_buffers(profile, got.model, got.settings, got.placement)
        for name, sizes in case.logged["devices"].items():
            if sizes["compute"]:
                buffer = buffers[device(name)]
                total += 1
                inside += buffer.low <= sizes["compute"] <= buffer.high
    assert total > 800
    assert inside / total > 0.95


@pytest.mark.parametrize("name", ["google__gemma-4-31B-it", "Qwen__Qwen3-8B"])
@pytest.mark.parametrize(
    "params",
    [
        {"n_ctx": 10000, "gpus": 1},
        {"n_ctx": 4096, "gpus": 0, "flash_attn": "off"},
        {"n_ctx": 32768, "gpus": 2, "tensor_split": [3.0, 1.0]},
        {"n_ctx": 8192, "gpus": 1, "n_gpu_layers": 20, "n_seq_max": 3, "type_k": "q8_0", "type_v": "q8_0"},
    ],
    ids=["one", "host", "pipeline", "part"],
)
def test_a_cut_stack_has_the_whole_ones_peaks(name: str, params: dict[str, Any]) -> None:
    profile = from_gguf(name, small=True)
    got = answer(profile, params)
    shape, recipe = compute.shape_of(profile, got.model, got.settings), compute.RECIPES[got.model.name]
    pipeline = params["gpus"] > 1
    whole = compute._peaks_of(shape, recipe, got.placement, pipeline, tuple(range(len(shape.layers))))
    assert compute._peaks(shape, recipe, got.placement, pipeline) == whole
    assert len(condensed(shape.layers, 2)) < len(shape.layers) / 3


def test_only_repetitions_are_cut() -> None:
    assert condensed("abcdefg", 2) == tuple(range(7))
    assert [("aab" * 9)[i] for i in condensed("aab" * 9, 2)] == list("aab" * 3)
    assert len(condensed("a" * 40, 3)) == 4
