"""Laws of recurrent states: what a class computes, what it shards, and that a profile file gives it back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.layer_data import spec_from_dict, spec_to_dict
from onboard.states import STATE_CLASSES, GatedDeltaNet, KimiDelta, Mamba1, Mamba2, ShortConv, StateCache, UnknownState
from onboard.values import fields

POWERS = st.sampled_from([1, 2, 4, 8, 16, 32, 64])
DTYPES = st.sampled_from(["model", "float32", "bfloat16"])


@st.composite
def states(draw: st.DrawFn) -> StateCache:
    cls = STATE_CLASSES[draw(st.sampled_from(sorted(set(STATE_CLASSES) - {UnknownState.__name__})))]
    values: dict[str, object] = {}
    for item in fields(cls):
        values[item.name] = draw(DTYPES) if item.type == "str" else draw(POWERS)
    return cls(**values)  # type: ignore[arg-type]


@given(states())
def test_the_state_is_the_sum_of_its_tensors(state: StateCache) -> None:
    assert state.state_elements() == sum(t.elements for t in state.tensors(1))
    assert state.growing_elements() == 0
    assert state.window_elements() == 0


@given(states())
def test_a_profile_file_gives_the_state_back(state: StateCache) -> None:
    assert spec_from_dict(spec_to_dict(state)) == state


@given(states())
def test_json_names_every_tensor_with_its_dtype(state: StateCache) -> None:
    entry = state.to_json("float16")
    assert entry["family"]
    assert [s["name"] for s in entry["states"]] == [t.name for t in state.tensors()]
    assert all(s["dtype"] != "model" for s in entry["states"])


@given(states(), st.sampled_from([2, 4, 8]))
def test_cards_hold_the_whole_state_between_them(state: StateCache, tp: int) -> None:
    """Nothing is lost by sharding; what every card needs is kept by each."""
    if not state.divided() or state.undivided(tp):
        return
    for one, share in zip(state.tensors(1), state.tensors(tp), strict=True):
        assert (one.name, one.dtype, len(one.shape)) == (share.name, share.dtype, len(share.shape))
        assert share.elements * tp >= one.elements


@given(heads=POWERS, dim=POWERS, groups=st.integers(1, 16), state=POWERS, tp=st.sampled_from([1, 2, 4, 8]))
def test_mamba2_groups_are_never_cut(heads: int, dim: int, groups: int, state: int, tp: int) -> None:
    """One group goes whole to every card, several divide or the split is refused."""
    spec = Mamba2(heads, dim, groups, state, 4)
    if spec.undivided(tp):
        assert heads % tp or (groups > 1 and groups % tp)
        return
    channels = spec.tensors(tp)[0].shape[0] * tp
    assert channels == heads * dim + 2 * state * (groups if groups % tp == 0 else tp)


# Shapes and bytes that vLLM 0.33 printed for one sequence and layer (conv as columns x channels there).
PRINTED = [
    (GatedDeltaNet(16, 48, 128, 128, 4, "float32"), 1, [(10240, 3), (48, 128, 128)], 3_207_168),
    (GatedDeltaNet(16, 48, 128, 128, 4, "float32"), 2, [(5120, 3), (24, 128, 128)], 1_603_584),
    (GatedDeltaNet(16, 32, 128, 128, 4), 1, [(8192, 3), (32, 128, 128)], 1_097_728),
    (Mamba2(128, 80, 8, 128, 4, "float32"), 1, [(12288, 3), (128, 80, 128)], 5_316_608),
    (Mamba2(24, 64, 1, 128, 4), 2, [(1024, 3), (12, 64, 128)], 202_752),
    (Mamba2(64, 64, 1, 64, 4), 2, [(2176, 3), (32, 64, 64)], 275_200),
    (Mamba1(8192, 16, 4), 2, [(4096, 3), (4096, 16)], 155_648),
    (KimiDelta(96, 128, 4), 2, [(18432, 3), (48, 128, 128)], 3_256_320),
    (ShortConv(2048, 3), 2, [(1024, 2)], 4_096),
]


@pytest.mark.parametrize(("spec", "tp", "shapes", "num_bytes"), PRINTED)
def test_shapes_and_bytes_that_vllm_printed(
    spec: StateCache, tp: int, shapes: list[tuple[int, ...]], num_bytes: int
) -> None:
    tensors = spec.tensors(tp)
    assert [t.shape for t in tensors] == shapes
    assert sum(t.elements * (4 if t.dtype == "float32" else 2) for t in tensors) == num_bytes
