"""Matrices -> tensor groups, each at the model's dtype or as a scheme packs it; equal layers are one group."""

from __future__ import annotations

from collections.abc import Iterable

from onboard.profile import TensorGroup
from onboard.weights.groups import collapse
from onboard.weights.matrix import Matrix
from onboard.weights.schemes import Scheme, Schemes


def to_groups(made: Iterable[Matrix], scheme: Schemes | None, size: int, dtype: str) -> tuple[TensorGroup, ...]:
    """Groups of matrices, each at the model's dtype or as the scheme packs it."""
    sums: dict[tuple[str, int, str], dict[tuple[int, ...], list[int]]] = {}
    for m in made:
        for packed, layers in _packed(m, scheme):
            num_bytes = packed.bytes_of(m) if packed else m.elements * (4 if m.wide else size)
            held = sums.setdefault((m.role, m.units, packed.dtype if packed else dtype), {})
            total = held.setdefault(layers, [0, 0])
            total[0] += num_bytes
            total[1] += m.elements
    return collapse(
        TensorGroup(role=role, num_bytes=total[0], num_elements=total[1], dtype=kept, num_units=units, layers=layers)
        for (role, units, kept), held in sums.items()
        for layers, total in _by_layer(held).items()
    )


def _packed(matrix: Matrix, scheme: Schemes | None) -> list[tuple[Scheme | None, tuple[int, ...]]]:
    """The matrix's layers by what packs it there; no layers where it stands outside the stack."""
    if scheme is None or not matrix.linear:
        return [(None, matrix.layers)]
    if not matrix.layers:
        return [(scheme.of(matrix), ())]
    found: dict[int, tuple[Scheme | None, list[int]]] = {}
    for layer in matrix.layers:
        packed = scheme.of(matrix, layer)
        found.setdefault(id(packed), (packed, []))[1].append(layer)
    return [(packed, tuple(layers)) for packed, layers in found.values()]


def _by_layer(held: dict[tuple[int, ...], list[int]]) -> dict[tuple[int, ...], list[int]]:
    """The same sums where the sets of layers overlap: one entry a layer."""
    if sum(map(len, held)) == len({layer for layers in held for layer in layers}):
        return held
    apart: dict[tuple[int, ...], list[int]] = {}
    for layers, (num_bytes, elements) in held.items():
        keys: list[tuple[int, ...]] = [(layer,) for layer in layers]
        for key in keys or [()]:
            total = apart.setdefault(key, [0, 0])
            total[0] += num_bytes
            total[1] += elements
    return apart
