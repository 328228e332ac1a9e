"""vLLM's boot lines, 0.6 to 0.33, and the flags they state.

Sources: vLLM v1/worker/gpu_worker.py (memory), gpu_model_runner.py (weights, graphs), v1/core/kv_cache_utils.py and
kv_cache_planning.py (pool, refusals), platforms/interface.py (hybrid blocks), config/compilation.py (state slots) of
0.10.2 to 0.33.0; worker/worker.py of 0.6 for the profile's lines. Sizes are rounded to two decimals, and
`round(x, 2)` drops zeros.
"""

from __future__ import annotations

import re
from typing import Any

from calc.bootlog_lines import NUMBER as N
from calc.bootlog_lines import LinePattern, LogFacts, Printed
from calc.cards import card_names, load_card
from calc.engine_log import Finding, Predicted, loaded_range
from calc.engines.vllm import suspects as suspicion
from calc.engines.vllm.engine import layout_of
from calc.engines.vllm.groups import LayoutError
from calc.engines.vllm.log_settings import read_setting
from calc.engines.vllm.versions import Rules, parse_version, rules_for
from calc.plan import Plan
from calc.prediction import Prediction
from calc.units import GIB
from onboard.errors import Refusal, UsageError
from onboard.profile import Profile
from onboard.values import replace

_CACHE_TERMS = frozenset({"kv_growing", "kv_window", "state", "kv_padding", "null_block"})


def _line(text: str, **units: str) -> LinePattern:
    return LinePattern(re.compile(text), units, least_decimals=2)


PATTERNS: tuple[LinePattern, ...] = (
    _line(rf"(?:Model loading|Loading model weights) took (?P<weights>{N})\s*G", weights="GiB"),
    _line(rf"Available KV cache memory: (?P<kv_available>{N})\s*GiB", kv_available="GiB"),
    _line(rf"reserved for KV Cache is (?P<kv_available>{N})\s*GiB", kv_available="GiB"),
    _line(rf"kv_cache_size=(?P<kv_available>{N})\s*GiB", kv_available="GiB"),
    _line(rf"non_torch_memory=(?P<runtime>{N})\s*GiB", runtime="GiB"),
    _line(rf"# (?:GPU|cuda) blocks: (?P<num_blocks>{N})", num_blocks="count"),
    _line(rf"KV cache size: (?P<kv_tokens>{N})\s*tokens", kv_tokens="count"),
    _line(rf"Maximum concurrency for {N}\s*tokens per request: (?P<max_concurrency>{N})x"),
    _line(
        rf"max seq len \((?P<needed_len>{N})\), \((?P<kv_needed>{N})\s*GiB.{{0,80}}?memory \((?P<kv_left>{N})\s*GiB",
        needed_len="count", kv_needed="GiB", kv_left="GiB",
    ),
    _line(
        rf"max seq len \((?P<needed_len>{N})\) is larger than the maximum number of tokens that can be stored in KV "
        rf"cache \((?P<kv_tokens>{N})\)",
        needed_len="count", kv_tokens="count",
    ),
    _line(rf"estimated maximum model length is (?P<max_model_len_that_fits>{N})", max_model_len_that_fits="count"),
    _line(
        rf"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate (?P<oom>{N})\s*(?P<oom_unit>[KMG]iB|bytes)", oom="B",
    ),
    _line(
        rf"total capacity of (?P<card_total>{N})\s*GiB of which (?P<oom_free>{N})\s*(?P<oom_free_unit>[KMG]iB)",
        card_total="GiB",
    ),
    _line(
        rf"\(GPU \d+; (?P<card_total>{N})\s*GiB total capacity;.{{0,80}}?"
        rf"(?P<oom_free>{N})\s*(?P<oom_free_unit>[KMG]iB) free",
        card_total="GiB",
    ),
    _line(
        rf"Auto-fit max_model_len: reduced from {N}\s*to (?P<max_model_len_that_fits>{N})",
        max_model_len_that_fits="count",
    ),
    _line(
        rf"CUDA graph pool memory: (?P<cuda_graphs_taken>{N})\s*GiB \(actual\), (?P<cuda_graphs>{N})\s*GiB \(estimated",
        cuda_graphs_taken="GiB", cuda_graphs="GiB",
    ),
    _line(rf"Graph capturing finished in .{{1,40}}?took (?P<cuda_graphs_taken>{N})\s*GiB", cuda_graphs_taken="GiB"),
    _line(rf"Estimated CUDA graph memory: (?P<cuda_graphs>{N})\s*GiB", cuda_graphs="GiB"),
    _line(rf"total_gpu_memory(?: \(|=)(?P<card_total>{N})\s*GiB", card_total="GiB"),
    _line(
        rf"model weights take (?P<weights>{N})\s*GiB; non_torch_memory takes (?P<runtime>{N})\s*GiB; "
        rf"PyTorch activation peak memory takes (?P<activation>{N})\s*GiB",
        weights="GiB", runtime="GiB", activation="GiB",
    ),
    _line(
        rf"Actual usage is {N}\s*GiB for weight, (?P<activation>{N})\s*GiB for peak activation, "
        rf"(?P<runtime>{N})\s*GiB for non-torch memory, and (?P<cuda_graphs_taken>{N})\s*GiB for CUDAGraph",
        activation="GiB", runtime="GiB", cuda_graphs_taken="GiB",
    ),
    _line(
        rf"for consumed memory \(weights \+ non-torch\), (?P<activation>{N})\s*GiB for peak activation, "
        rf"and (?P<cuda_graphs_taken>{N})\s*GiB for CUDAGraph",
        activation="GiB", cuda_graphs_taken="GiB",
    ),
    _line(
        rf"Free memory on device.{{0,20}}\((?P<free_at_start>{N})/(?P<card_total>{N})\s*GiB\) on startup",
        free_at_start="GiB", card_total="GiB",
    ),
    _line(
        rf"startup is less than desired GPU memory utilization \({N}, (?P<wanted_at_start>{N})\s*GiB",
        wanted_at_start="GiB",
    ),
    _line(rf"Setting attention block size to (?P<attention_block_size>{N})\s*tokens", attention_block_size="count"),
    _line(rf"Padding mamba page size by (?P<state_padding_percent>{N})%"),
    _line(
        rf"Add (?P<padding_layers>{N})\s*padding layers, may waste at most (?P<padding_layers_percent>{N})%",
        padding_layers="count",
    ),
    _line(
        rf"max_num_seqs \((?P<state_sequences>{N})\) exceeds available Mamba cache blocks \((?P<state_slots>{N})\)",
        state_sequences="count", state_slots="count",
    ),
    _line(rf"align mode, block_size \((?P<align_block>{N})\) must be <= max_num_batched_tokens", align_block="count"),
)  # fmt: skip


