"""vLLM's answers to the engine contract: its own arithmetic, to the token, by release."""

from __future__ import annotations

from math import ceil
from operator import attrgetter
from typing import Any

from calc.cards import Card
from calc.engines.vllm import defaults
from calc.engines.vllm.backends import backend_of
from calc.engines.vllm.explain import explain_parts, pool_groups
from calc.engines.vllm.groups import LayoutError
from calc.engines.vllm.layout import Layout, Request, build_layout
from calc.engines.vllm.pool import Sizes, capacity, demand_blocks, request_parts
from calc.engines.vllm.refusals import before_loading, memory_refusals, state_refusals
from calc.engines.vllm.shape import shape_of
from calc.engines.vllm.state_dtype import state_dtype
from calc.engines.vllm.terms import fixed_terms
from calc.engines.vllm.versions import known_version, rules_for
from calc.memo import remembered
from calc.plan import Plan
from calc.prediction import CachePlan, Device, Parts, Pool, Reason, Resolved, Term
from calc.speculation import Speculation, speculation
from onboard.errors import UnknownKnob
from onboard.layers import ChunkedAttention, plain
from onboard.profile import Profile
from onboard.values import fields, replace

#: Plan fields that every engine takes.
SHARED = frozenset(
    {
        "engine", "card", "vram_gib", "gpus", "weights", "weights_gb", "drafter", "drafter_gb", "activation_model",
        "include_draft_kv", "draft_kv_gb", "compressed_layers", "compression_ratio", "compressed_head_dim",
        "indexer_ratio_layers", "indexer_compress_ratio", "indexer_head_dim", "indexer_format",
    }
)  # fmt: skip
KNOBS = frozenset(
    {
        "tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size", "enable_expert_parallel",
        "data_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization",
        "kv_cache_dtype", "block_size", "enable_prefix_caching", "enforce_eager", "kv_cache_memory_bytes",
        "disable_hybrid_kv_cache_manager", "language_model_only", "mamba_cache_mode", "mamba_ssm_cache_dtype",
        "mamba_block_size", "async_scheduling", "cuda_graph_estimate", "num_speculative_tokens", "max_loras",
        "max_lora_rank", "quantization",
    }
)  # fmt: skip
_FOREIGN = tuple(f.name for f in fields(Plan) if f.name not in SHARED | KNOBS)
_foreign_values = attrgetter(*_FOREIGN)
_FOREIGN_DEFAULTS = _foreign_values(Plan())


