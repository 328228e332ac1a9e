"""The cache plan of models with compressed entries (see `compressed` for the arithmetic)."""

from __future__ import annotations

from calc.engines.sglang import compressed
from calc.engines.sglang.pools import ceil_to, running_requests
from calc.engines.sglang.refuse import slack_reasons
from calc.engines.sglang.settings import Settings
from calc.prediction import CachePlan, Note, Parts, Pool, Reason, Resolved, Term
from onboard.profile import Profile


def compressed_plan(profile: Profile, resolved: Resolved, settings: Settings, pool_bytes: int) -> CachePlan:
    """Pools by bytes a full token; the window's share of it and the request-scoped states are told apart."""
    k = compressed.kinds(profile.layers, int(profile.require("qk_rope_head_dim")))
    requests = max(1, (settings.requested or compressed.REQUESTS) // settings.attention_data_parallel_size)
    ratio, draft = settings.swa_full_tokens_ratio, settings.speculative_num_draft_tokens
    sized = compressed.size(
        pool_bytes, k, requests=requests, ratio=ratio, draft_tokens=draft, limit=resolved.plan.max_total_tokens
    )
    running = running_requests(
        tokens=sized.full, context_len=settings.context_length, requested=requests, state_cap=None, by_tokens=True
    )
    length, asked_for = (
        settings.context_length,
        -(-(resolved.plan.max_num_seqs or 1) // settings.attention_data_parallel_size),
    )
    one = Parts(
        growing=round(length * sized.bytes_per_token),
        padding=round((ceil_to(length, compressed.PAGE) - length) * sized.bytes_per_token),
    )
    reasons = []
    if pool_bytes <= 0 or sized.full <= 0:
        reasons.append(
            Reason("memory", "the pools hold not one page; raise mem_fraction_static or lower max_running_requests")
        )
    elif k.window + compressed.PAGE >= sized.window:
        reasons.append(
            Reason(
                "window_pool", f"the window pool's {sized.window} tokens hold no request (window {k.window} + page 256)"
            )
        )
    tight = []
    if asked_for * ceil_to(length, compressed.PAGE) > sized.full:
        tight.append(Reason("tokens", f"{asked_for} x {length} tokens were asked for, the pool holds {sized.full}"))
    if asked_for > running:
        tight.append(Reason("running_requests", f"{asked_for} sequences were asked for, at most {running} run at once"))
    columns = length + 4 + draft
    kept = (
        Term(
            name="state_requests",
            bytes=sized.fixed_bytes,
            rule=f"compressor states of {requests} requests, whatever the tokens",
        ),
        Term(
            name="request_table",
            bytes=(running + 1) * columns * 4,
            inside_budget=False,
            rule=f"({running} + 1 requests) x ({length} + 4 + {draft}) x 4 B, allocated outside the budget",
        ),
    )
    return CachePlan(
        growing_bytes_per_token=sized.bytes_per_token,
        one=one,
        asked=one * asked_for,
        pool=Pool(
            bytes=round(sized.full * sized.bytes_per_token) + sized.fixed_bytes,
            num_blocks=sized.full // compressed.PAGE,
            block_size=compressed.PAGE,
            num_groups=2,
            tokens=sized.full,
            max_concurrency=min(sized.full / length, running),
            caches=sized.caches,
            extra={"max_running_requests": running, "cell_bytes": sized.bytes_per_token},
        ),
        max_model_len_that_fits=sized.full,
        fixed=kept,
        reasons=(*reasons, *slack_reasons(resolved, settings, kept)),
        tight=tuple(tight),
        notes=(Note("not-calibrated", "no boot of this layout is known to check against"),),
        explain=(
            (
                "kv_growing",
                f"{length} tokens x {sized.bytes_per_token:g} B (window pool's share of {ratio:g} included)",
            ),
        ),
    )