class VllmLog:
    """See `calc.bootlog.EngineLog`."""

    engine = "vllm"
    marks: tuple[str, ...] = ("vllm", "vLLM", "EngineCore", "KV cache size", "Available KV cache memory")
    keys: tuple[str, ...] = (
        "Model loading took", "model weights took",
        "KV cache size:", "KV cache memory", "for KV Cache", "GPU blocks", "cuda blocks",
        "Maximum concurrency", "max seq len", "maximum model length", "out of memory", "total capacity of",
        "Graph capturing", "CUDA graph memory", "CUDA graph pool", "kv_cache_size=", "total capacity;", "Auto-fit",
        "total_gpu_memory", "non_torch_memory", "peak activation", "Free memory on device", "attention block size",
        "mamba page size", "padding layers", "Mamba cache", "cache blocks", "LLM engine", "non-default args",
        "server version", "max_num_batched_tokens", "max model len", "synchronous scheduling", "vllm serve",
        "memory profiling", "derived max_model_len", "attention heads", "available GPUs", "World size",
    )  # fmt: skip
    patterns = PATTERNS
    # Further engines of a data-parallel group (EngineCore_DP1 ...) begin no boot of their own.
    starts = re.compile(r"vLLM API server version|^(?!.*EngineCore_DP[1-9]).*LLM engine \(v")
    estimated = frozenset({"weights", "kv_available", "activation", "runtime", "cuda_graphs", "cuda_graphs_taken"})

    def setting(self, text: str, settings: dict[str, Any]) -> None:
        read_setting(text, settings)

    def plan(self, settings: dict[str, Any], facts: LogFacts, given: Plan) -> Plan:
        """What the user gave wins; the version and the card are taken from the log where it names them."""
        stated = {k: v for k, v in settings.items() if k in Plan.__struct_fields__}
        plan = replace(Plan(), **{**stated, **given.given()})
        if "@" not in plan.engine and settings.get("version"):
            plan = replace(plan, engine=f"vllm@{settings['version']}")
        if plan.max_model_len is None and (needed := facts.last("needed_len")):
            plan = replace(plan, max_model_len=int(needed.value))
        if plan.card is None and plan.vram_gib is None:
            plan = replace(plan, **_card(facts))
        return plan

    def pools(self, profile: Profile, plan: Plan, facts: LogFacts) -> tuple[Plan, ...]:
        """The smallest rank's printed memory decides. A failed boot's own line has the null block taken off."""
        plan = _with_weights(profile, plan, facts)
        if plan.kv_cache_memory_bytes is not None:
            return (plan,)
        printed, added = facts.least("kv_available"), 0
        if printed is None:
            printed, added = facts.least("kv_left"), _null_block(profile, plan)
        if printed is None:
            return _from_blocks(profile, plan, facts)
        middle, half = int(printed.value) + added, int(printed.half)
        sizes = (middle, max(0, middle - half), middle + half)
        return tuple(replace(plan, kv_cache_memory_bytes=size) for size in sizes)

    def predicted(self, quantity: str, prediction: Prediction) -> Predicted | None:
        pool, extra = prediction.cache.pool, prediction.cache.pool.extra
        exact: dict[str, float | None] = {
            "num_blocks": pool.num_blocks,
            "kv_tokens": pool.tokens,
            "max_concurrency": pool.max_concurrency,
            "kv_needed": extra.get("needed_bytes"),
            "kv_left": extra.get("available_bytes"),
            "needed_len": prediction.resolved.plan.max_model_len,
            "max_model_len_that_fits": prediction.cache.max_model_len_that_fits,
            "attention_block_size": extra.get("attention_block_size"),
            "state_padding_percent": extra.get("state_padding_percent"),
            "state_slots": pool.num_blocks,
            "state_sequences": prediction.resolved.plan.max_num_seqs,
            "align_block": extra.get("attention_block_size"),
        }
        if quantity in exact:
            value = exact[quantity]
            return None if value is None else (float(value), float(value))
        return _estimated(quantity, prediction)

    def suspects(self, profile: Profile, plan: Plan) -> tuple[tuple[Finding, Profile, Plan], ...]:
        return suspicion.suspects(profile, plan)

    def failures(self, facts: LogFacts) -> tuple[Finding, ...]:
        return suspicion.failures(facts)

    def remedies(self, facts: LogFacts) -> tuple[tuple[str, dict[str, Any]], ...]:
        return suspicion.remedies(facts)


