"""Weights on each device: by tensor where the list is known, else by layers."""

from __future__ import annotations

from typing import Any

import pytest

from calc.plan import Plan
from calc.predict import predict
from onboard.profile import Profile, TensorGroup, WeightVariant
from tests.llamacpp_cases import from_gguf

QWEN3 = from_gguf("Qwen__Qwen3-8B", small=True)  # 36 layers
LAYER, EXPERTS, TABLE, HEAD = 100 * 2**20, 300 * 2**20, 600 * 2**20, 700 * 2**20


def weighted(*groups: TensorGroup) -> Profile:
    from onboard.values import replace

    total = sum(g.num_bytes * g.copies for g in groups)
    variant = WeightVariant(name="file", num_bytes=total, origin="headers", where="m.gguf", groups=groups)
    return replace(QWEN3, weights=(variant,), default_weights="file")


def group(role: str, size: int, layers: tuple[int, ...] = ()) -> TensorGroup:
    return TensorGroup(role=role, num_bytes=size, num_elements=size, dtype="q8_0", layers=layers)


ALL = tuple(range(36))
MIXED = weighted(
    group("embedding", TABLE), group("lm_head", HEAD), group("attention", LAYER, ALL), group("experts", EXPERTS, ALL)
)
TIED = weighted(group("embedding", TABLE), group("attention", LAYER, ALL))


def devices(profile: Profile, **knobs: Any) -> dict[str, int]:
    knobs = {"max_model_len": 4096, "max_num_seqs": 1, "vram_gib": 80.0, **knobs}
    return {d.name: d.weights_bytes for d in predict(profile, Plan(engine="llamacpp", **knobs)).devices}


@pytest.mark.parametrize(
    ("knobs", "held"),
    [
        ({}, {"gpu0": 36 * (LAYER + EXPERTS) + HEAD, "host": TABLE}),
        ({"cpu_moe": True}, {"gpu0": 36 * LAYER + HEAD, "host": TABLE + 36 * EXPERTS}),
        ({"n_cpu_moe": 8}, {"gpu0": 36 * LAYER + 28 * EXPERTS + HEAD, "host": TABLE + 8 * EXPERTS}),
        ({"n_gpu_layers": 10}, {"gpu0": 9 * (LAYER + EXPERTS) + HEAD, "host": TABLE + 27 * (LAYER + EXPERTS)}),
        ({"n_gpu_layers": 0}, {"gpu0": 0, "host": TABLE + 36 * (LAYER + EXPERTS) + HEAD}),
        ({"gpus": 0}, {"host": TABLE + 36 * (LAYER + EXPERTS) + HEAD}),
        (
            {"gpus": 2},
            {"gpu0": 19 * (LAYER + EXPERTS), "gpu1": 17 * (LAYER + EXPERTS) + HEAD, "host": TABLE},
        ),
        (
            {"gpus": 2, "tensor_split": (3.0, 1.0)},
            {"gpu0": 28 * (LAYER + EXPERTS), "gpu1": 8 * (LAYER + EXPERTS) + HEAD, "host": TABLE},
        ),
    ],
)
def test_every_tensor_lies_somewhere_once(knobs: dict[str, Any], held: dict[str, int]) -> None:
    assert devices(MIXED, **knobs) == held


def test_a_tied_output_is_a_second_copy_on_the_card() -> None:
    assert devices(TIED) == {"gpu0": 36 * LAYER + TABLE, "host": TABLE}
    assert devices(TIED, n_gpu_layers=0) == {"gpu0": 0, "host": 36 * LAYER + TABLE}


def test_a_size_alone_is_shared_out_by_layers() -> None:
    held = devices(QWEN3, gpus=2, weights_gb=37.0)
    assert held == {"gpu0": 19 * 10**9, "gpu1": 18 * 10**9, "host": 0}


def test_towers_are_a_file_of_their_own() -> None:
    with_tower = weighted(group("embedding", TABLE), group("attention", LAYER, ALL), group("vision.attention", HEAD))
    assert devices(with_tower) == devices(TIED)
