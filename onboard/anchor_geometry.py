"""Whether an anchor's figures fit the widths it states: weights against parameters, the activation peak against logits.

Bounds, not estimates: wide enough for every kernel known, narrow enough for another model's log or a swapped flag. Only
where the anchor states its geometry and its weights are of a known width.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from onboard.anchor_file import Anchor

GIB = 2**30
BYTES_A_PARAMETER = (
    (r"bf16|fp16|bfloat16|float16", 2.0, 2.1),
    (r"fp8|int8|w8a", 1.0, 1.25),
    (r"int4|awq|gptq|fp4|4 ?bit", 0.5, 0.8),
)
WEIGHTS_SLACK = (0.6, 1.5)  # attention's share and encoders are not in the widths
LOGIT_BYTES = (13.0, 45.0)  # the dummy sampler's buffers a logit: FlashInfer's least, sorting's most
FORWARD_BYTES = 16.0  # an element of the MLP's width or of the hidden size, at most
ENCODER_GIB = 6.0


def geometry_problems(a: Anchor) -> Iterator[tuple[str, str]]:
    """Pairs of field and message."""
    g = a.geometry
    if not all(isinstance(g.get(n), int) for n in ("hidden", "vocab", "layers")):
        return
    yield from _weights(a, g)
    yield from _activation(a, g)


def parameters(g: Mapping[str, Any]) -> float:
    """Parameters of a decoder of these widths, attention taken as 2.5 hidden squared a layer (grouped heads)."""
    hidden = g["hidden"]
    if g.get("experts"):
        mlp = 3 * hidden * g.get("moe_intermediate", 0) * g["experts"]
    else:
        mlp = (3 if g.get("gated", True) else 2) * hidden * g.get("intermediate", 0)
    return float(g["layers"] * (2.5 * hidden * hidden + mlp) + 2 * hidden * g["vocab"])


def _weights(a: Anchor, g: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    weights = a.printed.get("weights_gib")
    width = next(((low, high) for words, low, high in BYTES_A_PARAMETER if re.search(words, a.weights.lower())), None)
    if width is None or a.flags.get("enable_expert_parallel") or not (g.get("intermediate") or g.get("experts")):
        return
    if not isinstance(weights, (int, float)) or weights < 0.5:
        return
    cards = int(a.flags.get("tensor_parallel_size", 1)) * int(a.flags.get("pipeline_parallel_size", 1))
    low, high = (parameters(g) * b * s / GIB / cards for b, s in zip(width, WEIGHTS_SLACK, strict=True))
    if not low <= weights <= high:
        yield (
            "printed.weights_gib",
            f"{weights:g} GiB a card, and these widths in {a.weights} on {cards} cards are {low:.1f} to {high:.1f}: "
            "another model's log, or tensor_parallel_size is another boot's",
        )


def _activation(a: Anchor, g: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    peak, seqs, tokens = (
        a.printed.get("activation_peak_gib"), a.flags.get("max_num_seqs"), a.flags.get("max_num_batched_tokens"),
    )  # fmt: skip
    if (
        a.engine != "vllm"
        or not isinstance(peak, (int, float))
        or not isinstance(seqs, int)
        or not isinstance(tokens, int)
    ):
        return
    logits = min(seqs, tokens) * g["vocab"]
    samples = not a.v0 and not g.get("pooling")
    width = g.get("intermediate", 0) + g.get("topk", 0) * (g["hidden"] + 2 * g.get("moe_intermediate", 0))
    most = LOGIT_BYTES[1] * logits + FORWARD_BYTES * tokens * (width + g["hidden"])
    most_gib = most / GIB + 1.0 + (ENCODER_GIB if g.get("encoder") or a.multimodal else 0.0)
    least_gib = LOGIT_BYTES[0] * logits / GIB if samples else 0.0
    if not 0.8 * least_gib <= peak <= most_gib:
        yield (
            "printed.activation_peak_gib",
            f"{peak:g} GiB, and {seqs} sequences of {g['vocab']} logits with {tokens} batched tokens take "
            f"{least_gib:.2f} to {most_gib:.2f}: max_num_seqs or max_num_batched_tokens is another boot's",
        )
