"""Knobs of the pools' split under which the same budget holds what was asked."""

from __future__ import annotations

from math import floor

from calc.engines.sglang.model import Model
from calc.engines.sglang.pools import ceil_to
from calc.engines.sglang.settings import Settings
from calc.engines.sglang.sizing import Sized
from calc.prediction import Note


def split_hints(settings: Settings, model: Model, sized: Sized, asked: int, budget: int) -> tuple[Note, ...]:
    """`--swa-full-tokens-ratio` where the window pool takes what the whole pool lacks, `--max-mamba-cache-size` where
    the state pool does. () where what was asked is held, or another split does not help.
    """
    tokens = asked * ceil_to(settings.context_length, settings.page_size)
    if tokens <= sized.held or not model.token_bytes:
        return ()
    left = budget - tokens * model.token_bytes
    if sized.state is not None:
        slots = asked * settings.state_slots_per_request
        spare = sized.state.speculative_bytes + (slots + 1) * model.layout.slot.bytes
        return (_note(f"--max-mamba-cache-size {slots}"),) if spare <= left else ()
    if not settings.hybrid_swa or sized.window_capped or not model.window_cell or left <= 0:
        return ()
    ratio = floor(left / model.window_cell / tokens * 10**4) / 10**4
    windows = asked * model.request_window(settings.context_length, settings.page_size)
    least = max(windows, (model.window or 0) + settings.page_size + 1)
    return (_note(f"--swa-full-tokens-ratio {ratio:g}"),) if int(tokens * ratio) >= least else ()


def _note(flag: str) -> Note:
    return Note("next-step", f"holds what was asked with {flag}")
