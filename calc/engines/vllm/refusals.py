"""Every reason this vLLM would not start, besides the KV dtype's own. One function a check, in the engine's order.

Sources: vLLM 0.33 config/model.py verify_with_parallel_config, config/scheduler.py, config/compilation.py:1517,
v1/worker/utils.py:716, v1/core/kv_cache_planning.py:50; 0.19.1 config/vllm.py:1738.
"""

from __future__ import annotations

from calc.engines.vllm.layout import Layout
from calc.engines.vllm.pool import Capacity
from calc.engines.vllm.shape import Shape, shape_of
from calc.engines.vllm.supported import unserved
from calc.engines.vllm.versions import Rules
from calc.in_flight import quantization_problem
from calc.memo import remembered
from calc.prediction import Reason, Resolved
from calc.units import GIB
from calc.weights import wanted_variant
from onboard.layers import Heads
from onboard.profile import Profile
from onboard.tp import tp_problem


def before_loading(profile: Profile, resolved: Resolved) -> tuple[Reason, ...]:
    """What the config classes refuse before a weight is read."""
    plan, shape = resolved.plan, shape_of(profile)
    found = [
        *remembered(profile, ("unserved", resolved.version), lambda: unserved(profile, resolved.version)),
        *_parallel(profile, resolved, shape),
        *_length(profile, resolved),
        *_batches(resolved),
        *_block_size(resolved),
    ]
    if plan.quantization is not None:
        packed = quantization_problem(profile, wanted_variant(profile, plan.weights), plan.quantization)
        found += [packed] if packed else []
    utilization = plan.gpu_memory_utilization or 0.0
    if utilization >= 1.0 and plan.kv_cache_memory_bytes is None:
        found.append(
            Reason(
                "free_memory",
                "no card is wholly free at start: the CUDA context takes some. Lower --gpu-memory-utilization",
            )
        )
    return tuple(found)


def _parallel(profile: Profile, resolved: Resolved, shape: Shape) -> list[Reason]:
    plan, found = resolved.plan, []
    tp, pp, dcp = plan.tensor_parallel_size, plan.pipeline_parallel_size, plan.decode_context_parallel_size
    problem = remembered(profile, ("tp", tp), lambda: tp_problem(profile, tp)) if tp > 1 else None
    if problem:
        found.append(Reason("tp", f"--tensor-parallel-size {tp}: {problem}"))
    if plan.gpus is not None and plan.gpus < tp * pp:
        found.append(
            Reason(
                "gpus",
                f"--tensor-parallel-size {tp} x --pipeline-parallel-size {pp} need {tp * pp} cards, {plan.gpus} given",
            )
        )
    if pp > len(profile.layers):
        found.append(Reason("pp", f"{len(profile.layers)} layers cannot be cut into {pp} pipeline stages"))
    if dcp > 1:
        found += _context_parallel(profile, tp, dcp, shape)
    return found


def _context_parallel(profile: Profile, tp: int, dcp: int, shape: Shape) -> list[Reason]:
    """DCP cuts the tokens of replicated KV heads: it must divide TP, and there must be replicas to cut."""
    if tp % dcp:
        return [Reason("dcp", f"--decode-context-parallel-size {dcp} must divide --tensor-parallel-size {tp}")]
    heads = min((s.num_kv_heads for s, _ in profile.cache_groups if isinstance(s, Heads)), default=1)
    most = tp if shape.latent else tp // heads
    if dcp > max(most, 1):
        return [
            Reason(
                "dcp",
                f"--decode-context-parallel-size {dcp}: {heads} KV heads on {tp} cards are replicated {max(most, 1)}x",
            )
        ]
    if any(s.window_elements() for s, _ in profile.cache_groups):
        return [Reason("dcp", "decode context parallelism does not support sliding windows")]
    return []


def _length(profile: Profile, resolved: Resolved) -> list[Reason]:
    own, asked = profile.fact("max_model_len"), resolved.plan.max_model_len or 0
    if isinstance(own, int) and asked > own:
        return [Reason("max_model_len", f"--max-model-len {asked:,} is beyond the model's {own:,}")]
    return []


def _batches(resolved: Resolved) -> list[Reason]:
    plan = resolved.plan
    batched, sequences = plan.max_num_batched_tokens or 0, plan.max_num_seqs or 0
    if batched < sequences:
        return [
            Reason(
                "max_num_batched_tokens", f"--max-num-batched-tokens {batched:,} is below --max-num-seqs {sequences:,}"
            )
        ]
    return []


def _block_size(resolved: Resolved) -> list[Reason]:
    block = resolved.plan.block_size
    if block is not None and block % 16:
        return [Reason("block_size", f"--block-size {block} is not a multiple of 16, which every CUDA backend needs")]
    return []


def state_refusals(layout: Layout, capacity: Capacity, resolved: Resolved, rules: Rules) -> tuple[Reason, ...]:
    """What only models with recurrent state run into."""
    plan, found = resolved.plan, []
    if not layout.has_states:
        return ()
    block, batched = layout.attention_block, plan.max_num_batched_tokens or 0
    if plan.mamba_cache_mode == "align" and rules.align_block_within_batch and block > batched:
        found.append(
            Reason(
                "block_size",
                f"in state mode align the block of {block:,} tokens must fit --max-num-batched-tokens {batched:,}"
                f": raise it to {block:,}",
            )
        )
    sequences = plan.max_num_seqs or 0
    if rules.state_slots_refused and not plan.enforce_eager and capacity.fits and sequences > capacity.num_blocks:
        found.append(
            Reason(
                "state_slots",
                f"--max-num-seqs {sequences:,} exceeds the {capacity.num_blocks:,} state blocks: give at most "
                f"{capacity.num_blocks:,}, or --enforce-eager",
            )
        )
    return tuple(found)


def memory_refusals(capacity: Capacity, length: int) -> tuple[Reason, ...]:
    """The fit check: one request of max_model_len must fit."""
    if capacity.available <= 0:
        return (
            Reason(
                "memory",
                "nothing is left for the cache: raise --gpu-memory-utilization, or use more cards or smaller weights",
            ),
        )
    if capacity.fits:
        return ()
    longest = f"; the estimated maximum length is {capacity.longest:,}" if capacity.longest else ""
    return (
        Reason(
            "memory",
            f"one request of {length:,} tokens needs {capacity.needed / GIB:.2f} GiB of KV cache and "
            f"{capacity.available / GIB:.2f} GiB are left{longest}",
        ),
    )
