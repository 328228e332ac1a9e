"""The cache plan of models with compressed entries (see `compressed` for the arithmetic)."""

from __future__ import annotations

from calc.arithmetic import num
from calc.engines.sglang import compressed
from calc.engines.sglang.pools import ceil_to, running_requests
from calc.engines.sglang.refuse import slack_reasons
from calc.engines.sglang.settings import Settings
from calc.prediction import CachePlan, Note, Parts, Pool, Reason, Resolved, Term
from onboard.profile import Profile


def compressed_plan(profile: Profile, resolved: Resolved, settings: Settings, pool_bytes: int) -> CachePlan:
    """Pools by bytes a full token, the window pool's share in it; request-scoped states are told apart."""
    k = compressed.kinds(profile.layers, int(profile.require("qk_rope_head_dim")))
    dp, length = settings.attention_data_parallel_size, settings.context_length
    requests = max(1, (settings.requested_running_requests or compressed.REQUESTS) // dp)
    sized = compressed.size(
        pool_bytes,
        k,
        requests=requests,
        ratio=settings.swa_full_tokens_ratio,
        draft_tokens=settings.speculative_num_draft_tokens,
        limit=resolved.plan.max_total_tokens,
    )
    running = running_requests(
        tokens=sized.full, context_len=length, requested=requests, state_cap=None, by_tokens=True
    )
    asked = -(-(resolved.plan.max_num_seqs or 1) // dp)
    padding = ceil_to(length, compressed.PAGE) - length
    one = Parts(growing=round(length * sized.bytes_per_token), padding=round(padding * sized.bytes_per_token))
    kept = _kept(settings, sized, requests, running)
    times = f" x {asked} sequences" if asked > 1 else ""
    share = f"the window pool's share of {settings.swa_full_tokens_ratio:g} in it"
    return CachePlan(
        growing_bytes_per_token=sized.bytes_per_token,
        one=one,
        asked=one * asked,
        pool=_pool(sized, length, running),
        max_model_len_that_fits=sized.full,
        fixed=kept,
        reasons=(*_reasons(k, sized, pool_bytes), *slack_reasons(resolved, settings, kept)),
        tight=_tight(sized, length, asked, running),
        notes=(Note("not-calibrated", "no boot of this layout is known to check against"),),
        explain=(("kv_growing", f"{length:,} tokens x {num(sized.bytes_per_token)} B a token{times}; {share}"),),
    )


def _pool(sized: compressed.Sized, length: int, running: int) -> Pool:
    return Pool(
        bytes=round(sized.full * sized.bytes_per_token) + sized.fixed_bytes,
        num_blocks=sized.full // compressed.PAGE,
        block_size=compressed.PAGE,
        num_groups=2,
        tokens=sized.full,
        max_concurrency=min(sized.full / length, running),
        caches=sized.caches,
        extra={"max_running_requests": running, "cell_bytes": sized.bytes_per_token},
    )


def _kept(settings: Settings, sized: compressed.Sized, requests: int, running: int) -> tuple[Term, ...]:
    length, draft = settings.context_length, settings.speculative_num_draft_tokens
    return (
        Term(
            name="state_requests",
            bytes=sized.fixed_bytes,
            rule=f"{sized.fixed_bytes:,} B; compressor states of {requests} requests, whatever the tokens",
        ),
        Term(
            name="request_table",
            bytes=(running + 1) * (length + 4 + draft) * 4,
            inside_budget=False,
            rule=f"({running:,} + 1 requests) x ({length:,} + 4 + {draft} columns) x 4 B",
        ),
    )


def _reasons(k: compressed.Kinds, sized: compressed.Sized, pool_bytes: int) -> tuple[Reason, ...]:
    if pool_bytes <= 0 or sized.full <= 0:
        text = "the pools hold not one page; raise mem_fraction_static or lower max_running_requests"
        return (Reason("memory", text),)
    if k.window + compressed.PAGE >= sized.window:
        text = f"the window pool's {sized.window} tokens hold no request (window {k.window} + page {compressed.PAGE})"
        return (Reason("window_pool", text),)
    return ()


def _tight(sized: compressed.Sized, length: int, asked: int, running: int) -> tuple[Reason, ...]:
    found = []
    if asked * ceil_to(length, compressed.PAGE) > sized.full:
        found.append(Reason("tokens", f"{asked} x {length} tokens were asked for, the pool holds {sized.full}"))
    if asked > running:
        found.append(Reason("running_requests", f"{asked} sequences were asked for, at most {running} run at once"))
    return tuple(found)
