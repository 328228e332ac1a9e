"""What a difference between vLLM's log and a prediction may mean, what a failed boot says, and what would help."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from calc.bootlog_lines import LogFacts
from calc.engine_log import Finding
from calc.plan import Plan
from calc.units import GIB
from onboard.layers import CacheSpec, ChunkedAttention, FullAttention, Heads, Layer, WindowAttention
from onboard.profile import Profile
from onboard.states import StateCache
from onboard.values import replace

Suspect = tuple[Finding, Profile, Plan]
#: Releases whose rules differ in turn (versions.CHANGES).
ERAS = ("0.11.0", "0.12.0", "0.14.1", "0.17.1", "0.19.1", "0.20.0", "0.20.2", "0.25.1", "0.28", "0.31", "0.32", "0.33")
BATCHES = (2048, 4096, 8192, 16384, 32768)
FORMATS = ("auto", "fp8", "bf16", "int8_per_token_head", "turboquant_3bit_nc", "nvfp4")


def suspects(profile: Profile, plan: Plan) -> tuple[Suspect, ...]:
    """Other assumptions, the likeliest first. Each changes one thing."""
    return (
        *_storage(profile, plan),
        *_drafters(profile, plan),
        *_cards(profile, plan),
        *_formats(profile, plan),
        *_state_modes(profile, plan),
        *_batches(profile, plan),
        *_versions(profile, plan),
        *_layer_sets(profile, plan),
    )


def _changed(profile: Profile, change: Callable[[CacheSpec], CacheSpec]) -> Profile | None:
    layers = tuple(Layer(tuple(change(c) for c in layer.caches)) for layer in profile.layers)
    return None if layers == profile.layers else replace(profile, layers=layers)


def _storage(profile: Profile, plan: Plan) -> list[Suspect]:
    found = []
    once = _changed(profile, lambda c: replace(c, v_dim=0) if isinstance(c, FullAttention) and c.k_eq_v else c)
    if once:
        found.append(
            (Finding("k-eq-v-storage", "the cache stores tied K and V once (2x less in those layers)"), once, plan)
        )
    both = _changed(profile, lambda c: replace(c, v_dim=c.k_dim) if isinstance(c, Heads) and c.v_dim == 0 else c)
    if both:
        found.append(
            (Finding("k-eq-v-storage", "the cache stores K and V apart (2x more in those layers)"), both, plan)
        )
    queries = profile.fact("num_attention_heads")
    if isinstance(queries, int):
        every = _changed(profile, lambda c: replace(c, num_kv_heads=queries) if isinstance(c, Heads) else c)
        if every:
            found.append(
                (Finding("kv-heads", f"the cache has all {queries} query heads, not the KV heads alone"), every, plan)
            )
    one = _changed(
        profile,
        lambda c: replace(c, num_kv_heads=plan.tensor_parallel_size * c.num_kv_heads) if isinstance(c, Heads) else c,
    )
    if one and plan.tensor_parallel_size > 1:
        found.append(
            (Finding("replicated-heads", "every card keeps all KV heads: they are replicated, not divided"), one, plan)
        )
    return found


def _drafters(profile: Profile, plan: Plan) -> list[Suspect]:
    found = []
    if plan.num_speculative_tokens or plan.drafter not in (None, "none"):
        bare = replace(plan, num_speculative_tokens=None, drafter="none")
        found.append(
            (
                Finding("no-drafter", "the boot had no drafter: its layers and state blocks are not in the pool"),
                profile,
                bare,
            )
        )
    for count in (1, 2, 3, 4, 5):
        if profile.mtp_layers and count != plan.num_speculative_tokens:
            drafted = replace(plan, drafter="mtp", num_speculative_tokens=count)
            message = f"the MTP head's layer is in the pool: --num-speculative-tokens {count} is missing here"
            found.append((Finding("missing-drafter-layer", message), profile, drafted))
    for extra in (1, 5, 8):
        last = next(
            (layer for layer in reversed(profile.layers) if any(isinstance(c, FullAttention) for c in layer.caches)),
            None,
        )
        if last is not None and not profile.mtp_layers:
            more = replace(profile, layers=profile.layers + (last,) * extra)
            message = f"{extra} more attention layer(s) like the model's own are in the pool: a drafter"
            found.append((Finding("missing-drafter-layer", message), more, plan))
    return found


def _cards(profile: Profile, plan: Plan) -> list[Suspect]:
    found = []
    for size in (1, 2, 4, 8, 16):
        if size != plan.tensor_parallel_size:
            message = f"the figures are those of --tensor-parallel-size {size}, not {plan.tensor_parallel_size}"
            found.append((Finding("tensor-parallel", message), profile, replace(plan, tensor_parallel_size=size)))
    if plan.pipeline_parallel_size > 1:
        whole = replace(plan, pipeline_parallel_size=1)
        found.append((Finding("pipeline-parallel", "all pipeline stages are charged to one card"), profile, whole))
    for size in (2, 4, 8):
        if plan.tensor_parallel_size % size == 0 and size != plan.decode_context_parallel_size:
            message = f"the figures are those of --decode-context-parallel-size {size}"
            changed = replace(plan, decode_context_parallel_size=size)
            found.append((Finding("context-parallel", message), profile, changed))
    return found


def _formats(profile: Profile, plan: Plan) -> list[Suspect]:
    return [
        (
            Finding("kv-dtype", f"the cache is {name}, not {plan.kv_cache_dtype}"),
            profile,
            replace(plan, kv_cache_dtype=name),
        )
        for name in FORMATS
        if name != plan.kv_cache_dtype
    ]


def _state_modes(profile: Profile, plan: Plan) -> list[Suspect]:
    if not any(isinstance(c, StateCache) for c, _ in profile.cache_groups):
        return []
    return [
        (
            Finding(
                "prefix-caching", f"prefix caching was {'on' if on else 'off'}: it changes the states a sequence holds"
            ),
            profile,
            replace(plan, enable_prefix_caching=on),
        )
        for on in (True, False)
        if on != plan.enable_prefix_caching
    ]


def _batches(profile: Profile, plan: Plan) -> list[Suspect]:
    if not any(isinstance(c, (WindowAttention, ChunkedAttention)) for c, _ in profile.cache_groups):
        return []
    found = [
        (
            Finding("batched-tokens", f"--max-num-batched-tokens was {size:,}: windows reserve it for every request"),
            profile,
            replace(plan, max_num_batched_tokens=size),
        )
        for size in BATCHES
        if size != plan.max_num_batched_tokens
    ]
    message = "async scheduling was off: windows reserve one batch, not two"
    found.append((Finding("async-scheduling", message), profile, replace(plan, async_scheduling=False)))
    message = "the hybrid manager was off: every layer grows"
    found.append((Finding("hybrid-manager", message), profile, replace(plan, disable_hybrid_kv_cache_manager=True)))
    return found


def _versions(profile: Profile, plan: Plan) -> list[Suspect]:
    now = plan.engine.partition("@")[2]
    return [
        (
            Finding(
                "engine-version",
                f"the figures follow vLLM {era}'s rules, its meaning of the token line among them, not "
                f"{now or 'the latest'}'s",
            ),
            profile,
            replace(plan, engine=f"vllm@{era}"),
        )
        for era in ERAS
        if era != now
    ]


def _layer_sets(profile: Profile, plan: Plan) -> list[Suspect]:
    """Every layer taken for the growing kind."""
    full = next((c for c, _ in profile.cache_groups if isinstance(c, FullAttention)), None)
    if full is None:
        return []
    every = replace(profile, layers=tuple(Layer((full,)) for _ in profile.layers))
    times = len(profile.layers) / max(1, sum(full in layer.caches for layer in profile.layers))
    message = f"every layer is charged as a growing one ({times:g}x): the wrong set of layers"
    return [(Finding("layer-set", message), every, plan)] if every.layers != profile.layers else []


#: Refusals that state no figure (`log_settings.REFUSALS`) and what they mean.
MEANINGS = {
    "no-cache-memory": "weights and activation left nothing for the cache",
    "memory-profiling": "memory was freed by another process while the engine measured its own",
    "max-model-len": "the model's own length is shorter than --max-model-len",
    "batched-tokens": "--max-num-batched-tokens is below --max-model-len, and prefill is not chunked",
    "tp": "the number of cards divides no attention heads, or there are fewer cards",
    "sampler-memory": "the sampler's warm-up did not fit: it grows with --max-num-seqs",
    "cuda-out-of-memory": "an allocation failed, its size was not printed",
}


def failures(facts: LogFacts) -> tuple[Finding, ...]:
    """What stopped the boot, in the log's own figures."""
    found = []
    needed, left = facts.last("kv_needed"), facts.last("kv_left")
    longest = facts.last("max_model_len_that_fits") or facts.last("kv_tokens")
    if needed and left:
        message = f"one request needs {needed.value / GIB:.2f} GiB of cache and {left.value / GIB:.2f} GiB were left"
        found.append(Finding("kv-does-not-fit", message + (f"; {longest.value:,} tokens would fit" if longest else "")))
    elif (asked := facts.last("needed_len")) and longest:
        message = f"one request of {asked.value:,} tokens was asked for and {longest.value:,} tokens fit"
        found.append(Finding("kv-does-not-fit", message))
    out = facts.last("oom")
    if out:
        when = "after the pool was sized" if facts.last("kv_available") else "before the pool was sized"
        free = facts.last("oom_free")
        rest = f", {free.value / 2**20:.0f} MiB were free" if free else ""
        found.append(Finding("cuda-out-of-memory", f"{out.value / 2**20:.2f} MiB could not be allocated {when}{rest}"))
    said = [kind for kind in facts.settings.get("refused", {}) if kind != "cuda-out-of-memory" or not out]
    found += [Finding(kind, MEANINGS[kind]) for kind in said]
    wanted, free_now = facts.last("wanted_at_start"), facts.last("free_at_start")
    if wanted and free_now:
        message = f"{wanted.value / GIB:.2f} GiB were wanted at start and {free_now.value / GIB:.2f} GiB were free"
        found.append(Finding("free-memory", message))
    slots = facts.last("state_slots")
    if slots:
        found.append(Finding("state-slots", f"the pool has {slots.value:,} blocks, fewer than --max-num-seqs"))
    if facts.last("align_block"):
        found.append(Finding("align-block", "the state block is longer than a batch"))
    return tuple(found)


