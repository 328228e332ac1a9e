"""What this model, card and release make of SGLang's switches: pages, window pool, towers, row layouts.

Sources: configs/model_config.py, arg_groups/overrides.py and arg_groups/model_overrides of the 0.5.23 wheel.
"""

from __future__ import annotations

from calc.cards import Card
from calc.engines.sglang import compressed, knowledge
from calc.engines.sglang.layout import WINDOWS, has_indexer, holds, is_compressed, is_latent
from calc.engines.sglang.versions import Rules
from calc.plan import Plan
from onboard.layers import Heads
from onboard.profile import Profile
from onboard.states import StateCache

MIB = 2**20
EMBEDDING_CACHE_MIB = 100  # SGLANG_VLM_CACHE_SIZE_MB
IPC_FEATURES_MIB = 1024  # SGLANG_MM_FEATURE_CACHE_MB


def card_memory_mib(card: Card) -> int:
    """nvidia-smi's total, else what torch reports (utils/common.py get_nvgpu_memory_capacity)."""
    return card.nvidia_smi_mib or card.usable_bytes // MIB


def radix_cache(plan: Plan) -> bool:
    """Whether prefixes are reused: on unless either flag switches it off."""
    return not plan.disable_radix_cache and plan.enable_prefix_caching is not False


def is_multimodal(profile: Profile) -> bool:
    """Whether towers are loaded: a config that nests its text model, or a listed one; text-only defaults aside."""
    if knowledge.listed(profile.architectures, knowledge.TEXT_ONLY_BY_DEFAULT):
        return False
    nested = profile.fact("text_model_at") is not None
    return nested or knowledge.listed(profile.architectures, knowledge.FLAT_MULTIMODAL)


def page_size(profile: Profile, card: Card, rules: Rules, algorithm: str | None) -> int:
    """Tokens a page when not given: what the default attention backend of the card asks for."""
    archs, major = profile.architectures, card.compute_capability[0]
    if is_compressed(profile):
        return compressed.PAGE
    if has_indexer(profile):
        return 64 if is_latent(profile) else 128
    if major != 10:
        return 1
    if is_latent(profile):
        return 64 if knowledge.listed(archs, knowledge.PAGED_LATENT_SM100) else 1
    if knowledge.listed(archs, knowledge.UNPAGED_SM100) or (
        holds(profile, StateCache)
        and not knowledge.listed(archs, knowledge.EXTRA_STATE_BUFFER[rules.extra_state_buffer])
    ):
        return 1
    if algorithm is not None and knowledge.speculative_steps(archs)[1] > 1:
        return 1  # a draft tree wider than one runs on flashinfer
    return 128 if any(isinstance(c, Heads) and c.k_dim != c.v_dim for c, _ in profile.cache_groups) else 64


def hybrid_swa(profile: Profile, plan: Plan, rules: Rules) -> bool:
    """Whether windows get a pool of their own: a listed architecture, or a config that says so."""
    if plan.disable_hybrid_kv_cache_manager or rules.swa == "none" or is_compressed(profile):
        return False
    return holds(profile, *WINDOWS) and (
        knowledge.listed(profile.architectures, knowledge.HYBRID_SWA[rules.swa_architectures])
        or bool(profile.fact("is_hybrid_swa"))
    )


def scaled_latent(profile: Profile, card: Card, rules: Rules) -> bool:
    """Whether DSA's fp8_e4m3 rows carry scales: below compute capability 10, and listed architectures on 12."""
    if not rules.scaled_latent or not has_indexer(profile):
        return False
    major = card.compute_capability[0]
    return 0 < major < 10 or (major == 12 and knowledge.listed(profile.architectures, knowledge.SCALED_LATENT_SM120))


def multimodal_reserve(archs: tuple[str, ...], card: Card, rules: Rules) -> int:
    """Bytes taken out of the pool's budget for images: the embedding cache, on large Hopper cards the transport's."""
    if not rules.multimodal_reserve:
        return 0
    hopper = card.compute_capability[0] == 9 and card_memory_mib(card) >= 60 * 1024
    if hopper and knowledge.listed(archs, knowledge.IPC_FEATURES_ON_HOPPER):
        return IPC_FEATURES_MIB * MIB
    return EMBEDDING_CACHE_MIB * MIB
