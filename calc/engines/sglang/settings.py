"""Every knob as SGLang would fill it for this model, card and version. `Settings` is what `Resolved.derived` holds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from calc.cards import Card
from calc.engines.sglang import compressed, knowledge
from calc.engines.sglang.defaults import Load, decode_graph_sizes, prefill_graph_sizes, static_fraction, tier
from calc.engines.sglang.kv_dtype import kv_dtype, state_dtype
from calc.engines.sglang.layout import has_indexer, is_compressed, is_latent
from calc.engines.sglang.versions import Rules, Version
from calc.plan import Plan
from onboard.layers import Heads, LatentAttention, Layer
from onboard.profile import Profile
from onboard.states import KimiDelta, StateCache

MIB = 2**20
UNSTATED_CONTEXT = 2048  # utils/hf_transformers/common.py get_context_length
EMBEDDING_CACHE_MIB = 100  # SGLANG_VLM_CACHE_SIZE_MB
IPC_FEATURES_MIB = 1024  # SGLANG_MM_FEATURE_CACHE_MB
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Plain values only. `requested` is max_running_requests before the pool is known; None: SGLang's own estimate."""

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
    requested: int | None
    speculative_algorithm: str | None
    speculative_num_draft_tokens: int
    speculative_step_tokens: int
    drafter_charged_layers: int

    @classmethod
    def of(cls, derived: dict[str, Any]) -> Settings:
        """The settings that a `Resolved.derived` holds."""
        return cls(**{f.name: derived[f.name] for f in fields(cls)})