def remedies(facts: LogFacts) -> tuple[tuple[str, dict[str, object]], ...]:
    """Flags and the plan changes they mean; {} where only a new boot can tell."""
    found: list[tuple[str, dict[str, object]]] = []
    refused = facts.settings.get("refused", {})
    asked = facts.last("needed_len")
    longest = facts.last("max_model_len_that_fits") or (facts.last("kv_tokens") if asked else None)
    if longest:
        found.append((f"--max-model-len {longest.value}", {"max_model_len": longest.value}))
    if asked or "no-cache-memory" in refused:
        found += _higher_share(facts)
        for name in ("fp8", "fp8_e5m2", "int8_per_token_head"):
            found.append((f"--kv-cache-dtype {name}", {"kv_cache_dtype": name}))
        for size in (2048, 1024):
            found.append((f"--max-num-batched-tokens {size}", {"max_num_batched_tokens": size}))
        found.append(("--no-enable-prefix-caching", {"enable_prefix_caching": False}))
    slots = facts.last("state_slots")
    if slots:
        found.append((f"--max-num-seqs {slots.value}", {"max_num_seqs": slots.value}))
        found.append(("--enforce-eager", {"enforce_eager": True}))
    block = facts.last("align_block")
    if block:
        found.append((f"--max-num-batched-tokens {block.value}", {"max_num_batched_tokens": block.value}))
    found += _memory_remedies(facts, refused)
    return tuple(found)


