"""Which device holds each layer: `-ngl`, tensor split, and what follows the layer.

Source: llama.cpp 0c1e57098 src/llama-model.cpp:1560-1620. A device is a card's number, HOST the machine's own memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from struct import pack, unpack

from calc.engines.llamacpp.cache import Cache
from calc.engines.llamacpp.settings import Settings
from onboard.values import Struct

HOST = -1


class Placement(Struct, frozen=True):
    """`layers[i]` is the device of block i, `output` that of the output matrix. The token table stays on the host."""

    layers: tuple[int, ...]
    output: int
    num_gpus: int

    @property
    def devices(self) -> tuple[int, ...]:
        return (*range(self.num_gpus), HOST)

    def all_offloaded(self) -> bool:
        return HOST not in (*self.layers, self.output)


def place(num_blocks: int, settings: Settings) -> Placement:
    """The last n of num_blocks + 1 units (the output is the last) go to the cards, each by its share of n."""
    units = num_blocks + 1
    offloaded = min(settings.n_gpu_layers, units) if settings.gpus else 0
    first = units - offloaded
    ends = _cumulative(settings)

    def device(unit: int) -> int:
        if unit < first:
            return HOST
        return min(bisect_right(ends, _f32((unit - first) / offloaded)), settings.gpus - 1)

    return Placement(tuple(device(i) for i in range(num_blocks)), device(num_blocks), settings.gpus)


def _cumulative(settings: Settings) -> list[float]:
    """Cumulative shares, in f32 as the engine computes them. Unset: by free memory, alike on equal cards."""
    shares = settings.tensor_split or (1.0,) * settings.gpus
    shares = (*shares, *(0.0,) * settings.gpus)[: settings.gpus]
    sums: list[float] = []
    total = 0.0
    for share in shares:
        total = _f32(total + share)
        sums.append(total)
    return [_f32(s / total) for s in sums] if total else sums


def _f32(value: float) -> float:
    return float(unpack("<f", pack("<f", value))[0])


def context_bytes(caches: Iterable[Cache], placement: Placement, settings: Settings) -> dict[int, int]:
    """Bytes of cache and state on each device: they follow their layer, or all stay on the host (-nkvo)."""
    held = dict.fromkeys(placement.devices, 0)
    for cache in caches:
        for layer in cache.layers:
            device = placement.layers[min(layer.layer, len(placement.layers) - 1)] if settings.offload_kqv else HOST
            held[device] += layer.total
    return held
