"""A matrix a rule computes: its shape, the kind that shards it, and the module name quantisers know it by."""

from __future__ import annotations

from onboard.values import Struct


class Matrix(Struct, frozen=True, kw_only=True):
    """`copies` equal matrices of `rows` (outputs) x `columns` (inputs) in one module, in each of `layers`.

    `layers` is empty for what stands outside the stack, and `elements` are of one layer.

    `linear` says that a quantiser may pack it; everything else (norms, biases, convolutions, embeddings) stays at the
    model's dtype, or at four bytes where `wide`. `role` is a `TensorGroup` role.
    """

    role: str
    module: str
    rows: int
    columns: int = 1
    copies: int = 1
    layers: tuple[int, ...] = ()
    units: int = 0
    linear: bool = False
    wide: bool = False

    @property
    def elements(self) -> int:
        return self.rows * self.columns * self.copies


def linear(
    role: str, module: str, columns: int, rows: int, *, bias: bool = False, units: int = 0, copies: int = 1
) -> list[Matrix]:
    """A linear layer from `columns` inputs to `rows` outputs, with its bias where it has one."""
    made = [Matrix(role=role, module=module, rows=rows, columns=columns, units=units, copies=copies, linear=True)]
    if bias:
        made.append(Matrix(role=role, module=module, rows=rows, units=units, copies=copies))
    return made


def vector(role: str, module: str, size: int, *, copies: int = 1, wide: bool = False) -> Matrix:
    """A norm's weight, a bias of its own, a per-head constant."""
    return Matrix(role=role, module=module, rows=size, copies=copies, wide=wide)
