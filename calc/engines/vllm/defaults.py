"""Every knob a plan leaves open, as that release of vLLM sets it for that card.

Sources: vLLM 0.33 engine/arg_utils.py:2940 (batch sizes), :3041 (prefix caching), config/vllm.py:588 (batches in
flight), :1640 (async scheduling), config/model.py:2643 (length), models/config.py:750 (state mode); 0.20.2
models/config.py:338; 0.11.0 engine/arg_utils.py:1605.
"""

from __future__ import annotations

from typing import Any

from calc.cards import Card
from calc.engines.vllm.kv_dtype import KvDtype, resolve_kv_dtype
from calc.engines.vllm.shape import Shape, shape_of
from calc.engines.vllm.versions import Rules, Version, known_version, rules_for
from calc.memo import remembered
from calc.plan import Plan
from calc.prediction import Note, Reason, Resolved
from calc.speculation import Speculation, speculation
from calc.units import GIB
from onboard.profile import Profile
from onboard.states import StateCache
from onboard.values import Struct, replace

#: State families whose classes keep a state for every block (SupportsMambaPrefixCaching).
ALL_MODE_FAMILIES = frozenset({"mamba", "mamba2"})


class BatchDefaults(Struct, frozen=True):
    """What `vllm serve` takes where the two flags are not given."""

    max_num_batched_tokens: int
    max_num_seqs: int


def batch_defaults(card: Card, rules: Rules) -> BatchDefaults:
    """`vllm serve` defaults by the card's memory; A100 is told by its name."""
    if rules.large_card_tier and card.usable_bytes >= 160 * GIB:
        return BatchDefaults(16384, 1024)
    name = f"{card.product} {card.name}".lower()
    small = "a100" in name or (rules.gb10_small_tier and card.compute_capability == (12, 1))
    if card.usable_bytes >= 70 * GIB and not small:
        return BatchDefaults(8192, 1024)
    return BatchDefaults(2048, 256)


def resolve(profile: Profile, plan: Plan, card: Card, version_text: str | None) -> Resolved:
    """The plan with every knob filled in, the derived values by name, and a note for each default used."""
    version, text, outside = known_version(version_text)
    rules = rules_for(version)
    shape = shape_of(profile)
    notes: list[Note] = [Note("engine-version", outside)] if outside else []
    spec = speculation(profile, plan)
    kv = kv_of(profile, plan.kv_cache_dtype, version, card)
    length = plan.max_model_len or own_length(profile, rules)
    sequences, batched = _batches(plan, card, rules, length, notes)
    caching, mode, reasons = _state_mode(profile, plan, shape, rules, spec, notes)
    in_flight, asynchronous = _in_flight(plan, shape, rules, batched)
    utilization = plan.gpu_memory_utilization
    if utilization is None:
        utilization = float(rules.utilization)
        notes.append(_default_note("gpu-memory-utilization", utilization))
    if plan.max_model_len is None:
        notes.append(_default_note("max-model-len", f"{length:,} (the model's own)"))
    used = replace(
        plan,
        max_model_len=length,
        max_num_seqs=sequences,
        max_num_batched_tokens=batched,
        gpu_memory_utilization=utilization,
        kv_cache_dtype=kv.name,
        enable_prefix_caching=caching,
        mamba_cache_mode=mode,
        async_scheduling=asynchronous,
        num_speculative_tokens=spec.num_tokens if spec else 0,
    )
    derived: dict[str, Any] = {"max_in_flight_tokens": in_flight, "sequences_asked": plan.max_num_seqs or 1}
    return Resolved(
        plan=used, engine="vllm", version=version, version_text=text, card=card, derived=derived,
        notes=(*notes, *kv.notes), reasons=(*kv.reasons, *reasons),
    )  # fmt: skip


