"""Knobs SGLang does not have, and what keeps it from starting before any memory is counted."""

from __future__ import annotations

from collections.abc import Iterable

from calc.cards import Card
from calc.engines.sglang import knowledge
from calc.engines.sglang.budget import before_weights_bytes, budget_bytes
from calc.engines.sglang.kv_dtype import kv_problem
from calc.engines.sglang.layout import has_indexer, holds, is_latent
from calc.engines.sglang.model import Model
from calc.engines.sglang.pools import ceil_to
from calc.engines.sglang.settings import Settings
from calc.engines.sglang.sizing import Sized
from calc.engines.sglang.versions import Rules
from calc.in_flight import quantization_problem
from calc.plan import Plan
from calc.prediction import Reason, Resolved, Term
from calc.weights import wanted_variant
from onboard.errors import UnknownKnob
from onboard.layers import Compressed, CrossAttention
from onboard.profile import Profile
from onboard.states import StateCache
from onboard.tp import tp_problem

COMMON = frozenset(
    {
        "engine",
        "card",
        "vram_gib",
        "gpus",
        "weights",
        "weights_gb",
        "drafter",
        "drafter_gb",
        "activation_model",
        "include_draft_kv",
        "draft_kv_gb",
        "compressed_layers",
        "compression_ratio",
        "compressed_head_dim",
        "indexer_ratio_layers",
        "indexer_compress_ratio",
        "indexer_head_dim",
        "indexer_format",
    }
)
KNOBS = frozenset(
    {
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "enable_expert_parallel",
        "max_model_len",
        "max_num_seqs",
        "kv_cache_dtype",
        "kv_cache_memory_bytes",
        "enable_prefix_caching",
        "enforce_eager",
        "disable_hybrid_kv_cache_manager",
        "language_model_only",
        "mamba_ssm_cache_dtype",
        "num_speculative_tokens",
        "max_loras",
        "max_lora_rank",
        "quantization",
        "mem_fraction_static",
        "page_size",
        "swa_full_tokens_ratio",
        "mamba_full_memory_ratio",
        "disable_radix_cache",
        "chunked_prefill_size",
        "max_total_tokens",
        "max_mamba_cache_size",
    }
)
INSTEAD = {
    "gpu_memory_utilization": "--mem-fraction-static",
    "block_size": "--page-size",
    "max_num_batched_tokens": "--chunked-prefill-size",
    "batch_size": "--chunked-prefill-size",
    "cache_type_k": "--kv-cache-dtype",
    "swa_full": "--swa-full-tokens-ratio 1",
}

COMPRESSED_SINCE = (0, 5, 15)  # DSV4PoolConfigurator


def check_knobs(plan: Plan) -> None:
    """Raises UnknownKnob, naming SGLang's own option where it has one."""
    for name, value in plan.given().items():
        if name not in KNOBS | COMMON:
            option = "--" + name.replace("_", "-")
            raise UnknownKnob(
                f"SGLang has no {option}",
                path=option,
                value=value,
                hint=f"it has {INSTEAD[name]}" if name in INSTEAD else "",
            )


def start_reasons(profile: Profile, plan: Plan, card: Card, rules: Rules) -> tuple[Reason, ...]:
    """TP or DP attention that does not divide, a KV format that is not there, a hybrid that SGLang has no model for."""
    reasons = []
    problem = tp_problem(profile, plan.tensor_parallel_size)
    if problem:
        reasons.append(Reason("tp", problem))
    if plan.tensor_parallel_size % plan.data_parallel_size:
        reasons.append(Reason("tp", f"--dp {plan.data_parallel_size} does not divide --tp {plan.tensor_parallel_size}"))
    kv = kv_problem(profile, plan, card)
    if kv:
        reasons.append(Reason("kv_dtype", kv))
    packed = quantization_problem(profile, wanted_variant(profile, plan.weights), plan.quantization)
    reasons += [packed] if packed else []
    missing = _missing_model(profile, rules)
    if missing:
        names = ", ".join(profile.architectures) or "an architecture that the config does not name"
        version = ".".join(map(str, rules.first))
        reasons.append(Reason("architecture", f"SGLang {version} has no model for {names}: {missing}"))
    return tuple(reasons)


