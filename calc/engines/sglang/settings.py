"""Every knob as SGLang would fill it for this model, card and version. `Settings` is what `Resolved.derived` holds."""

from __future__ import annotations

from typing import Any

from calc.cards import Card
from calc.engines.sglang import compressed, knowledge
from calc.engines.sglang.capacity import capacity
from calc.engines.sglang.features import (
    hybrid_swa,
    is_multimodal,
    multimodal_reserve,
    page_size,
    radix_cache,
    scaled_latent,
)
from calc.engines.sglang.kv_dtype import kv_dtype, state_dtype
from calc.engines.sglang.layout import holds, is_compressed
from calc.engines.sglang.versions import Rules
from calc.plan import Plan
from onboard.profile import Profile
from onboard.states import StateCache
from onboard.values import Struct, fields

UNSTATED_CONTEXT = 2048  # utils/hf_transformers/common.py get_context_length
SPECULATIVE_REQUESTS = 48  # arg_groups/speculative_hook.py, when running requests are not given
DEFAULT_DRAFT_TOKENS = {"DFLASH": 16, "NGRAM": 12}
ALGORITHMS = {
    "mtp": "NEXTN",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "dflash": "DFLASH",
    "draft_model": "STANDALONE",
    "assistant": "STANDALONE",
    "ngram": "NGRAM",
}


class Settings(Struct, frozen=True, kw_only=True):
    """Plain values only. `requested_running_requests` is max_running_requests before the pool is known; None: SGLang's
    own estimate.
    """

    attention_tensor_parallel_size: int
    attention_data_parallel_size: int
    page_size: int
    context_length: int
    chunked_prefill_size: int
    cuda_graph_max_bs: int
    num_decode_graphs: int
    num_prefill_graphs: int
    mem_fraction_static: float
    kv_format: str
    state_dtype: str
    swa_full_tokens_ratio: float
    mamba_full_memory_ratio: float
    hybrid_swa: bool
    radix_cache: bool
    overlap_schedule: bool
    state_slots_per_request: int
    scaled_latent: bool
    multimodal: bool
    multimodal_reserve_bytes: int
    requested_running_requests: int | None
    speculative_algorithm: str | None
    speculative_num_draft_tokens: int
    speculative_step_tokens: int
    drafter_charged_layers: int

    @classmethod
    def of(cls, derived: dict[str, Any]) -> Settings:
        """The settings that a `Resolved.derived` holds."""
        return cls(**{f.name: derived[f.name] for f in fields(cls)})


def settle(
    profile: Profile, plan: Plan, card: Card, rules: Rules, *, algorithm: str | None, drafter_layers: int
) -> Settings:
    """Fill every knob. `drafter_layers` are the layers that a drafter is charged in the target's rows."""
    archs, dp = profile.architectures, plan.data_parallel_size
    multimodal = is_multimodal(profile) and not plan.language_model_only
    room = capacity(profile, plan, card, rules, algorithm=algorithm, multimodal=multimodal)
    extra = knowledge.listed(archs, knowledge.EXTRA_STATE_BUFFER[rules.extra_state_buffer])
    recurrent = holds(profile, StateCache) and not is_compressed(profile)
    draft_tokens = _draft_tokens(plan, archs, algorithm)
    return Settings(
        attention_tensor_parallel_size=max(1, plan.tensor_parallel_size // dp),
        attention_data_parallel_size=dp,
        page_size=plan.page_size or page_size(profile, card, rules, algorithm),
        context_length=plan.max_model_len or int(profile.fact("max_model_len") or UNSTATED_CONTEXT),
        chunked_prefill_size=room.chunk // dp if room.chunk > 0 else room.chunk,
        cuda_graph_max_bs=room.max_bs,
        num_decode_graphs=room.num_decode_graphs,
        num_prefill_graphs=room.num_prefill_graphs,
        mem_fraction_static=room.fraction,
        kv_format=kv_dtype(profile, plan, card, rules),
        state_dtype=state_dtype(profile, plan),
        swa_full_tokens_ratio=_swa_ratio(plan, profile),
        mamba_full_memory_ratio=_ratio(plan.mamba_full_memory_ratio, archs, knowledge.STATE_RATIO, 0.9),
        hybrid_swa=hybrid_swa(profile, plan, rules),
        radix_cache=radix_cache(plan),
        overlap_schedule=extra or not recurrent,
        state_slots_per_request=(5 if extra else 3) if radix_cache(plan) else 1,
        scaled_latent=scaled_latent(profile, card, rules),
        multimodal=multimodal,
        multimodal_reserve_bytes=multimodal_reserve(archs, card, rules) if multimodal else 0,
        requested_running_requests=_requested(plan, profile, algorithm),
        speculative_algorithm=algorithm,
        speculative_num_draft_tokens=draft_tokens,
        speculative_step_tokens=_step_tokens(plan, archs, draft_tokens),
        drafter_charged_layers=drafter_layers,
    )


def _requested(plan: Plan, profile: Profile, algorithm: str | None) -> int | None:
    if plan.max_num_seqs is not None:
        return plan.max_num_seqs
    if is_compressed(profile):
        return compressed.REQUESTS
    return SPECULATIVE_REQUESTS if algorithm is not None else None


def _draft_tokens(plan: Plan, archs: tuple[str, ...], algorithm: str | None) -> int:
    """SGLang's --speculative-num-draft-tokens: given, else the algorithm's default."""
    if algorithm is None:
        return 0
    if plan.num_speculative_tokens:
        return plan.num_speculative_tokens
    if algorithm == "STANDALONE":
        return 4
    return DEFAULT_DRAFT_TOKENS.get(algorithm, knowledge.speculative_steps(archs)[2])


def _step_tokens(plan: Plan, archs: tuple[str, ...], draft_tokens: int) -> int:
    """Draft steps x top-k; one step fewer than the draft tokens where the draft is a chain."""
    steps, topk, default = knowledge.speculative_steps(archs)
    return steps * topk if draft_tokens == default and not plan.num_speculative_tokens else max(0, draft_tokens - 1)


def _swa_ratio(plan: Plan, profile: Profile) -> float:
    return _ratio(
        plan.swa_full_tokens_ratio,
        profile.architectures,
        knowledge.SWA_RATIO,
        compressed.WINDOW_RATIO if is_compressed(profile) else 0.8,
    )


def _ratio(given: float | None, archs: tuple[str, ...], table: dict[str, float], default: float) -> float:
    return given if given is not None else next((table[a] for a in archs if a in table), default)