def _estimated(quantity: str, prediction: Prediction) -> Predicted | None:
    """Terms with their intervals; what is left for the cache is the budget less all of them."""
    terms = {t.name: t for t in prediction.terms}
    if quantity == "kv_available":
        inside = [t for t in prediction.terms if t.inside_budget and t.name not in _CACHE_TERMS]
        budget = prediction.budget_bytes
        return (budget - sum(t.high for t in inside), budget - sum(t.low for t in inside))
    if quantity == "weights":
        return loaded_range(terms[n] for n in ("weights", "drafter") if n in terms)
    name = {"cuda_graphs_taken": "cuda_graphs"}.get(quantity, quantity)
    term = terms.get(name) if quantity in ("activation", "runtime", "cuda_graphs", "cuda_graphs_taken") else None
    return None if term is None else (float(term.low), float(term.high))


def _with_weights(profile: Profile, plan: Plan, facts: LogFacts) -> Plan:
    """Weights that nobody knows are taken from the log's own line: they do not touch the cache's arithmetic."""
    if profile.weights or plan.weights_gb is not None:
        return plan
    loaded = facts.last("weights")
    cards = plan.tensor_parallel_size * plan.pipeline_parallel_size
    return replace(plan, weights_gb=max(loaded.value if loaded else 1.0, 1.0) * cards / 1e9)


def _block(profile: Profile, plan: Plan) -> tuple[int, Rules]:
    """Bytes of one block of all layers, and the rules of the release. Raises LayoutError where there is no layout."""
    from calc.cards import card_of
    from calc.engines import engine_of

    engine, version = engine_of(plan.engine)
    resolved = engine.resolve(profile, plan, card_of(plan.card, plan.vram_gib), version)
    return layout_of(profile, resolved).block_bytes, rules_for(resolved.version)


def _null_block(profile: Profile, plan: Plan) -> int:
    """The block that the fit check's figure leaves out since 0.29."""
    size, rules = _block(profile, plan)
    return size if rules.null_block_checked else 0


def _from_blocks(profile: Profile, plan: Plan, facts: LogFacts) -> tuple[Plan, ...]:
    """Without a printed size the pool is the printed blocks; without those it is left to the prediction."""
    blocks = facts.last("num_blocks")
    if blocks is None:
        return (plan,)
    try:
        size, _ = _block(profile, plan)
    except (Refusal, LayoutError):
        return (plan,)
    return (replace(plan, kv_cache_memory_bytes=int(blocks.value) * size),)


def _card(facts: LogFacts) -> dict[str, Any]:
    """The card of that total memory; where several have it, only the memory is taken."""
    total = facts.last("card_total")
    if total is None:
        raise UsageError("the log names no card", path="--card", hint="give --card NAME, or --vram GIB")
    near = [n for n in card_names() if abs(load_card(n).usable_bytes - total.value) < 0.03 * GIB]
    if len(near) == 1:
        return {"card": near[0]}
    return {"vram_gib": total.value / GIB}


def version_of(settings: dict[str, Any]) -> str:
    """The version a log states, as `vllm@...` takes it; "" where it is not one."""
    text = str(settings.get("version", ""))
    try:
        parse_version(text)
    except UsageError:
        return ""
    return text


LOG = VllmLog()
__all__ = ["LOG", "Printed", "VllmLog"]
