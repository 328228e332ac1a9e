"""A graph under construction: tensors by size, in the order ggml visits them."""

from __future__ import annotations

from calc.engines.llamacpp.graph.alloc import Tensor

F32, I32, I64 = 4, 4, 8


class Graph:
    """Nodes in visiting order and leafs as first met (ggml_build_forward_expand, sources from the left)."""

    def __init__(self) -> None:
        self.nodes: list[Tensor] = []
        self.leafs: list[Tensor] = []
        self._seen: set[int] = set()

    def leaf(self, size: int) -> Tensor:
        """A graph input of `size` bytes."""
        return Tensor(size, is_input=True)

    def op(self, size: int, *srcs: Tensor, inplace: bool = False, layer: int | None = None) -> Tensor:
        """An operation of `size` bytes. `layer`: it multiplies by a weight of that block."""
        return Tensor(size, srcs, inplace=inplace, layer=layer)

    def view(self, src: Tensor) -> Tensor:
        return Tensor(src.size, (src,), view_of=src.view_of or src)

    def store(self, cache: Tensor, row: Tensor, index: Tensor, layer: int) -> None:
        """set_rows into a cache: a view of memory that is there already."""
        self.expand(Tensor(0, (self.view(row), index), view_of=cache, layer=layer))

    def expand(self, tensor: Tensor) -> None:
        if id(tensor) in self._seen or tensor.external:
            return
        self._seen.add(id(tensor))
        for src in tensor.srcs:
            if not src.external and id(src) not in self._seen:
                self.expand(src)
        (self.nodes if tensor.srcs else self.leafs).append(tensor)