_SHARE = "gpu_memory_utilization"
_MOST = 0.97  # above this the CUDA context has no room


def _higher_share(facts: LogFacts) -> list[tuple[str, dict[str, object]]]:
    """The least share of the card, in hundredths, whose extra memory is what one request lacked."""
    needed, left, now = facts.last("kv_needed"), facts.last("kv_left"), facts.settings.get(_SHARE)
    total = facts.last("card_total")
    if not needed or not left or not total or not isinstance(now, float):
        return []
    share = ceil((now + (needed.value - left.value) / total.value) * 100) / 100
    return [(f"--gpu-memory-utilization {share:.2f}", {_SHARE: share})] if share <= _MOST else []


def _memory_remedies(facts: LogFacts, refused: dict[str, bool]) -> list[tuple[str, dict[str, object]]]:
    """What frees memory beside the pool: a lower share of the card, fewer sequences, no graphs."""
    found: list[tuple[str, dict[str, object]]] = []
    free, total, out = facts.last("free_at_start"), facts.last("card_total"), facts.last("oom")
    if facts.last("wanted_at_start") and free and total:
        share = int(free.value / total.value * 100) / 100
        found.append((f"--gpu-memory-utilization {share:g}", {_SHARE: share}))
    if out or {"cuda-out-of-memory", "sampler-memory"} & set(refused):
        now, room = facts.settings.get(_SHARE), facts.last("oom_free")
        if not facts.last("kv_available"):  # the profile run itself did not fit: a lower share changes nothing there
            return [
                *found,
                ("--max-num-seqs 64", {"max_num_seqs": 64}),
                ("--max-num-batched-tokens 2048", {"max_num_batched_tokens": 2048}),
            ]
        lower = 0.05
        if out and total:  # what was asked and not there, at least
            lower = max(lower, (out.value - (room.value if room else 0)) / total.value)
        share = int(((now if isinstance(now, float) else 0.9) - lower) * 100 + 1e-6) / 100
        found.append((f"--gpu-memory-utilization {share:.2f}", {_SHARE: share}))
        found += [("--max-num-seqs 64", {"max_num_seqs": 64}), ("--enforce-eager", {"enforce_eager": True})]
    return found