class VllmEngine:
    """`--engine vllm[@VERSION]`, 0.10 to 0.33."""

    name = "vllm"
    cards_knob = "tensor_parallel_size"
    knobs = KNOBS

    def resolve(self, profile: Profile, plan: Plan, card: Card, version: str | None) -> Resolved:
        if _foreign_values(plan) != _FOREIGN_DEFAULTS:
            _refuse_foreign(plan)
        resolved = defaults.resolve(profile, plan, card, version)
        refused = before_loading(profile, resolved)
        return replace(resolved, reasons=resolved.reasons + refused) if refused else resolved

    def batch_defaults(self, card: Card, version: str) -> dict[str, int]:
        """The batch flags that this release of `vllm serve` sets for that card, whatever the model."""
        found = defaults.batch_defaults(card, rules_for(known_version(version)[0]))
        return {"max_num_seqs": found.max_num_seqs, "max_num_batched_tokens": found.max_num_batched_tokens}

    def fixed_terms(self, profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
        return fixed_terms(profile, resolved)

    def budget_bytes(self, profile: Profile, resolved: Resolved) -> int:
        """ceil(total x utilisation), v1/worker/utils.py:716."""
        return ceil(resolved.card.usable_bytes * (resolved.plan.gpu_memory_utilization or 0.0))

    def cache(self, profile: Profile, resolved: Resolved, pool_bytes: int) -> CachePlan:
        plan, rules = resolved.plan, rules_for(resolved.version)
        try:
            layout = layout_of(profile, resolved)
        except LayoutError as error:
            return _no_cache(Reason("block_size", f"{error}: use another --kv-cache-dtype, or a newer release"))
        length = plan.max_model_len or 0
        if not layout.groups:
            return _no_cache(None, length)
        sizes = Sizes(
            in_flight=resolved.derived["max_in_flight_tokens"],
            encoder_tokens=plan.max_num_batched_tokens or 0,
            dcp=plan.decode_context_parallel_size,
        )
        room = capacity(layout, pool_bytes, length, sizes, rules)
        one = request_parts(layout, length, sizes)
        blocks = demand_blocks(layout, length, sizes)
        asked = resolved.derived["sequences_asked"]
        null: tuple[Term, ...] = ()
        if rules.null_block_checked:
            rule = f"1 block x {layout.block_bytes:,} B a block; one of the pool is never given out"
            null = (Term(name="null_block", bytes=layout.block_bytes, rule=rule),)
        reasons = memory_refusals(room, length) + state_refusals(layout, room, resolved, rules)
        pool = Pool(
            bytes=room.num_blocks * layout.block_bytes,
            num_blocks=room.num_blocks,
            block_size=layout.smallest_block(length),
            num_groups=len(layout.groups),
            tokens=room.tokens,
            max_concurrency=room.concurrency,
            groups=pool_groups(layout, length, blocks),
            extra=_extra(layout, room.available, room.needed),
        )
        return CachePlan(
            growing_bytes_per_token=plain(layout.growing_token_bytes),
            one=one,
            asked=one * asked,
            pool=pool,
            max_model_len_that_fits=room.longest,
            fixed=null,
            state_bytes_per_sequence=layout.state_bytes,
            window_bytes_per_sequence=one.window,
            reasons=reasons,
            explain=explain_parts(layout, length, sizes, one, asked, blocks),
        )

    def devices(
        self, profile: Profile, resolved: Resolved, terms: tuple[Term, ...], cache: CachePlan
    ) -> tuple[Device, ...]:
        return ()


def _refuse_foreign(plan: Plan) -> None:
    for name, default in zip(_FOREIGN, _FOREIGN_DEFAULTS, strict=True):
        value = getattr(plan, name)
        if value != default:
            option = name.replace("_", "-")
            raise UnknownKnob(f"vLLM has no {option}", path=f"--{option}", value=value, hint="leave it out")


def layout_of(profile: Profile, resolved: Resolved) -> Layout:
    """The layout for a resolved plan; built once for a profile and the knobs that it depends on."""
    plan = resolved.plan
    key = (
        "layout", resolved.version, resolved.card.compute_capability, plan.tensor_parallel_size,
        plan.pipeline_parallel_size, plan.decode_context_parallel_size, plan.kv_cache_dtype, plan.block_size,
        plan.mamba_cache_mode, plan.mamba_ssm_cache_dtype, plan.mamba_block_size, plan.num_speculative_tokens,
        plan.drafter, plan.disable_hybrid_kv_cache_manager,
    )  # fmt: skip
    return remembered(profile, key, lambda: _build(profile, resolved))


def _build(profile: Profile, resolved: Resolved) -> Layout:
    plan, rules = resolved.plan, rules_for(resolved.version)
    shape = shape_of(profile)
    capability = resolved.card.compute_capability
    kv = defaults.kv_of(profile, plan.kv_cache_dtype, resolved.version, resolved.card)
    spec = speculation(profile, plan)
    chunked = any(isinstance(c, ChunkedAttention) for c, _ in profile.cache_groups)
    eagle = spec is not None and spec.method.startswith("eagle")
    chunk = profile.fact("mamba_chunk_size")
    return build_layout(
        Request(
            layers=profile.layers,
            draft_layers=spec.layers if spec else (),
            shape=shape,
            kv=kv,
            rules=rules,
            backend=backend_of(shape, kv, rules, capability),
            capability=capability,
            tp=plan.tensor_parallel_size,
            pp=plan.pipeline_parallel_size,
            dcp=plan.decode_context_parallel_size,
            block_size=plan.block_size,
            state_mode=plan.mamba_cache_mode or "none",
            speculative=plan.num_speculative_tokens or 0,
            ssm_dtype=state_dtype(profile, plan.mamba_ssm_cache_dtype, rules),
            state_chunk=plan.mamba_block_size or (chunk if isinstance(chunk, int) and chunk > 0 else None),
            retained=_retained(profile, spec) if rules.mtp_modules_extend_windows else 0,
            hybrid_off=plan.disable_hybrid_kv_cache_manager or (chunked and eagle),
        )
    )


def _retained(profile: Profile, spec: Speculation | None) -> int:
    """k - 1 where several MTP modules run (config/speculative.py use_multi_module_mtp)."""
    if spec is None or spec.method != "mtp" or min(len(profile.mtp_layers), spec.num_tokens) <= 1:
        return 0
    return spec.num_tokens - 1


def _no_cache(reason: Reason | None, length: int = 0) -> CachePlan:
    """No layer keeps anything (encoders), or the release cannot lay the pages out."""
    nothing = Parts()
    return CachePlan(
        growing_bytes_per_token=0,
        one=nothing,
        asked=nothing,
        pool=Pool(),
        max_model_len_that_fits=length,
        reasons=(reason,) if reason else (),
    )


def _extra(layout: Layout, available: int, needed: int) -> dict[str, Any]:
    """Figures that only vLLM's log has."""
    extra: dict[str, Any] = {
        "bytes_per_block": layout.block_bytes,
        "needed_bytes": needed,
        "available_bytes": available,
    }
    if layout.raised:
        extra["attention_block_size"] = layout.raised.block
        extra["state_padding_percent"] = round(layout.raised.padding_percent, 2)
    return extra


ENGINE = VllmEngine()
