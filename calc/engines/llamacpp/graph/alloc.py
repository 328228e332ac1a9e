"""ggml's graph allocator on a list of tensors: in-place reuse, best fit, merging; the highest byte is the buffer.

Source: ggml 0.25.3 src/ggml-alloc.c (ggml_gallocr_alloc_graph_impl, ggml_dyn_tallocr_alloc), one chunk a device.
"""

from __future__ import annotations

from bisect import bisect_left

from onboard.values import Struct

ALIGNMENT = 32
ENDLESS = 2**60


class Tensor(Struct, eq=False):
    """A tensor of the graph. `external` ones (weights, caches) have memory already; a view has none of its own.

    `inplace`: the operation may take over a parent of its own size. `device` is where it is computed, `layer` the block
    whose weight or cache decides that. `dependency` marks what the scheduler adds to hold an input until it is copied.
    """

    size: int
    srcs: tuple[Tensor, ...] = ()
    view_of: Tensor | None = None
    inplace: bool = False
    is_input: bool = False
    is_output: bool = False
    external: bool = False
    dependency: bool = False
    device: int | None = None
    layer: int | None = None
    children: int = 0
    views: int = 0
    allocated: bool = False
    offset: int = 0
    home: int = 0


class _Arena:
    """Free blocks of one buffer, in order of offset; the last is endless."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = [(0, ENDLESS)]
        self.peak = 0

    def take(self, size: int) -> int:
        size = -(-size // ALIGNMENT) * ALIGNMENT
        best, best_size = -1, ENDLESS
        last = len(self.free) - 1
        for index in range(last):
            room = self.free[index][1]
            if size <= room <= best_size:
                best, best_size = index, room
        if best < 0:
            best = last
        offset, room = self.free[best]
        if room == size:
            del self.free[best]
        else:
            self.free[best] = (offset + size, room - size)
        self.peak = max(self.peak, offset + size)
        return offset

    def give(self, offset: int, size: int) -> None:
        size = -(-size // ALIGNMENT) * ALIGNMENT
        if not size:
            return
        free = self.free
        index = bisect_left(free, (offset,))
        if index < len(free) and offset + size == free[index][0]:
            size += free.pop(index)[1]
        if index and sum(free[index - 1]) == offset:
            last, room = free[index - 1]
            free[index - 1] = (last, room + size)
        else:
            free.insert(index, (offset, size))


def peaks(nodes: list[Tensor], leafs: list[Tensor], devices: tuple[int, ...]) -> dict[int, int]:
    """Bytes of each device's buffer for this graph, computed in order."""
    arenas = {device: _Arena() for device in devices}

    def allocate(node: Tensor, device: int | None) -> None:
        if device is None or node.allocated or node.external or node.view_of is not None:
            return
        node.allocated = True
        if node.inplace and _reuse(node):
            return
        node.home = device
        node.offset = arenas[device].take(node.size)

    def free(node: Tensor) -> None:
        if not node.is_output:
            arenas[node.home].give(node.offset, node.size)
            node.allocated = False

    for leaf in leafs:
        allocate(leaf, leaf.device)
    for node in nodes:
        if node.view_of is not None and not node.dependency:
            node.view_of.views += 1
        if node.is_input:
            allocate(node, node.device)
        for src in node.srcs:
            src.children += 1
            if src.is_input:
                allocate(src, src.device)
    for node in nodes:
        for src in node.srcs:
            if not src.allocated:
                allocate(src, src.device)
        allocate(node, node.device)
        for src in node.srcs:
            src.children -= 1
            if src.children or src.views:
                continue
            if src.view_of is not None:
                root = src.view_of
                root.views -= 1
                if not root.views and not root.children and root.allocated:
                    free(root)
            elif src.allocated:
                free(src)
    return {device: arena.peak for device, arena in arenas.items()}


def _reuse(node: Tensor) -> bool:
    """Take over a parent of the same layout that nobody else needs. Measured: a viewed parent is never taken over."""
    for parent in node.srcs:
        if parent.external or parent.view_of is not None or parent.is_output or not parent.allocated:
            continue
        if parent.size == node.size and parent.children == 1 and not parent.views:
            node.offset, node.home = parent.offset, parent.home
            parent.allocated = False
            return True
    return False
