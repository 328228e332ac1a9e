"""Whether an anchor can be true: units, flags, and whether its figures fit one another and the model.

Every check compares printed figures with each other or with the model's geometry, never with an estimate. A problem
names the field and says what the figures contradict. Tolerances are the log's rounding, and what the engine leaves
unprinted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onboard.anchor_file import ENGINES, LINKS, SETS, Anchor
from onboard.anchor_geometry import BYTES_A_PARAMETER, geometry_problems
from onboard.profile import Profile
from onboard.values import Struct

GIB = 2**30
NEEDED = {
    "vllm": (
        "tensor_parallel_size",
        "max_model_len",
        "gpu_memory_utilization",
        "max_num_seqs",
        "max_num_batched_tokens",
        "kv_cache_dtype",
    ),
    "sglang": ("tensor_parallel_size",),
    "llamacpp": ("max_model_len",),
}
WIDEST = 4.2  # 16 bits against the leanest 4-bit variant
ELEMENT_BYTES = {
    "auto": 2.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
}


class Problem(Struct, frozen=True):
    """`field` is the path inside the anchor."""

    field: str
    message: str


def check_anchor(anchor: Anchor, profile: Profile | None = None) -> tuple[Problem, ...]:
    """Everything wrong with an anchor; with its model's profile, also whether the log is that model's."""
    problems = [*_words(anchor), *_missing(anchor), *_units(anchor)]
    if not problems:  # the rest would only repeat a wrong unit
        problems += [*_flags(anchor), *_budget(anchor), *_tokens(anchor)]
        problems += [Problem(field, message) for field, message in geometry_problems(anchor)]
        if profile is not None:
            problems += _model(anchor, profile)
    return tuple(problems)


def _words(a: Anchor) -> Iterator[Problem]:
    for name, value, allowed in (("engine", a.engine, ENGINES), ("set", a.set, SETS), ("link", a.link, LINKS)):
        if value not in allowed:
            yield Problem(name, f"{value!r} is not one of {', '.join(allowed)}")


def _missing(a: Anchor) -> Iterator[Problem]:
    if not a.version and "version" not in a.how and a.engine == "vllm":
        yield Problem("version", "the engine's version decides which rules apply, and it is missing")
    for name in NEEDED.get(a.engine, ()):
        if name not in a.flags and a.how.get(name) != "not printed":
            yield Problem(
                f"flags.{name}", "missing: the rules read it; state its value, or under `how` that it was not printed"
            )


def _units(a: Anchor) -> Iterator[Problem]:
    total = _number(a, "total_gib")
    for name, value in a.printed.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if name.endswith("_gib"):
            if value > 2**20:
                yield Problem(f"printed.{name}", f"{value:g} GiB cannot be: that many bytes are {value / GIB:.2f} GiB")
            elif value > 4096 or (total and name != "needed_gib" and value > 1.1 * total):
                yield Problem(
                    f"printed.{name}", f"{value:g} GiB is more than the card has; as MiB it is {value / 1024:.2f} GiB"
                )
            elif value < 0 and name not in ("graph_gib", "available_gib"):
                yield Problem(f"printed.{name}", f"{value:g} is negative")
        elif name in ("kv_tokens", "num_blocks", "max_concurrency") and value < 0:
            yield Problem(f"printed.{name}", f"{value:g} is negative")


def _flags(a: Anchor) -> Iterator[Problem]:
    flags = a.flags
    utilisation = flags.get("gpu_memory_utilization")
    if isinstance(utilisation, (int, float)) and not 0 < utilisation <= 1:
        yield Problem("flags.gpu_memory_utilization", f"{utilisation:g} is not a share of the card (0 to 1)")
    seqs, tokens, length = (flags.get(n) for n in ("max_num_seqs", "max_num_batched_tokens", "max_model_len"))
    if isinstance(seqs, int) and isinstance(tokens, int) and seqs > tokens:
        yield Problem(
            "flags.max_num_seqs",
            f"{seqs} sequences exceed {tokens} batched tokens: are the two swapped?",
        )
    tp = flags.get("tensor_parallel_size")
    if isinstance(tp, int) and not 1 <= tp <= 64:
        yield Problem("flags.tensor_parallel_size", f"{tp} cards are not a tensor-parallel group")
    if isinstance(length, int):
        for name in ("needed_len", "max_model_len_that_fits"):
            printed = a.printed.get(name)
            if isinstance(printed, int) and (printed != length if name == "needed_len" else printed > length):
                yield Problem("flags.max_model_len", f"{length} is stated, and the log speaks of {printed} ({name})")


def _budget(a: Anchor) -> Iterator[Problem]:
    """Where a log prints all its parts, they add up to utilisation x total."""
    names = ("total_gib", "weights_gib", "activation_peak_gib", "non_torch_gib", "available_gib")
    values = [_number(a, n) for n in names]
    utilisation = a.flags.get("gpu_memory_utilization")
    if a.engine != "vllm" or any(v is None for v in values) or not isinstance(utilisation, (int, float)):
        return
    total, weights, activation, other, available = (v for v in values if v is not None)
    graphs = _number(a, "graph_estimate_gib") or _number(a, "graph_gib") or 0.0
    budget, parts = total * utilisation, weights + activation + other + available
    slack = 0.3 if a.how.get("total_gib") is None else 0.8
    if not parts - slack <= budget <= parts + max(0.0, graphs) + slack:
        yield Problem(
            "printed",
            f"{utilisation:g} x {total:g} GiB is {budget:.2f}, and weights, activation, non-torch and available memory "
            f"add up to {parts:.2f}: a flag or a figure is another boot's",
        )


def _tokens(a: Anchor) -> Iterator[Problem]:
    """From 0.20.2 the printed tokens are concurrency x max_model_len; before, for every model, they are no more than
    that.
    """
    tokens, concurrency, length = (
        a.printed.get("kv_tokens"),
        a.printed.get("max_concurrency"),
        a.flags.get("max_model_len"),
    )
    if a.engine != "vllm" or tokens is None or concurrency is None or not isinstance(length, int):
        return
    concurrency = float(concurrency)
    expected, rounding = concurrency * length, 0.0051 * length + 16
    exact = (0, 20, 2) <= _version(a.version) < (9,) and len(a.version.split(".")) > 2
    if tokens > expected + rounding + 0.01 * expected or (exact and tokens < expected - rounding - 0.01 * expected):
        yield Problem(
            "printed.kv_tokens",
            f"{tokens:,} tokens and {concurrency:g}x at {length:,} tokens a request contradict each other: "
            "max_model_len is another boot's",
        )


def _model(a: Anchor, profile: Profile) -> Iterator[Problem]:
    tp = int(a.flags.get("tensor_parallel_size", 1)) * int(a.flags.get("decode_context_parallel_size", 1))
    pp = int(a.flags.get("pipeline_parallel_size", 1))
    available, tokens = _number(a, "available_gib"), a.printed.get("kv_tokens")
    width = ELEMENT_BYTES.get(str(a.flags.get("kv_cache_dtype", "auto")).split(" ")[0])
    if (
        a.engine == "vllm"
        and available
        and isinstance(tokens, int)
        and tokens
        and width
        and not a.flags.get("speculative")
    ):
        per_token = available * GIB / tokens
        low, high = _bytes_per_token(profile, tp, width, int(a.flags.get("max_model_len") or 1))
        if not low / pp * 0.95 <= per_token <= high * 1.25:
            yield Problem(
                "printed.kv_tokens",
                f"{available:g} GiB for {tokens:,} tokens is {per_token:,.0f} B a token, and "
                f"{profile.id} takes {low / pp:,.0f}"
                + (f" to {high:,.0f}" if high > low else "") + ": another model's log, or another KV format or TP",
            )  # fmt: skip
    yield from _weights(a, profile, tp * pp)


def _weights(a: Anchor, profile: Profile, cards: int) -> Iterator[Problem]:
    """What was loaded is a known variant, or the model's parameters at the bits its `weights` name."""
    weights = _number(a, "weights_gib")
    if not weights or weights < 0.05 or not profile.weights:
        return
    sizes = [w.num_bytes / GIB / cards for w in profile.weights]
    parameters = max((w.num_parameters or 0 for w in profile.weights), default=0)
    for words, low, high in BYTES_A_PARAMETER:
        if parameters and re.search(words, a.weights.lower()):
            sizes.append(parameters * (low + high) / 2 / GIB / cards)
    widest = (
        1.4 if parameters else WIDEST
    )  # without a parameter count, any precision above the known variants is possible
    if not any(0.75 * s <= weights <= widest * s for s in sizes):
        listed = ", ".join(f"{s:.2f}" for s in sizes[:4])
        yield Problem(
            "printed.weights_gib", f"{weights:g} GiB a card, and {profile.id} takes {listed} GiB: another model's log?"
        )


def _bytes_per_token(profile: Profile, tp: int, width: float, length: int) -> tuple[float, float]:
    """Bytes a token on one card: at least the growing layers alone, at most every layer growing. Latent rows are whole.

    Beside recurrent states, releases up to 0.20.0 count a token once for all groups of layers (as many as there are
    layers for one that grows), later ones spread a request's states over its tokens.
    """
    low = high = 0.0
    growing_layers = 0
    for layer in profile.layers:
        for cache in layer.caches:
            heads = getattr(cache, "num_kv_heads", 0)
            share = 1 / tp if heads == 0 else max(1, heads // tp) / heads
            if cache.kind in ("latent", "compressed", "indexer"):
                share = 1.0
            growing = float(cache.growing_elements())
            growing_layers += growing > 0
            per_layer = growing or float(getattr(cache, "elements_per_token", lambda: 0)())
            low, high = low + growing * share * width, high + per_layer * share * width
    if states := profile.state_elements_per_sequence:
        high = max(high * len(profile.layers) / max(1, growing_layers), high + 3 * 4 * states / tp / length)
    return low, high


def _number(a: Anchor, name: str) -> float | None:
    value = a.printed.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(p) for p in text.split(".") if p.isdigit())
