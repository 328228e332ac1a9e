"""From a byte budget to what the pools hold: state slots first, then tokens, then running requests."""

from __future__ import annotations

from calc.engines.sglang import pools
from calc.engines.sglang.model import Model
from calc.engines.sglang.settings import Settings
from calc.engines.sglang.versions import Rules
from calc.plan import Plan
from calc.units import GIB
from onboard.values import Struct


class Sized(Struct, frozen=True):
    """What one card's pools hold. `window_capped`: the window pool is sized by its worst case, not by the ratio."""

    tokens: pools.Tokens
    state: pools.States | None
    running: int
    window_capped: bool

    @property
    def held(self) -> int:
        """The figure that the log prints as max_total_num_tokens."""
        return self.tokens.full or self.tokens.window


def size(plan: Plan, settings: Settings, rules: Rules, model: Model, budget: int) -> Sized:
    """Everything that `budget` bytes make of the pools."""
    dp = settings.attention_data_parallel_size
    requested = (
        None if settings.requested_running_requests is None else max(1, settings.requested_running_requests // dp)
    )
    state = _states(plan, settings, rules, model, budget, requested)
    rest = budget if state is None else int(state.rest_gib * GIB)
    capped = _capped(settings, model)
    tokens = _tokens(plan, settings, rules, model, rest, requested, capped)
    running = pools.running_requests(
        tokens=tokens.full or tokens.window,
        context_len=settings.context_length,
        requested=requested,
        state_cap=None if state is None else state.slots // settings.state_slots_per_request,
        by_tokens=rules.min_requests_by_tokens,
    )
    if rules.draft_headroom and settings.speculative_num_draft_tokens:
        tokens = _with_headroom(settings, tokens, running)
    return Sized(tokens, state, max(0, running), capped)


def _with_headroom(settings: Settings, tokens: pools.Tokens, running: int) -> pools.Tokens:
    """Older builds lengthen the pool by what the running requests draft and verify (model_runner.py of 0.5.2)."""
    more = running * (settings.speculative_step_tokens + settings.speculative_num_draft_tokens) + 100
    return pools.Tokens(pools.floor_to(tokens.full + more, settings.page_size), tokens.window)


def _states(
    plan: Plan, settings: Settings, rules: Rules, model: Model, budget: int, requested: int | None
) -> pools.States | None:
    if not model.layout.slot.bytes:
        return None
    given = plan.max_mamba_cache_size
    ask = pools.StateAsk(
        slot_bytes=model.layout.slot.bytes,
        ratio=settings.mamba_full_memory_ratio,
        slots_per_request=settings.state_slots_per_request,
        draft_tokens=settings.speculative_num_draft_tokens,
        requests=requested,
        given_slots=None if given is None else given // settings.attention_data_parallel_size,
        by_requests=given is None and not settings.radix_cache and requested is not None,
        padding_slot=rules.state_padding_slot,
        draft_first=rules.draft_states_first,
    )
    return pools.state_pool(budget, ask)


def _tokens(
    plan: Plan, settings: Settings, rules: Rules, model: Model, budget: int, requested: int | None, capped: bool
) -> pools.Tokens:
    page, limit, beside = settings.page_size, plan.max_total_tokens, model.charge.beside
    if not settings.hybrid_swa:
        bound = limit if model.full_cell else limit or settings.context_length
        return pools.single_pool(budget, model.full_cell, page, bound)
    if capped:
        cap = pools.window_request_cap(
            requests=requested or 1,
            window=model.window or 0,
            page=page,
            chunk=settings.chunked_prefill_size,
            draft_tokens=settings.speculative_num_draft_tokens,
            overlap=settings.overlap_schedule,
        )
        return pools.capped_window(budget, model.full_cell, model.window_cell, cap, page, limit, beside)
    return pools.two_pools(
        budget,
        model.full_cell,
        model.window_cell,
        settings.swa_full_tokens_ratio,
        page,
        by_total=rules.swa == "total",
        limit=limit,
        extra=beside,
    )


def _capped(settings: Settings, model: Model) -> bool:
    """Radix cache off, running requests set, chunks on (pool_configurator.py SWARequestCapPoolConfigurator)."""
    asked = (
        not settings.radix_cache
        and settings.requested_running_requests is not None
        and settings.chunked_prefill_size > 0
    )
    return settings.hybrid_swa and asked and model.window is not None and model.full_cell > 0
