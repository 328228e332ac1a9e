"""Which device computes each node, and the copies of what crosses: ggml's scheduler on a built graph.

Source: ggml 0.25.3 src/ggml-backend.cpp ggml_backend_sched_split_graph. Nodes with a weight or a cache are where that
lies; the rest join the card before them, else the card after them, else the host.
"""

from __future__ import annotations

from collections.abc import Callable

from calc.engines.llamacpp.graph.alloc import Tensor, peaks
from calc.engines.llamacpp.graph.tensors import Graph

HOST = -1
PIPELINE_COPIES = 4  # GGML_SCHED_MAX_COPIES


def buffers(
    graph: Graph, device_of: Callable[[int], int], devices: tuple[int, ...], *, pipeline: bool
) -> dict[int, int]:
    """Bytes of each device's compute buffer."""
    for leaf in graph.leafs:
        leaf.device = HOST
    for node in graph.nodes:
        node.device = None if node.layer is None else device_of(node.layer)
    _expand(graph.nodes)
    _expand(graph.nodes[::-1])
    for node in graph.nodes:
        if node.device is None:
            node.device = HOST
    copies = PIPELINE_COPIES if pipeline else 1
    nodes, extra = _with_copies(graph.nodes, copies)
    if copies > 1:
        for leaf in graph.leafs:
            leaf.is_output = True
            extra += [Tensor(leaf.size, is_output=True, device=HOST) for _ in range(copies - 1)]
    return peaks(nodes, [*graph.leafs, *extra], devices)


def _expand(nodes: list[Tensor]) -> None:
    """Unplaced nodes join the card of the last placed one; the host does not spread."""
    current: int | None = None
    for node in nodes:
        if node.device is not None:
            current = node.device if node.device != HOST else None
        elif current is not None:
            node.device = current


def _with_copies(nodes: list[Tensor], copies: int) -> tuple[list[Tensor], list[Tensor]]:
    """At the start of each split, a copy of every source that lies elsewhere; one a device for the whole graph."""
    out: list[Tensor] = []
    extra: list[Tensor] = []
    made: dict[tuple[int, int], Tensor] = {}
    start = 0
    while start < len(nodes):
        end = start
        while end < len(nodes) and nodes[end].device == nodes[start].device:
            end += 1
        split = nodes[start:end]
        device = split[0].device
        assert device is not None
        for node in split:
            if all(_is_near(src, device) for src in node.srcs):
                continue
            node.srcs = tuple(_local(src, device, made, out, extra, copies) for src in node.srcs)
        out.extend(split)
        start = end
    return out, extra


def _is_near(src: Tensor, device: int) -> bool:
    """Whether the source can be read from where it lies."""
    home = src if src.view_of is None else src.view_of
    return src.external or home.device == device or home.external or home.device is None


def _local(
    src: Tensor,
    device: int,
    made: dict[tuple[int, int], Tensor],
    out: list[Tensor],
    extra: list[Tensor],
    copies: int,
) -> Tensor:
    """The source itself, or its copy on `device`."""
    if _is_near(src, device):
        return src
    home = src if src.view_of is None else src.view_of
    key = (id(src), device)
    if key not in made:
        copy = Tensor(src.size, device=device)
        made[key] = copy
        out.append(Tensor(src.size, (src,), view_of=home, dependency=True, device=device))
        if copies > 1:
            copy.is_input = copy.is_output = True
            for _ in range(copies - 1):
                extra.append(Tensor(src.size, is_output=True, device=device))
            extra.append(copy)
        else:
            out.append(copy)
    return made[key]
