"""Everything llama.cpp holds, device by device, for one set of context parameters."""

from __future__ import annotations

from calc.engines.llamacpp.cache import Cache, caches_of, draft_cache
from calc.engines.llamacpp.compute import compute_buffers, output_bytes
from calc.engines.llamacpp.estimate import Buffer
from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.placement import HOST, Placement, context_bytes, place
from calc.engines.llamacpp.settings import Settings
from calc.engines.llamacpp.weights import by_layers, weights_by_device
from onboard.profile import Profile, WeightVariant
from onboard.values import Struct


class Footprint(Struct, frozen=True, kw_only=True):
    """Bytes on every device (cards by number, HOST). `context` holds caches and states, a drafter's included."""

    settings: Settings
    placement: Placement
    caches: tuple[Cache, ...]
    weights: dict[int, int]
    context: dict[int, int]
    compute: dict[int, Buffer]

    def total(self, device: int) -> int:
        return self.weights[device] + self.context[device] + self.compute[device].bytes

    @property
    def fullest(self) -> int:
        """The card with the most in it, or the host where there are no cards."""
        cards = range(self.placement.num_gpus)
        return max(cards, key=self.total) if self.placement.num_gpus else HOST


def footprint(
    profile: Profile,
    model: LlamaModel,
    settings: Settings,
    *,
    variant: WeightVariant | None = None,
    total_weights: int = 0,
    draft: bool = False,
    buffers: bool = True,
) -> Footprint:
    """What is held with these parameters. `variant` places weights by tensor, `total_weights` shares a sum out.

    Without `buffers` none is worked out: that of a context which is only counted is nobody's.
    """
    placement = place(model.num_blocks, settings)
    caches = caches_of(model, settings)
    extra = draft_cache(model, settings) if draft else None
    caches += (extra,) if extra is not None else ()
    weights = (
        weights_by_device(profile, variant, model, placement, settings)
        if variant is not None
        else by_layers(total_weights, placement)
    )
    return Footprint(
        settings=settings,
        placement=placement,
        caches=caches,
        weights=weights,
        context=context_bytes(caches, placement, settings),
        compute=_buffers(profile, model, settings, placement) if buffers else {},
    )


def _buffers(profile: Profile, model: LlamaModel, settings: Settings, placement: Placement) -> dict[int, Buffer]:
    """Compute buffers, and the output rows beside the host's."""
    found = compute_buffers(profile, model, settings, placement)
    host, output = found[HOST], output_bytes(profile, settings)
    return {**found, HOST: Buffer(host.bytes + output, host.low + output, host.high + output, host.rule)}