def _missing_model(profile: Profile, rules: Rules) -> str:
    """What that release cannot run; "" where nothing is known to be amiss."""
    if holds(profile, Compressed):
        return "" if rules.first >= COMPRESSED_SINCE else "it keeps no compressed entries"
    if rules.dsa_indexer == "none" and is_latent(profile) and has_indexer(profile):
        return "it has no sparse attention"
    if holds(profile, StateCache) and profile.architectures:
        native = knowledge.listed(profile.architectures, knowledge.NATIVE_STATE)
        return "" if native else "its fallback to transformers keeps no recurrent state"
    served = knowledge.listed(profile.architectures, knowledge.CROSS_ATTENTION)
    return "it runs no such encoder" if holds(profile, CrossAttention) and not served else ""


def pool_reasons(settings: Settings, rules: Rules, model: Model, sized: Sized, pool_bytes: int) -> tuple[Reason, ...]:
    """Why the pools cannot be built (kv_cache_configurator.py, pool_configurator.py validate_swa_pool_size)."""
    reasons = []
    state = sized.state
    if pool_bytes <= 0:
        text = f"weights leave no memory for the cache under mem_fraction_static {settings.mem_fraction_static:.3f}"
        reasons.append(Reason("memory", text))
    elif state is not None and (state.slots <= 0 or state.slots < settings.state_slots_per_request):
        text = f"{max(0, state.slots)} state slots, and each request takes {settings.state_slots_per_request}"
        reasons.append(Reason("state_slots", text))
    elif sized.held <= 0:
        reasons.append(Reason("memory", "the pool holds not one page; raise mem_fraction_static"))
    elif settings.hybrid_swa and rules.swa == "direct" and model.full_cell and not sized.window_capped:
        floor = (model.window or 0) + settings.page_size
        if model.window is not None and floor >= sized.tokens.window:
            text = f"the window pool holds {sized.tokens.window} tokens; prefill needs over {floor} (window + page)"
            reasons.append(Reason("window_pool", text))
    return tuple(reasons)


def slack_reasons(resolved: Resolved, settings: Settings, kept: Iterable[Term]) -> tuple[Reason, ...]:
    """Whether what is allocated beside the budget for certain (the request table above all) outgrows what is left free.

    A pool of given bytes says nothing about the card, so nothing is refused then.
    """
    if resolved.plan.kv_cache_memory_bytes is not None:
        return ()
    free = resolved.card.usable_bytes - before_weights_bytes(resolved, 0) - budget_bytes(resolved, settings)
    beside = {t.name: t.bytes for t in kept if not t.inside_budget}
    if sum(beside.values()) <= free:
        return ()
    largest = max(beside, key=lambda name: beside[name]).replace("_", " ")
    text = (
        f"{sum(beside.values())} bytes are allocated beside the budget (the {largest} most), and {free} are left free"
    )
    return (Reason("free_memory", text + "; lower --context-length or --max-running-requests"),)


def tight_reasons(settings: Settings, model: Model, sized: Sized, asked: int) -> tuple[Reason, ...]:
    """What a started engine cannot hold; its pools do not trade with each other. `asked` sequences on one card."""
    page, length = settings.page_size, settings.context_length
    found = []
    if asked * ceil_to(length, page) > sized.held:
        found.append(Reason("tokens", f"{asked} x {length} tokens were asked for, the pool holds {sized.held}"))
    if asked > sized.running:
        found.append(
            Reason("running_requests", f"{asked} sequences were asked for, at most {sized.running} run at once")
        )
    if sized.tokens.full and sized.tokens.window and asked * model.request_window(length, page) > sized.tokens.window:
        found.append(
            Reason("window_pool", f"the window pool's {sized.tokens.window} tokens do not hold {asked} windows")
        )
    return tuple(found)