def kv_of(profile: Profile, asked: str, version: Version, card: Card) -> KvDtype:
    """The KV format stored; worked out once for a profile, name, release and card generation."""
    capability = card.compute_capability
    return remembered(
        profile,
        ("kv", asked, version, capability),
        lambda: resolve_kv_dtype(shape_of(profile), asked, rules_for(version), version, capability),
    )


#: What vLLM assumes where no key of the config states a length (config/model.py:2589).
ASSUMED_LENGTH = 2048


def own_length(profile: Profile, rules: Rules) -> int:
    """The length served where none is given: LongRoPE models' original one, else the model's own."""
    original = profile.fact("original_max_model_len")
    if rules.longrope_default_is_original and isinstance(original, int):
        return original
    length = profile.fact("max_model_len")
    return length if isinstance(length, int) else ASSUMED_LENGTH


def _default_note(option: str, value: object) -> Note:
    shown = f"{value:,}" if isinstance(value, int) else value
    return Note("default", f"--{option} not given: {shown}")


def _batches(plan: Plan, card: Card, rules: Rules, length: int, notes: list[Note]) -> tuple[int, int]:
    defaults = batch_defaults(card, rules)
    sequences = plan.max_num_seqs or defaults.max_num_seqs
    batched = plan.max_num_batched_tokens
    if batched is None:
        batched = min(defaults.max_num_batched_tokens, sequences * length)
        notes.append(_default_note("max-num-batched-tokens", batched))
    if plan.max_num_seqs is None:
        sequences = min(sequences, batched)
        notes.append(_default_note("max-num-seqs", sequences))
    return sequences, batched


def _in_flight(plan: Plan, shape: Shape, rules: Rules, batched: int) -> tuple[int, bool]:
    """Tokens scheduled and not yet settled: one batch, or every concurrent batch since 0.26."""
    asynchronous = plan.async_scheduling
    if asynchronous is None:
        asynchronous = rules.async_by_default and not shape.pooling
    stages = plan.pipeline_parallel_size
    if not rules.batches_in_flight:
        return batched, asynchronous
    batches = stages
    if asynchronous:
        batches = stages + 1 if rules.pipeline_adds_batch or stages == 1 else stages
    return batches * batched, asynchronous


def _state_mode(
    profile: Profile, plan: Plan, shape: Shape, rules: Rules, spec: Speculation | None, notes: list[Note]
) -> tuple[bool, str, tuple[Reason, ...]]:
    """(prefix caching, state mode, refusals). Models without states have mode none and caching on."""
    if not shape.states:
        return plan.enable_prefix_caching is not False, "none", ()
    asked = plan.enable_prefix_caching
    keeps_all = "all" in rules.state_modes and _families(profile) <= ALL_MODE_FAMILIES
    if rules.state_prefix_caching == "forced-off" or (rules.state_prefix_caching == "by-class" and not keeps_all):
        if asked:
            notes.append(
                Note("prefix-caching", "this release turns prefix caching off for models with recurrent state")
            )
        return False, "none", ()
    caching = asked if asked is not None else rules.state_prefix_caching == "on" and shape.attention
    if asked is None:
        notes.append(_default_note("enable-prefix-caching", "on" if caching else "off"))
    if not caching:
        return False, "none", ()
    mode = "all" if keeps_all and not (rules.align_when_speculating and spec is not None) else "align"
    wanted = plan.mamba_cache_mode
    if wanted in ("all", "align") and wanted != mode:
        if wanted not in rules.state_modes:
            reason = Reason(
                "mamba_cache_mode",
                f"this release has no --mamba-cache-mode {wanted}; it has {', '.join(rules.state_modes)}",
            )
            return True, mode, (reason,)
        mode = wanted if wanted == "align" or keeps_all else "align"
    return True, mode, ()


def _families(profile: Profile) -> frozenset[str]:
    return remembered(
        profile,
        "families",
        lambda: frozenset(s.family for s, _ in profile.cache_groups if isinstance(s, StateCache)),
    )
