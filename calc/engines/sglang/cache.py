"""The cache plan: what one request reserves, what the pools hold, and each log line's figures."""

from __future__ import annotations

from calc.engines.sglang import pools
from calc.engines.sglang.draft import drafting
from calc.engines.sglang.hints import split_hints
from calc.engines.sglang.layout import Row, is_compressed
from calc.engines.sglang.model import Model, model_of
from calc.engines.sglang.refuse import pool_reasons, slack_reasons, tight_reasons
from calc.engines.sglang.settings import Settings
from calc.engines.sglang.sizing import Sized, size
from calc.engines.sglang.versions import Rules, rules_for
from calc.prediction import CachePlan, Note, Parts, Pool, PoolCache, Resolved, Term
from onboard.profile import Profile


def cache_plan(profile: Profile, resolved: Resolved, pool_bytes: int) -> CachePlan:
    """SGLang's pools. One request longer than the pool does not stop a start: it is refused when it comes."""
    settings, rules = Settings.of(resolved.derived), rules_for(resolved.version)
    if is_compressed(profile):
        from calc.engines.sglang.compressed_plan import compressed_plan

        return compressed_plan(profile, resolved, settings, pool_bytes)
    model = model_of(profile, resolved, settings, rules, drafting(profile, resolved.plan))
    sized = size(resolved.plan, settings, rules, model, pool_bytes)
    asked = -(-(resolved.plan.max_num_seqs or 1) // settings.attention_data_parallel_size)
    one, state = _one(settings, model), sized.state
    kept = _kept(settings, rules, model, sized)
    kv_bytes = sized.tokens.full * model.token_bytes + sized.tokens.window * model.window_cell
    return CachePlan(
        growing_bytes_per_token=model.token_bytes,
        one=one,
        asked=one * asked,
        pool=Pool(
            bytes=kv_bytes + (0 if state is None else state.charged_bytes + state.speculative_bytes),
            num_blocks=sized.held // settings.page_size,
            block_size=settings.page_size,
            num_groups=2 if settings.hybrid_swa else 1,
            tokens=sized.held,
            max_concurrency=_concurrency(settings, model, sized),
            caches=_caches(settings, model, sized),
            extra=_extra(settings, model, sized),
        ),
        max_model_len_that_fits=sized.held,
        fixed=kept,
        state_bytes_per_sequence=model.layout.slot.bytes,
        window_bytes_per_sequence=one.window,
        reasons=pool_reasons(settings, rules, model, sized, pool_bytes) + slack_reasons(resolved, settings, kept),
        tight=tight_reasons(settings, model, sized, asked),
        notes=_notes(settings, model, sized) + split_hints(settings, model, sized, asked, pool_bytes),
        explain=_explain(settings, model, sized, asked),
    )


def _concurrency(settings: Settings, model: Model, sized: Sized) -> float:
    """Requests of the context length at once; state slots alone decide where no layer keeps tokens."""
    if not model.token_bytes and not model.window_cell:
        return float(sized.running)
    return min(sized.held / settings.context_length, sized.running)


def _one(settings: Settings, model: Model) -> Parts:
    """One request of the context length: whole pages of tokens, its window, its state slots."""
    page, length = settings.page_size, settings.context_length
    return Parts(
        growing=length * model.token_bytes,
        window=model.request_window(length, page) * model.window_cell,
        state=settings.state_slots_per_request * model.layout.slot.bytes,
        padding=(pools.ceil_to(length, page) - length) * model.token_bytes,
    )


def _caches(settings: Settings, model: Model, sized: Sized) -> tuple[PoolCache, ...]:
    """The buffers: a page more than is handed out, and one state slot more."""
    page, slot = settings.page_size, model.layout.slot
    pools_ = (
        ("full", model.layout.full, sized.tokens.full),
        ("window", model.layout.window, sized.tokens.window),
        ("drafter", model.charge.row, sized.held),
    )
    found = []
    for name, row, tokens in pools_:
        if row is not None and row.cell:
            k_bytes, v_bytes = (tokens + page) * (row.k_bytes + row.index_bytes), (tokens + page) * row.v_bytes
            found.append(
                PoolCache(
                    name=name,
                    num_layers=row.num_layers,
                    num_cells=tokens,
                    k_bytes=k_bytes,
                    v_bytes=v_bytes,
                    bytes=k_bytes + v_bytes,
                )
            )
    if sized.state is not None:
        slots = max(0, sized.state.slots)
        size_ = (slots + 1) * slot.bytes
        found.append(PoolCache(name="state", num_layers=slot.num_layers, num_slots=slots, bytes=size_))
    return tuple(found)


def _kept(settings: Settings, rules: Rules, model: Model, sized: Sized) -> tuple[Term, ...]:
    """Held whatever is asked: padding rows and slots, the request table, drafter rows that nothing was charged for."""
    page, draft, length = settings.page_size, settings.speculative_num_draft_tokens, settings.context_length
    rows = page * (model.layout.full.cell + model.layout.window.cell)
    running, columns = sized.running, length + 4 + draft
    kept = [
        Term(
            name="pool_page",
            bytes=rows,
            inside_budget=False,
            rule=f"{page} token(s) x {rows // page:,} B; a page more than is handed out, not charged",
        ),
        Term(
            name="request_table",
            bytes=(running + rules.request_padding) * columns * 4,
            inside_budget=False,
            rule=f"({running:,} + {rules.request_padding} requests) x ({length:,} + 4 + {draft} columns) x 4 B",
        ),
    ]
    if sized.state is not None:
        rule = f"1 slot x {model.layout.slot.bytes:,} B; one more than is handed out"
        inside = rules.state_padding_slot
        kept.append(Term(name="state_padding_slot", bytes=model.layout.slot.bytes, inside_budget=inside, rule=rule))
        if sized.state.speculative_bytes:
            count = sized.state.speculative_bytes // model.layout.slot.bytes
            rule = f"{count:,} states x {model.layout.slot.bytes:,} B; intermediate states of {draft} draft tokens"
            kept.append(Term(name="state_speculative", bytes=sized.state.speculative_bytes, rule=rule))
    row = model.charge.row
    if row is not None and not model.charge.charged:
        held = sized.held + page
        rule = f"{held:,} tokens x {row.cell:,} B; allocated and not charged"
        kept.append(Term(name="drafter_kv", bytes=held * row.cell, inside_budget=False, rule=rule))
    return tuple(kept)


def _extra(settings: Settings, model: Model, sized: Sized) -> dict[str, int | float]:
    """Figures that SGLang prints and the contract has no name for."""
    slot, draft = model.layout.slot, settings.speculative_num_draft_tokens
    found: dict[str, int | float] = {
        "max_running_requests": sized.running,
        "cell_bytes": model.full_cell,
        "window_cell_bytes": model.window_cell,
    }
    if sized.state is not None:
        rows = max(0, sized.state.slots) + 1
        found["state_bytes_per_slot"] = slot.bytes
        found["state_slots_per_request"] = settings.state_slots_per_request
        found["state_conv_bytes"] = rows * slot.conv_bytes
        found["state_ssm_bytes"] = rows * slot.ssm_bytes
        if draft:
            found["state_intermediate_ssm_bytes"] = (sized.running + 1) * draft * slot.ssm_bytes
    return found


def _notes(settings: Settings, model: Model, sized: Sized) -> tuple[Note, ...]:
    notes, length = [], settings.context_length
    if sized.held < length:
        text = f"SGLang starts, but the pool holds {sized.held} tokens: no request may be longer, whatever the {length}"
        notes.append(Note("pool-below-context", text))
    if model.charge.row is not None and not model.charge.charged:
        notes.append(Note("drafter-not-charged", "the drafter's cache is allocated on top of the budget"))
    return tuple(notes)


def _explain(settings: Settings, model: Model, sized: Sized, asked: int) -> tuple[tuple[str, str], ...]:
    """One line a part, for every sequence asked for."""
    length, page = settings.context_length, settings.page_size
    times = f" x {asked} sequences" if asked > 1 else ""
    lines = [("kv_growing", f"{length:,} tokens x {model.token_bytes:,} B a token{_row(model.layout.full)}{times}")]
    if model.window_cell:
        window = model.request_window(length, page)
        cell = f"{model.window_cell:,} B a token{_row(model.layout.window)}"
        lines.append(("kv_window", f"{window:,} tokens x {cell}{times}; the window and a page, or the context"))
    if sized.state is not None:
        slot = model.layout.slot
        parts = f"[{slot.num_layers} layers: convolutions {slot.conv_bytes:,} + recurrent {slot.ssm_bytes:,}]"
        lines.append(
            ("state", f"{settings.state_slots_per_request} slots a request x {slot.bytes:,} B a slot {parts}{times}")
        )
    whole = f"(ceil({length:,} tokens / {page}) x {page} - {length:,}) x {model.token_bytes:,} B a token"
    lines.append(("kv_padding", f"{whole}{times}; whole pages"))
    return tuple(lines)


def _row(row: Row) -> str:
    """What makes a token's bytes, in brackets: all layers' K (or latents), V and index keys on this card."""
    parts = [("K or latent", row.k_bytes), ("V", row.v_bytes), ("index keys", row.index_bytes)]
    said = " + ".join(f"{name} {size:,}" for name, size in parts if size)
    return f" [{row.num_layers} layers: {said}]" if said else ""