def settle(
    profile: Profile, plan: Plan, card: Card, version: Version, rules: Rules, algorithm: str | None, drafted: int
) -> Settings:
    """Fill every knob. `algorithm` and `drafted` (layers charged for a drafter) come from `draft`."""
    archs, layers = profile.architectures, profile.layers
    dp, radix = plan.data_parallel_size, radix_cache(plan)
    multimodal = is_multimodal(profile) and not plan.language_model_only
    draft_tokens = _draft_tokens(plan, archs, algorithm)
    requested = _requested(plan, layers, algorithm)
    page = plan.page_size or page_size(profile, card, rules, algorithm)
    card_mib = card_memory_mib(card)
    chunk, max_bs = tier(rules, card_mib, plan.tensor_parallel_size)
    chunk = chunk if plan.chunked_prefill_size is None else plan.chunked_prefill_size
    max_bs = min(max_bs, requested) if plan.max_num_seqs is not None and requested else max_bs
    prefill = (
        [] if not _prefill_graph(profile, plan, multimodal) else prefill_graph_sizes(_prefill_max(archs, chunk, plan))
    )
    extra = knowledge.listed(archs, knowledge.EXTRA_STATE_BUFFER[rules.extra_state_buffer])
    overlap = extra or not any(isinstance(c, StateCache) for x in layers for c in x.caches) or is_compressed(layers)
    load = Load(
        card_mib=card_mib,
        tp=plan.tensor_parallel_size,
        pp=plan.pipeline_parallel_size,
        dp_attention=dp,
        latent=is_latent(layers),
        decode_graph=not plan.enforce_eager,
        prefill_graph=bool(prefill),
        chunk=chunk,
        decode_max_bs=max_bs,
        num_prefill_graphs=len(prefill),
        any_drafter=algorithm not in (None, "NGRAM"),
        separate_drafter=algorithm == "STANDALONE",
        vision=_vision(profile) if multimodal else None,
    )
    fraction = plan.mem_fraction_static if plan.mem_fraction_static is not None else static_fraction(rules, load)
    if knowledge.listed(archs, knowledge.NO_CHUNKED_PREFILL):
        chunk = -1
    return Settings(
        attention_tensor_parallel_size=max(1, plan.tensor_parallel_size // dp),
        attention_data_parallel_size=dp,
        page_size=page,
        context_length=plan.max_model_len or int(profile.fact("max_model_len") or UNSTATED_CONTEXT),
        chunked_prefill_size=chunk // dp if chunk > 0 else chunk,
        cuda_graph_max_bs=0 if plan.enforce_eager else max_bs,
        num_decode_graphs=0
        if plan.enforce_eager
        else len(decode_graph_sizes(max_bs, speculative=algorithm is not None)),
        num_prefill_graphs=len(prefill),
        mem_fraction_static=fraction,
        kv_format=kv_dtype(profile, plan, card, rules),
        state_dtype=state_dtype(profile, plan),
        swa_full_tokens_ratio=_swa_ratio(plan, archs, layers),
        mamba_full_memory_ratio=_ratio(plan.mamba_full_memory_ratio, archs, knowledge.STATE_RATIO, 0.9),
        hybrid_swa=_hybrid_swa(profile, plan, rules),
        radix_cache=radix,
        overlap_schedule=overlap,
        state_slots_per_request=1 if not radix else 3 + (2 if extra else 0),
        scaled_latent=_scaled_latent(profile, card, rules),
        multimodal=multimodal,
        multimodal_reserve_bytes=_reserve(archs, card, rules) if multimodal else 0,
        requested=requested,
        speculative_algorithm=algorithm,
        speculative_num_draft_tokens=draft_tokens,
        speculative_step_tokens=_step_tokens(plan, archs, draft_tokens),
        drafter_charged_layers=drafted,
    )


def card_memory_mib(card: Card) -> int:
    """nvidia-smi's total, else what torch reports (utils/common.py get_nvgpu_memory_capacity)."""
    return card.nvidia_smi_mib or card.usable_bytes // MIB


def radix_cache(plan: Plan) -> bool:
    return not plan.disable_radix_cache and plan.enable_prefix_caching is not False


def is_multimodal(profile: Profile) -> bool:
    """Whether towers are loaded: a config that nests its text model, or a listed one; text-only defaults aside."""
    if knowledge.listed(profile.architectures, knowledge.TEXT_ONLY_BY_DEFAULT):
        return False
    nested = profile.fact("text_model_at") is not None
    return nested or knowledge.listed(profile.architectures, knowledge.FLAT_MULTIMODAL)


def page_size(profile: Profile, card: Card, rules: Rules, algorithm: str | None) -> int:
    """Tokens a page when not given: what the default attention backend of the card asks for."""
    layers, archs, major = profile.layers, profile.architectures, card.compute_capability[0]
    caches = [c for x in layers for c in x.caches]
    if is_compressed(layers):
        return compressed.PAGE
    if has_indexer(layers):
        return 64 if any(isinstance(c, LatentAttention) for c in caches) else 128
    if major != 10:
        return 1
    if is_latent(layers):
        return 64 if knowledge.listed(archs, knowledge.PAGED_LATENT_SM100) else 1
    states = any(isinstance(c, StateCache) for c in caches)
    if knowledge.listed(archs, knowledge.UNPAGED_SM100) or (
        states and not knowledge.listed(archs, knowledge.EXTRA_STATE_BUFFER[rules.extra_state_buffer])
    ):
        return 1
    if algorithm is not None and _steps(archs)[1] > 1:
        return 1  # a draft tree wider than one runs on flashinfer
    return 128 if any(isinstance(c, Heads) and c.k_dim != c.v_dim for c in caches) else 64


def _requested(plan: Plan, layers: tuple[Layer, ...], algorithm: str | None) -> int | None:
    if plan.max_num_seqs is not None:
        return plan.max_num_seqs
    if is_compressed(layers):
        return compressed.REQUESTS
    return SPECULATIVE_REQUESTS if algorithm is not None else None


def _steps(archs: tuple[str, ...]) -> tuple[int, int, int]:
    return next((knowledge.SPECULATIVE_STEPS[a] for a in archs if a in knowledge.SPECULATIVE_STEPS), (3, 1, 4))


def _draft_tokens(plan: Plan, archs: tuple[str, ...], algorithm: str | None) -> int:
    """SGLang's --speculative-num-draft-tokens: given, else the algorithm's default."""
    if algorithm is None:
        return 0
    if plan.num_speculative_tokens:
        return plan.num_speculative_tokens
    if algorithm == "STANDALONE":
        return 4
    return DEFAULT_DRAFT_TOKENS.get(algorithm, _steps(archs)[2])


def _step_tokens(plan: Plan, archs: tuple[str, ...], draft_tokens: int) -> int:
    """Draft steps x top-k; one step fewer than the draft tokens where the draft is a chain."""
    steps, topk, default = _steps(archs)
    return steps * topk if draft_tokens == default and not plan.num_speculative_tokens else max(0, draft_tokens - 1)


def _prefill_graph(profile: Profile, plan: Plan, multimodal: bool) -> bool:
    """Whether prefill is captured (arg_groups/cuda_graph_hook.py disable_breakable_cudagraph_if_incompatible)."""
    if plan.enforce_eager or plan.pipeline_parallel_size > 1 or is_compressed(profile.layers):
        return False
    supported = knowledge.listed(profile.architectures, knowledge.PREFILL_GRAPH_WITH_TOWERS)
    if any(isinstance(c, KimiDelta) for x in profile.layers for c in x.caches):
        return False
    return supported or not multimodal


def _prefill_max(archs: tuple[str, ...], chunk: int, plan: Plan) -> int:
    limits = [knowledge.PREFILL_GRAPH_MAX[a] for a in archs if a in knowledge.PREFILL_GRAPH_MAX]
    limit = limits[0] if limits else chunk
    return limit if plan.max_total_tokens is None else min(limit, plan.max_total_tokens)


def _hybrid_swa(profile: Profile, plan: Plan, rules: Rules) -> bool:
    if plan.disable_hybrid_kv_cache_manager or rules.swa == "none" or is_compressed(profile.layers):
        return False
    kinds = {k for x in profile.layers for k in x.kinds()}
    windows = bool(kinds & {"window", "chunked"})
    return windows and (
        knowledge.listed(profile.architectures, knowledge.HYBRID_SWA[rules.swa_architectures])
        or bool(profile.fact("is_hybrid_swa"))
    )


def _swa_ratio(plan: Plan, archs: tuple[str, ...], layers: tuple[Layer, ...]) -> float:
    return _ratio(
        plan.swa_full_tokens_ratio,
        archs,
        knowledge.SWA_RATIO,
        compressed.WINDOW_RATIO if is_compressed(layers) else 0.8,
    )


def _ratio(given: float | None, archs: tuple[str, ...], table: dict[str, float], default: float) -> float:
    return given if given is not None else next((table[a] for a in archs if a in table), default)


def _scaled_latent(profile: Profile, card: Card, rules: Rules) -> bool:
    """Whether DSA's fp8_e4m3 rows carry scales: below compute capability 10, and listed architectures on 12."""
    if not rules.scaled_latent or not has_indexer(profile.layers):
        return False
    major = card.compute_capability[0]
    return 0 < major < 10 or (major == 12 and knowledge.listed(profile.architectures, knowledge.SCALED_LATENT_SM120))


def _vision(profile: Profile) -> tuple[int, int] | None:
    """Layers and hidden size of the vision tower as SGLang reads them; None where there is no tower to weigh."""
    if not profile.fact("has_vision_config"):
        return None
    return int(profile.fact("vision_num_layers") or 24), int(profile.fact("vision_hidden_size") or 1024)


def _reserve(archs: tuple[str, ...], card: Card, rules: Rules) -> int:
    """Bytes taken out of the pool's budget for images: the embedding cache, on large Hopper cards the transport's."""
    if not rules.multimodal_reserve:
        return 0
    hopper = card.compute_capability[0] == 9 and card_memory_mib(card) >= 60 * 1024
    if hopper and knowledge.listed(archs, knowledge.IPC_FEATURES_ON_HOPPER):
        return IPC_FEATURES_MIB * MIB
    return EMBEDDING_CACHE_MIB * MIB
