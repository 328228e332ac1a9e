"""LoRA slots: reserved at start for `max_loras` adapters at `max_lora_rank`, whatever the adapters need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calc.estimates.unstated import VOCAB
from calc.prediction import Resolved, Term
from onboard.errors import UsageError, WeightsUnknown
from onboard.profile import Profile
from onboard.sourced import Sourced

if TYPE_CHECKING:
    from onboard.facts import Facts

DEFAULT_RANK = 16  # vLLM 0.33 config/lora.py max_lora_rank
DEFAULT_SLOTS = 1  # max_loras
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def adapters_term(profile: Profile, resolved: Resolved) -> Term | None:
    """The `adapters` term, or None where no LoRA is asked for. Raises UsageError on a rank the engine has not.

    bytes = slots x rank x sum over targeted modules of (inputs + outputs, the sharded side over TP) x dtype.
    The upper end adds the slots of the embedding and the head, which some versions allocate too.
    """
    plan = resolved.plan
    if plan.max_loras is None and plan.max_lora_rank is None:
        return None
    slots, rank = plan.max_loras or DEFAULT_SLOTS, plan.max_lora_rank or DEFAULT_RANK
    if resolved.engine == "vllm" and rank not in RANKS:
        hint = "one of " + ", ".join(map(str, RANKS))
        raise UsageError(f"vLLM has no max_lora_rank {rank}", path="--max-lora-rank", value=rank, hint=hint)
    from onboard.weights.lora import lora_width
    from onboard.weights.parameters import element_bytes, matrices

    facts = facts_of(profile)
    made, _ = matrices(facts, profile.layers)
    width = lora_width(made).on_card(plan.tensor_parallel_size)
    if not width:
        raise WeightsUnknown(f"{profile.id} has no module that takes an adapter", path="--max-loras", value=slots)
    size, dtype = slots * rank * width * element_bytes(facts), element_bytes(facts)
    vocab = 2 * (profile.fact("vocab_size") or VOCAB[-1]) + 2 * (facts.get("hidden_size") or 0)
    return Term(
        name="adapters", bytes=size, low_bytes=size, high_bytes=size + slots * rank * vocab * dtype, origin="rule",
        rule=f"{slots} slot(s) x rank {rank} x {width:,} inputs and outputs on a card x {dtype} B",
    )  # fmt: skip


def facts_of(profile: Profile) -> Facts:
    """The facts a profile recorded, behind the getters that rules ask."""
    from onboard.facts import Facts
    from onboard.weights.traits import TRAITS

    stated = profile.model_type
    facts = Facts({}, model_type=stated if stated in TRAITS else f"{stated}_text")
    facts.used.update(profile.facts)
    facts.used.setdefault("vocab_size", Sourced(VOCAB[-1], "rule", "not stated: embeddings take no adapter"))
    return facts
