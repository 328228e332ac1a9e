"""What a card is given to do at once: prefill chunk, captured batches, and the automatic static fraction."""

from __future__ import annotations

from calc.cards import Card
from calc.engines.sglang import knowledge
from calc.engines.sglang.defaults import Load, decode_graph_sizes, prefill_graph_sizes, static_fraction, tier
from calc.engines.sglang.features import card_memory_mib
from calc.engines.sglang.layout import holds, is_compressed, is_latent
from calc.engines.sglang.versions import Rules
from calc.plan import Plan
from onboard.profile import Profile
from onboard.states import KimiDelta
from onboard.values import Struct


class Capacity(Struct, frozen=True):
    """`chunk` is -1 where prefill is not chunked; `max_bs` the largest captured decode batch, 0 without graphs."""

    chunk: int
    max_bs: int
    num_decode_graphs: int
    num_prefill_graphs: int
    fraction: float


def capacity(
    profile: Profile, plan: Plan, card: Card, rules: Rules, *, algorithm: str | None, multimodal: bool
) -> Capacity:
    """The card's defaults with the plan's knobs over them."""
    card_mib, archs = card_memory_mib(card), profile.architectures
    chunk, max_bs = tier(rules, card_mib, plan.tensor_parallel_size)
    chunk = chunk if plan.chunked_prefill_size is None else plan.chunked_prefill_size
    max_bs = max_bs if plan.max_num_seqs is None else min(max_bs, plan.max_num_seqs)
    captured = _prefill_graph(profile, plan, multimodal)
    num_prefill = len(prefill_graph_sizes(_prefill_max(archs, chunk, plan))) if captured else 0
    load = Load(
        card_mib=card_mib,
        tp=plan.tensor_parallel_size,
        pp=plan.pipeline_parallel_size,
        dp_attention=plan.data_parallel_size,
        latent=is_latent(profile),
        decode_graph=not plan.enforce_eager,
        prefill_graph=captured,
        chunk=chunk,
        decode_max_bs=max_bs,
        num_prefill_graphs=num_prefill,
        any_drafter=algorithm not in (None, "NGRAM"),
        separate_drafter=algorithm == "STANDALONE",
        vision=_vision(profile) if multimodal else None,
    )
    given, decode = plan.mem_fraction_static, decode_graph_sizes(max_bs, speculative=algorithm is not None)
    return Capacity(
        chunk=-1 if knowledge.listed(archs, knowledge.NO_CHUNKED_PREFILL) else chunk,
        max_bs=0 if plan.enforce_eager else max_bs,
        num_decode_graphs=0 if plan.enforce_eager else len(decode),
        num_prefill_graphs=num_prefill,
        fraction=static_fraction(rules, load) if given is None else given,
    )


def _prefill_graph(profile: Profile, plan: Plan, multimodal: bool) -> bool:
    """Whether prefill is captured (arg_groups/cuda_graph_hook.py disable_breakable_cudagraph_if_incompatible)."""
    if plan.enforce_eager or plan.pipeline_parallel_size > 1 or is_compressed(profile):
        return False
    supported = knowledge.listed(profile.architectures, knowledge.PREFILL_GRAPH_WITH_TOWERS)
    if holds(profile, KimiDelta):
        return False
    return supported or not multimodal


def _prefill_max(archs: tuple[str, ...], chunk: int, plan: Plan) -> int:
    limits = [knowledge.PREFILL_GRAPH_MAX[a] for a in archs if a in knowledge.PREFILL_GRAPH_MAX]
    limit = limits[0] if limits else chunk
    return limit if plan.max_total_tokens is None else min(limit, plan.max_total_tokens)


def _vision(profile: Profile) -> tuple[int, int] | None:
    """Layers and hidden size of the vision tower as SGLang reads them; None where there is no tower to weigh."""
    if not profile.fact("has_vision_config"):
        return None
    return int(profile.fact("vision_num_layers") or 24), int(profile.fact("vision_hidden_size") or 1024)
