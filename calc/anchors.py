"""An anchor -> what the estimating rules read, and what was measured, quantity by quantity.

Nothing is fitted here and nothing printed. A quantity that an anchor's figures do not give, or whose flags the log
does not
state, is left out: a residual against assumed flags would teach the wrong thing.
"""

from __future__ import annotations

from calc.cards import Card, card_names, load_card
from calc.estimates.graphs import estimate_is_subtracted
from calc.estimates.setup import Setup, geometry_fields
from calc.units import GIB
from onboard.anchor_file import Anchor
from onboard.values import Struct


class Measured(Struct, frozen=True):
    """What one anchor measured, in GiB; None where it says nothing. `residual` is utilisation x total - weights -
    available:
    everything that is neither weights nor cache."""

    activation: float | None = None
    runtime: float | None = None
    graphs: float | None = None
    residual: float | None = None


def setup_from(anchor: Anchor) -> Setup | None:
    """The setup of a vLLM anchor, or None where its geometry, version or batch flags are not known."""
    geometry, flags = anchor.geometry, anchor.flags
    if anchor.engine != "vllm" or not all(geometry.get(n) for n in ("hidden", "vocab", "layers")):
        return None
    if not anchor.version or not anchor.known("max_num_seqs", "max_num_batched_tokens"):
        return None
    version = version_of(anchor.version)
    draft = str(flags.get("speculative", "")) or str(flags.get("drafter", ""))
    length = flags.get("max_model_len") or 0
    card = anchor_card(anchor)
    return Setup(
        engine="vllm",
        version=version,
        **{"intermediate": 0, **geometry_fields(geometry)},
        encoder=str(geometry.get("encoder") or ("other" if anchor.multimodal else "")),
        pooling=bool(geometry.get("pooling")) or flags.get("sampler") == "none",
        quantization=anchor.weights,
        tp=int(flags.get("tensor_parallel_size", 1)),
        pp=int(flags.get("pipeline_parallel_size", 1)),
        max_num_seqs=int(flags["max_num_seqs"]),
        max_num_batched_tokens=int(flags["max_num_batched_tokens"]),
        expert_parallel=bool(flags.get("enable_expert_parallel", False)),
        eager=bool(flags.get("enforce_eager", False)),
        kv_cache_dtype=str(flags.get("kv_cache_dtype", "auto")),
        sampler="flashinfer" if flags.get("sampler") == "flashinfer" else "",
        num_speculative_tokens=int(flags.get("num_speculative_tokens", 0)),
        drafter=bool(draft) and not draft.startswith(("mtp", "ngram", "none")),
        v0=anchor.v0,
        chunked=int(flags["max_num_batched_tokens"]) < length if anchor.v0 else True,
        graph_capture=int(flags.get("cudagraph_max_capture", 0)),
        graph_estimate=flags.get("cuda_graph_estimate"),
        link=anchor.link,
        datacentre=card is not None and card.kind == "datacentre",
        compute_capability=card.compute_capability if card is not None else (0, 0),
    )


def measured(anchor: Anchor, setup: Setup) -> Measured:
    """The figures of an anchor as quantities of the model. The 0.26 "consumed" line counts the graph estimate as
    activation.
    """
    printed = anchor.printed
    activation = _get(printed, "activation_peak_gib")
    weights = _get(printed, "weights_gib")
    if activation is None and weights is not None and (peak := _get(printed, "peak_torch_gib")) is not None:
        activation = peak - weights
    if activation is not None and setup.version >= (0, 26) and not setup.v0:
        estimate = _get(printed, "graph_estimate_gib")
        activation = None if estimate is None else activation - estimate
    # where the engine subtracts its own estimate, that estimate is what the budget loses
    graphs = _get(printed, "graph_estimate_gib" if estimate_is_subtracted(setup) else "graph_gib")
    return Measured(
        activation=activation,
        runtime=_get(printed, "non_torch_gib"),
        graphs=graphs if graphs is not None and graphs >= 0 and setup.version[:2] not in ((0, 11), (0, 12)) else None,
        residual=_residual(anchor),
    )


def _residual(anchor: Anchor) -> float | None:
    utilisation = anchor.flags.get("gpu_memory_utilization")
    total, weights, available = (_get(anchor.printed, n) for n in ("total_gib", "weights_gib", "available_gib"))
    if (
        utilisation is None
        or total is None
        or weights is None
        or available is None
        or anchor.how.get("total_gib") == "nominal"
    ):
        return None
    return float(utilisation) * total - weights - available


def version_of(text: str) -> tuple[int, ...]:
    """ "0.20.2" -> (0, 20, 2)."""
    return tuple(int(p) for p in text.split(".") if p.isdigit())


def _get(printed: object, name: str) -> float | None:
    value = printed.get(name) if hasattr(printed, "get") else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def anchor_card(anchor: Anchor) -> Card | None:
    """The card of an anchor where the database has it."""
    return load_card(anchor.card) if anchor.card in card_names() else None


__all__ = ["GIB", "Measured", "anchor_card", "measured", "setup_from", "version_of"]
