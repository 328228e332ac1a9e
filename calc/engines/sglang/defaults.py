"""Defaults that follow from the card: prefill chunk, decode graph sizes, and the automatic static fraction.

Source: arg_groups/memory_hook.py and arg_groups/cuda_graph_hook.py of the 0.5.23 wheel; older builds by `versions`.
"""

from __future__ import annotations

from calc.engines.sglang.versions import Rules
from onboard.values import Struct


class Load(Struct, frozen=True, kw_only=True):
    """What the automatic fraction depends on. `card_mib` is nvidia-smi's memory.total, None where not known."""

    card_mib: int | None
    tp: int
    pp: int
    dp_attention: int = 1
    latent: bool = False
    decode_graph: bool = True
    prefill_graph: bool = True
    chunk: int = 0
    decode_max_bs: int = 0
    num_prefill_graphs: int = 0
    separate_drafter: bool = False
    any_drafter: bool = False
    vision: tuple[int, int] | None = None  # layers and hidden size of the tower
    max_prefill_tokens: int = 16384


def tier(rules: Rules, card_mib: int | None, tp: int) -> tuple[int, int]:
    """`chunked_prefill_size` and the largest captured decode batch of a card."""
    if card_mib is None:
        return rules.unknown_card[0], rules.unknown_card[1]
    chunk, small, large = next((c, s, b) for limit, c, s, b in rules.tiers if card_mib < limit)
    return chunk, small if tp < 4 else large


def decode_graph_sizes(max_bs: int, *, speculative: bool) -> list[int]:
    """Batch sizes captured for decode, up to `max_bs`, which is always one of them."""
    if speculative:
        sizes = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, max_bs + 1, 16)]
    else:
        sizes = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, max_bs + 1, 32)]
    kept = [s for s in sizes if s <= max_bs]
    return kept if max_bs in kept else [*kept, max_bs]


def prefill_graph_sizes(max_tokens: int) -> list[int]:
    """Token counts captured for prefill, up to `max_tokens`."""
    sizes = [
        *range(4, 33, 4),
        *range(48, 257, 16),
        *range(288, 513, 32),
        *range(576, 1025, 64),
        *range(1280, 4097, 256),
        *range(4608, max_tokens + 1, 512),
    ]
    return [s for s in sizes if s <= max_tokens]


def static_fraction(rules: Rules, load: Load) -> float:
    """`mem_fraction_static` when it is not given."""
    if load.card_mib is None:
        fraction = rules.unknown_card[2]
    else:
        reserved = _tier_reserve(rules, load) if rules.reserve_tiers else _computed_reserve(rules, load)
        if load.any_drafter:
            reserved += rules.speculative_mib[1 if load.separate_drafter else 0]
        fraction = round((load.card_mib - reserved) / load.card_mib, 3)
    if load.vision is None:
        return fraction
    return fraction * (rules.flat_vlm_factor or vision_factor(*load.vision))


def vision_factor(num_layers: int, hidden_size: int) -> float:
    """What a vision tower leaves of the fraction: 0.95, a tenth less for each doubling of a ViT-L/14, 0.8 to 1.05."""
    ratio = num_layers * hidden_size**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (ratio - 1.0)))


def _computed_reserve(rules: Rules, load: Load) -> float:
    """MiB kept for metadata, activations and graphs, from 0.5.9 on."""
    assert load.card_mib is not None
    tokens = load.chunk if load.chunk > 0 else load.max_prefill_tokens
    reserved = 512 + 1.5 * max(tokens, 2048) + load.tp * load.pp / 8 * 1024
    if load.decode_graph:
        reserved += 2 * load.decode_max_bs
    if load.dp_attention > 1:
        reserved += 3 * load.decode_max_bs * load.dp_attention
        if load.decode_max_bs > 300:
            reserved += 1.5 * load.decode_max_bs * load.dp_attention
    if load.prefill_graph and rules.prefill_graph_in_reserve:
        reserved += 1536 if load.latent else 8 * load.num_prefill_graphs
    return max(reserved, 10 * 1024) if load.card_mib > 60 * 1024 else reserved


def _tier_reserve(rules: Rules, load: Load) -> float:
    """MiB kept by the older fixed tiers."""
    assert load.card_mib is not None
    base, per_card = next((b, p) for limit, b, p in rules.reserve_tiers if load.card_mib < limit)
    return (base + per_card * load.tp * load.pp) * 1024 + (rules.reserve_dp_mib if load.dp_attention > 1 else 0)
