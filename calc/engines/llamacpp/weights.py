"""Weights on each device: layers follow their placement, the token table stays on the host, experts may too.

Source: llama.cpp 0c1e57098 src/llama-model.cpp:1589-1614, common/common.h:1198 (`--cpu-moe`, `--n-cpu-moe`).
A tied output matrix is a second copy where the output layer lies on a card.
"""

from __future__ import annotations

from collections.abc import Iterator

from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.placement import HOST, Placement
from calc.engines.llamacpp.settings import Settings
from onboard.profile import Profile, TensorGroup, WeightVariant

_NOT_IN_FILE = frozenset({"vision", "audio", "talker"})  # the converter writes them to an mmproj file of their own


def weights_by_device(
    profile: Profile, variant: WeightVariant, model: LlamaModel, placement: Placement, settings: Settings
) -> dict[int, int]:
    """Bytes of weights on every device, from tensor groups where they are known, else shared out by layers."""
    if not variant.groups:
        return by_layers(variant.num_bytes, placement)
    held = dict.fromkeys(placement.devices, 0)
    for device, _, size in _placed(variant, model, placement, settings):
        held[device] += size
    return held


def weights_line(
    variant: WeightVariant, model: LlamaModel, placement: Placement, settings: Settings, device: int
) -> str:
    """The tensors on one device as a sum by kind; layers of an even share where no list of tensors is known."""
    if not variant.groups:
        units = (*placement.layers, placement.output)
        here = f"{units.count(device)} of {len(units)} units, each layer and the output alike"
        return f"{variant.num_bytes:,} B x {units.count(device)} / {len(units)}; {here}"
    kinds: dict[str, int] = {}
    for where, kind, size in _placed(variant, model, placement, settings):
        if where == device:
            kinds[kind] = kinds.get(kind, 0) + size
    return " + ".join(f"{size:,} B {kind}" for kind, size in kinds.items() if size) + "; tensors by kind"


def _placed(
    variant: WeightVariant, model: LlamaModel, placement: Placement, settings: Settings
) -> Iterator[tuple[int, str, int]]:
    """(device, kind, bytes) of every tensor group, layer by layer; a tied output matrix is a copy of the embedding."""
    for group in variant.groups:
        if group.part not in _NOT_IN_FILE:
            for device, size in _group(group, model, placement, settings):
                yield device, group.kind, size
    kinds = {g.kind for g in variant.groups if not g.part}
    if "lm_head" not in kinds and placement.output != HOST:
        tied = max((g.num_bytes for g in variant.groups if g.role == "embedding"), default=0)
        yield placement.output, "embedding again as the output matrix", tied


def by_layers(total: int, placement: Placement) -> dict[int, int]:
    """An even share for each block and one for the output: what can be said without a tensor list."""
    held = dict.fromkeys(placement.devices, 0)
    units = (*placement.layers, placement.output)
    for index, device in enumerate(units):
        held[device] += total * (index + 1) // len(units) - total * index // len(units)
    return held


def _group(group: TensorGroup, model: LlamaModel, placement: Placement, settings: Settings) -> list[tuple[int, int]]:
    if not group.layers:
        device = HOST if group.kind == "embedding" else placement.output
        return [(device, group.num_bytes)]
    shift = model.num_layers if group.part == "mtp" and max(group.layers) < model.num_layers else 0
    found = []
    for layer in group.layers:
        block = layer + shift
        if block >= model.num_blocks:
            continue  # a draft head that the converter leaves out
        on_host = group.kind == "experts" and block < settings.cpu_moe_layers
        found.append((HOST if on_host else placement.layers[block], group.num_bytes))
    return found
