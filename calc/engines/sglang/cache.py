"""The cache for a pool of given bytes: tokens, state slots, running requests, refusals, and each log line's figures."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calc.engines.sglang import pools
from calc.engines.sglang.draft import Charge, Drafting, charge, drafting
from calc.engines.sglang.kv_dtype import kv_problem
from calc.engines.sglang.layout import How, Layout, is_compressed, layout, stages
from calc.engines.sglang.settings import Settings
from calc.engines.sglang.versions import Rules, rules_for
from calc.kv_formats import kv_format
from calc.prediction import CachePlan, Note, Parts, Pool, PoolCache, Reason, Resolved, Term
from onboard.layers import WindowAttention, WindowLatent
from onboard.profile import Profile


@dataclass(frozen=True, slots=True)
class Model:
    """The fullest card's layout and what a drafter adds to it."""

    layout: Layout
    charge: Charge
    window: int | None

    @property
    def full_cell(self) -> int:
        return self.layout.full.cell + self.charge.full

    @property
    def window_cell(self) -> int:
        return self.layout.window.cell + self.charge.window


def cache_plan(profile: Profile, resolved: Resolved, pool_bytes: int) -> CachePlan:
    """SGLang's pools. One request longer than the pool does not stop a start: it is refused when it comes."""
    settings, rules = Settings.of(resolved.derived), rules_for(resolved.version)
    if is_compressed(profile.layers):
        from calc.engines.sglang.compressed_plan import compressed_plan

        return compressed_plan(profile, resolved, settings, pool_bytes)
    draft = drafting(profile, resolved.plan)
    model = model_of(profile, resolved, settings, rules, draft)
    state = _states(resolved, settings, rules, model, pool_bytes)
    budget = pool_bytes if state is None else int(state.rest_gib * pools.GIB)
    tokens = _tokens(resolved, settings, rules, model, budget)
    state_cap = None if state is None else state.slots // settings.state_slots_per_request
    requested = (
        None if settings.requested is None else max(1, settings.requested // settings.attention_data_parallel_size)
    )
    running = pools.running_requests(
        tokens=max(tokens.full, tokens.window if not tokens.full else 0), context_len=settings.context_length, requested=requested,
        state_cap=state_cap, by_tokens=rules.min_requests_by_tokens,
    )  # fmt: skip
    reasons = _refusals(settings, rules, model, tokens, state, running, pool_bytes, resolved)
    return _answer(resolved, settings, model, tokens, state, max(0, running), reasons)


def how_of(settings: Settings, rules: Rules) -> How:
    form = kv_format(settings.kv_format)
    return How(
        kv=form, attn_tp=settings.attention_tensor_parallel_size, split_windows=settings.hybrid_swa,
        scaled_latent=settings.scaled_latent and form.name == "fp8_e4m3", v_head_dim=rules.v_head_dim,
        index_every=rules.dsa_indexer == "every", no_index=rules.dsa_indexer == "none",
    )  # fmt: skip


def model_of(profile: Profile, resolved: Resolved, settings: Settings, rules: Rules, draft: Drafting) -> Model:
    """The layout of the pipeline stage that holds the largest cell."""
    how, pp = how_of(settings, rules), resolved.plan.pipeline_parallel_size
    spans = [None] if pp == 1 else [*stages(len(profile.layers), pp)]
    found = [layout(profile.layers, how, settings.state_dtype, span) for span in spans]
    fullest = max(found, key=lambda x: (x.full.cell + x.window.cell, x.slot.bytes))
    slot = max((x.slot for x in found), key=lambda s: s.bytes)
    fullest = replace(fullest, slot=slot)
    windows = [c.window for x in profile.layers for c in x.caches if isinstance(c, (WindowAttention, WindowLatent))]
    window = max(windows, default=None) if settings.hybrid_swa else None
    return Model(fullest, charge(fullest, draft, how, rules, hybrid_swa=settings.hybrid_swa), window)


def _states(resolved: Resolved, settings: Settings, rules: Rules, model: Model, budget: int) -> pools.States | None:
    if not model.layout.slot.bytes:
        return None
    dp = settings.attention_data_parallel_size
    requests = None if settings.requested is None else max(1, settings.requested // dp)
    given = resolved.plan.max_mamba_cache_size
    by_requests = given is None and not settings.radix_cache and requests is not None
    return pools.state_pool(
        budget,
        pools.StateAsk(
            slot_bytes=model.layout.slot.bytes, ratio=settings.mamba_full_memory_ratio, requests=requests,
            slots_per_request=settings.state_slots_per_request, draft_tokens=settings.speculative_num_draft_tokens,
            given_slots=None if given is None else given // dp, by_requests=by_requests, padding_slot=rules.state_padding_slot,
        ),
    )  # fmt: skip


def _tokens(resolved: Resolved, settings: Settings, rules: Rules, model: Model, budget: int) -> pools.Tokens:
    page, limit = settings.page_size, resolved.plan.max_total_tokens
    if not settings.hybrid_swa:
        return pools.single_pool(
            budget, model.full_cell, page, limit if model.full_cell else limit or settings.context_length
        )
    if _capped(settings, model):
        cap = pools.window_request_cap(
            requests=max(1, (settings.requested or 1) // settings.attention_data_parallel_size), window=model.window or 0, page=page,
            chunk=settings.chunked_prefill_size, draft_tokens=settings.speculative_num_draft_tokens, overlap=settings.overlap_schedule,
        )  # fmt: skip
        return pools.capped_window(budget, model.full_cell, model.window_cell, cap, page, limit, model.charge.beside)
    return pools.two_pools(
        budget, model.full_cell, model.window_cell, settings.swa_full_tokens_ratio, page, by_total=rules.swa == "total", limit=limit,
        extra=model.charge.beside,
    )  # fmt: skip


def _capped(settings: Settings, model: Model) -> bool:
    """Radix cache off, running requests set, chunks on: the window pool is sized by its worst case."""
    return (
        not settings.radix_cache and settings.requested is not None and settings.chunked_prefill_size > 0
        and model.window is not None and model.full_cell > 0
    )  # fmt: skip


def _refusals(
    settings: Settings, rules: Rules, model: Model, tokens: pools.Tokens, state: pools.States | None, running: int, pool_bytes: int,
    resolved: Resolved,
) -> tuple[Reason, ...]:  # fmt: skip
    problem = kv_problem(settings.kv_format, resolved.card)
    reasons = [Reason("kv_dtype", problem)] if problem else []
    held = tokens.full or tokens.window
    if pool_bytes <= 0:
        reasons.append(
            Reason(
                "memory",
                f"weights leave no memory for the cache under mem_fraction_static {settings.mem_fraction_static:.3f}",
            )
        )
    elif state is not None and (state.slots <= 0 or running <= 0):
        reasons.append(
            Reason(
                "state_slots",
                f"{max(0, state.slots)} state slots, and each request takes {settings.state_slots_per_request}",
            )
        )
    elif state is not None and state.rest_gib <= 0:
        reasons.append(Reason("memory", "state slots leave no memory for the KV pool"))
    elif held <= 0:
        reasons.append(Reason("memory", "the pool holds not one page; raise mem_fraction_static"))
    elif (
        settings.hybrid_swa
        and rules.swa == "direct"
        and model.window is not None
        and model.full_cell
        and not _capped(settings, model)
    ):
        floor = model.window + settings.page_size
        if floor >= tokens.window:
            reasons.append(
                Reason(
                    "window_pool",
                    f"the window pool holds {tokens.window} tokens and one request needs more than {floor} (window + page)",
                )
            )
    return tuple(reasons)


def _answer(
    resolved: Resolved, settings: Settings, model: Model, tokens: pools.Tokens, state: pools.States | None, running: int,
    reasons: tuple[Reason, ...],
) -> CachePlan:  # fmt: skip
    page, length = settings.page_size, settings.context_length
    slot = model.layout.slot
    full_cell = model.full_cell + model.charge.beside
    one = Parts(
        growing=length * full_cell,
        window=min(length, _window(model, length) + page) * model.window_cell,
        state=settings.state_slots_per_request * slot.bytes,
        padding=(pools.ceil_to(length, page) - length) * full_cell,
    )
    asked_for = resolved.plan.max_num_seqs or 1
    held = tokens.full if model.layout.full.cell else tokens.window
    kv_bytes = tokens.full * full_cell + tokens.window * model.window_cell
    pool_bytes = kv_bytes + (0 if state is None else state.charged_bytes + state.speculative_bytes)
    tight = _tight(settings, model, tokens, state, running, asked_for, held)
    return CachePlan(
        growing_bytes_per_token=full_cell, one=one, asked=one * asked_for,
        pool=Pool(
            bytes=pool_bytes, num_blocks=held // page, block_size=page, num_groups=1 + bool(settings.hybrid_swa), tokens=held,
            max_concurrency=min(held / length, running) if length else 0.0, caches=_caches(settings, model, tokens, state),
            extra=_extra(model, settings, state, running),
        ),
        max_model_len_that_fits=held, fixed=_kept(settings, model, tokens, state, running),
        state_bytes_per_sequence=slot.bytes, window_bytes_per_sequence=one.window, reasons=reasons, tight=tight,
        notes=_notes(settings, length, held), explain=_explain(settings, model, tokens, state, length),
    )  # fmt: skip


def _window(model: Model, length: int) -> int:
    return length if model.window is None else model.window


def _tight(
    settings: Settings,
    model: Model,
    tokens: pools.Tokens,
    state: pools.States | None,
    running: int,
    asked: int,
    held: int,
) -> tuple[Reason, ...]:
    """What a started engine cannot hold: its pools do not trade with each other."""
    page, length = settings.page_size, settings.context_length
    found = []
    if asked * pools.ceil_to(length, page) > held:
        found.append(
            Reason(
                "tokens",
                f"{asked} x {length} tokens were asked for, the pool holds {held}: longer requests are refused or wait",
            )
        )
    if asked > running:
        found.append(Reason("running_requests", f"{asked} sequences were asked for, at most {running} run at once"))
    if settings.hybrid_swa and tokens.full and asked * min(length, _window(model, length) + page) > tokens.window:
        found.append(Reason("window_pool", f"the window pool's {tokens.window} tokens do not hold {asked} windows"))
    return tuple(found)


def _caches(
    settings: Settings, model: Model, tokens: pools.Tokens, state: pools.States | None
) -> tuple[PoolCache, ...]:
    page, full, window, slot = settings.page_size, model.layout.full, model.layout.window, model.layout.slot
    found = []
    if full.cell:
        rows = tokens.full + page
        found.append(
            PoolCache(
                name="full", num_layers=full.num_layers, num_cells=tokens.full, k_bytes=rows * (full.k_bytes + full.index_bytes),
                v_bytes=rows * full.v_bytes, bytes=rows * full.cell,
            )
        )  # fmt: skip
    if window.cell:
        rows = tokens.window + page
        found.append(
            PoolCache(
                name="window", num_layers=window.num_layers, num_cells=tokens.window, k_bytes=rows * window.k_bytes,
                v_bytes=rows * window.v_bytes, bytes=rows * window.cell,
            )
        )  # fmt: skip
    if state is not None:
        slots = max(0, state.slots)
        found.append(
            PoolCache(name="state", num_layers=slot.num_layers, num_slots=slots, bytes=(slots + 1) * slot.bytes)
        )
    if model.charge.row is not None:
        row, rows = model.charge.row, (tokens.full or tokens.window) + page
        found.append(
            PoolCache(
                name="drafter", num_layers=row.num_layers, num_cells=rows - page, k_bytes=rows * (row.k_bytes + row.index_bytes),
                v_bytes=rows * row.v_bytes, bytes=rows * row.cell,
            )
        )  # fmt: skip
    return tuple(found)


def _kept(
    settings: Settings, model: Model, tokens: pools.Tokens, state: pools.States | None, running: int
) -> tuple[Term, ...]:
    """What is held whatever is asked: padding rows and slots, the request table, drafter rows that nothing was charged for."""
    page, draft = settings.page_size, settings.speculative_num_draft_tokens
    rows = page * (model.layout.full.cell + model.layout.window.cell)
    columns = settings.context_length + 4 + draft
    kept = [
        Term(name="pool_page", bytes=rows, inside_budget=False, rule=f"{page} more tokens than the pool hands out, not charged to the budget"),
        Term(
            name="request_table", bytes=(running + 1) * columns * 4, inside_budget=False,
            rule=f"({running} + 1 requests) x ({settings.context_length} + 4 + {draft}) x 4 B, allocated outside the budget",
        ),
    ]  # fmt: skip
    if state is not None:
        pad = state.charged_bytes - max(0, state.slots) * model.layout.slot.bytes
        if pad > 0:
            kept.append(Term(name="state_padding_slot", bytes=pad, rule="one slot more than is handed out"))
        if state.speculative_bytes:
            kept.append(
                Term(
                    name="state_speculative",
                    bytes=state.speculative_bytes,
                    rule=f"intermediate states of {draft} draft tokens",
                )
            )
    row, charge_ = model.charge.row, model.charge
    if row is not None and not (charge_.full or charge_.window or charge_.beside):
        held = (tokens.full or tokens.window) + page
        kept.append(
            Term(
                name="drafter_kv",
                bytes=held * row.cell,
                inside_budget=False,
                rule=f"{held} tokens x {row.cell} B, allocated and not charged",
            )
        )
    return tuple(kept)


def _extra(model: Model, settings: Settings, state: pools.States | None, running: int) -> dict[str, int | float]:
    slot = model.layout.slot
    found: dict[str, int | float] = {
        "max_running_requests": running,
        "cell_bytes": model.full_cell,
        "window_cell_bytes": model.window_cell,
    }
    if state is not None:
        rows = max(0, state.slots) + 1
        found |= {
            "state_bytes_per_slot": slot.bytes, "state_slots_per_request": settings.state_slots_per_request,
            "state_conv_bytes": rows * slot.conv_bytes, "state_ssm_bytes": rows * slot.ssm_bytes,
        }  # fmt: skip
        if settings.speculative_num_draft_tokens:
            found["state_intermediate_ssm_bytes"] = (
                (running + 1) * settings.speculative_num_draft_tokens * slot.ssm_bytes
            )
    return found


def _notes(settings: Settings, length: int, held: int) -> tuple[Note, ...]:
    notes = []
    if held < length:
        notes.append(
            Note(
                "pool-below-context",
                f"SGLang starts, but the pool holds {held} tokens: a request may be {held} tokens long, not {length}",
            )
        )
    if (
        settings.hybrid_swa is False
        and settings.speculative_algorithm == "NEXTN"
        and not settings.drafter_charged_layers
    ):
        notes.append(Note("drafter-not-charged", "the built-in head's cache is allocated on top of the budget"))
    return tuple(notes)


def _explain(
    settings: Settings, model: Model, tokens: pools.Tokens, state: pools.States | None, length: int
) -> tuple[tuple[str, str], ...]:
    lines = [("kv_growing", f"{length} tokens x {model.full_cell + model.charge.beside} B")]
    if model.window_cell:
        lines.append(("kv_window", f"min({length}, window + page) tokens x {model.window_cell} B"))
    if state is not None:
        lines.append(("state", f"{settings.state_slots_per_request} slots x {model.layout.slot.bytes} B"))
    lines.append(("kv_padding", f"requests take whole pages of {settings.page_size} tokens"))
    return tuple(lines)
