"""What changed between SGLang's releases, as data. A version uses the newest entry that is not newer than itself.

Sources: the wheels of 0.4.9, 0.5.2, 0.5.9, 0.5.15 and 0.5.23 (server_args.py, model_runner.py,
model_runner_kv_cache_mixin.py, pool_configurator.py, arg_groups/memory_hook.py).
"""

from __future__ import annotations

import re

from onboard.errors import UnknownEngine
from onboard.values import Struct, replace

Version = tuple[int, ...]
# Memory tier in MiB, chunked_prefill_size, decode graph max_bs below TP 4 and from TP 4 up.
Tier = tuple[float, int, int, int]
INF = float("inf")


class Rules(Struct, frozen=True, kw_only=True):
    """One release's constants. Sizes in MiB where the engine computes in MiB.

    `tiers` ends with the open one; `unknown_card` is (chunk, max_bs, fraction) where nvidia-smi's total is not known.
    `reserve_tiers` is the older fixed reserve as (tier MiB, GiB, GiB a card of TP x PP); empty from the release on that
    computes it. `speculative_mib` is (any drafter, a separate draft model).
    """

    first: Version
    tiers: tuple[Tier, ...]
    unknown_card: tuple[int, int, float]
    reserve_tiers: tuple[tuple[float, float, float], ...] = ()
    reserve_dp_mib: int = 0
    speculative_mib: tuple[int, int] = (0, 0)
    prefill_graph_in_reserve: bool = True
    decode_graph_in_reserve: bool = True
    flat_vlm_factor: float | None = None
    multimodal_reserve: bool = True  # the embedding cache is taken out of the pool's budget
    v_head_dim: bool = True  # K and V rows may differ in width
    dsa_indexer: str = "computing"  # none, every layer, or the layers that compute top-k
    scaled_latent: bool = True  # DSA's fp8 rows carry scales in the sized cell
    swa: str = "direct"  # none, total (one token total first), direct
    swa_architectures: int = 0  # index into knowledge.HYBRID_SWA
    state_padding_slot: bool = True  # the extra state slot is charged
    extra_state_buffer: int = 2  # index into knowledge.EXTRA_STATE_BUFFER
    draft_states_first: bool = False  # a drafter's states come off the budget before the state pool's share
    checkpoint_kv: bool = True  # auto takes the KV format that a checkpoint declares
    request_padding: int = 1  # rows of the request table beyond the requests
    draft_headroom: bool = False  # the pool is made longer by what running requests draft
    draft_in_cell: bool = True  # a drafter's rows are charged to the target's cell
    own_dflash_rows: bool = True  # a DFLASH drafter is charged its own rows, not the target's scaled by layers
    min_requests_by_tokens: bool = True  # R <= tokens // 2


_OLD_TIERS: tuple[Tier, ...] = ((35 * 1024, 2048, 8, 80), (160 * 1024, 8192, 160, 160), (INF, 16384, 160, 160))
_OLD_RESERVE = ((35 * 1024, 2.8, 0.1), (90 * 1024, 9.5, 0.5), (160 * 1024, 12.0, 0.5), (INF, 32.0, 0.0))
_TIERS: tuple[Tier, ...] = (
    (20 * 1024, 2048, 8, 8),
    (35 * 1024, 4096, 48, 160),
    (60 * 1024, 4096, 32, 160),
    (90 * 1024, 8192, 256, 512),
    (160 * 1024, 8192, 256, 512),
    (INF, 16384, 512, 512),
)
_MIDDLE_TIERS: tuple[Tier, ...] = (_TIERS[0], (35 * 1024, 2048, 24, 80), *_TIERS[2:])

# Newest first: an older release is the one after it, but for what stands here.
_0_5_23 = Rules(first=(0, 5, 23), tiers=_TIERS, unknown_card=(4096, 160, 0.95), swa_architectures=2)
_0_5_15 = replace(
    _0_5_23,
    first=(0, 5, 15),
    tiers=_MIDDLE_TIERS,
    unknown_card=(4096, 160, 0.88),
    multimodal_reserve=False,
    dsa_indexer="every",
    scaled_latent=False,
    swa_architectures=1,
    state_padding_slot=False,
    extra_state_buffer=1,
    own_dflash_rows=False,
)
_0_5_9 = replace(
    _0_5_15,
    first=(0, 5, 9),
    speculative_mib=(2048, 6144),
    prefill_graph_in_reserve=False,
    swa="total",
    swa_architectures=0,
    extra_state_buffer=0,
    draft_states_first=True,
    request_padding=0,
    draft_in_cell=False,
    own_dflash_rows=True,
    min_requests_by_tokens=False,
)
_0_5_2 = replace(
    _0_5_9,
    first=(0, 5, 2),
    tiers=_OLD_TIERS,
    reserve_tiers=_OLD_RESERVE,
    reserve_dp_mib=4096,
    prefill_graph_in_reserve=True,
    v_head_dim=False,
    dsa_indexer="none",
    swa="none",
    checkpoint_kv=False,
    draft_headroom=True,
)
_0_4_9 = replace(_0_5_2, first=(0, 4, 9), speculative_mib=(2048, 2048), flat_vlm_factor=0.9)
RULES: tuple[Rules, ...] = (_0_4_9, _0_5_2, _0_5_9, _0_5_15, _0_5_23)
NEWEST = RULES[-1]


def parse(text: str | None) -> Version:
    """`0.5.9` -> (0, 5, 9); none, or `0.5`, is the newest release known. Raises UnknownEngine."""
    if text is None:
        return NEWEST.first
    match = re.fullmatch(r"v?(\d{1,5})\.(\d{1,5})(?:\.(\d{1,5})(?:\D.*)?)?", text)
    if match is None:
        raise UnknownEngine("SGLang's versions look like 0.5.23", path="--engine", value=text)
    version = tuple(int(part) for part in match.groups() if part is not None)
    if len(version) == 2:
        same = [r.first for r in RULES if r.first[:2] == version]
        version = same[-1] if same else (*version, 0)
    if version < RULES[0].first:
        raise UnknownEngine("rules start at SGLang 0.4.9", path="--engine", value=text, hint="name 0.4.9 or later")
    return version


def rules_for(version: Version) -> Rules:
    """The newest rules that are not newer than `version`."""
    return [r for r in RULES if r.first <= version][-1]
