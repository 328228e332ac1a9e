"""llama.cpp's boot lines and the parameters they state.

Sources: llama.cpp 0c1e57098 src/llama-context.cpp (parameters, compute and output buffers), src/llama-kv-cache.cpp and
llama-memory-recurrent.cpp (sizes), src/llama-model.cpp (model buffers), common/fit.cpp; and the names of 2025's builds
(`llama_kv_cache_unified`, `llama_kv_cache_init`). Sizes are printed with two decimals of a MiB.
"""

from __future__ import annotations

import re
from typing import Any

from calc.bootlog_lines import NUMBER as N
from calc.bootlog_lines import LinePattern, LogFacts, Printed
from calc.engine_log import Finding, Predicted, loaded_range
from calc.engines.llamacpp.types import cache_type
from calc.plan import Plan
from calc.prediction import Prediction
from onboard.errors import UsageError
from onboard.profile import Profile
from onboard.values import replace

_CARD = r"(?:CUDA|ROCm|Vulkan|SYCL|Metal|MTL|RPC|CANN|MUSA|HIP)\w*(?:\[[^\]]*\])?"
_HOST = r"(?:CPU(?:_Mapped|_REPACK|_AARCH64)?|\w+_Host)"


def _line(text: str, **units: str) -> LinePattern:
    return LinePattern(re.compile(text), units, least_decimals=2)


PATTERNS: tuple[LinePattern, ...] = (
    _line(
        rf"llama_kv_cache\w*: size =\s*(?P<kv_size>{N})\s*MiB \(\s*(?P<kv_cells>{N})\s*cells,"
        rf"\s*(?P<kv_layers>{N})\s*layers",
        kv_size="MiB", kv_cells="count", kv_layers="count",
    ),
    _line(
        rf"llama_(?:memory_recurrent|kv_cache_recurrent): size =\s*(?P<state_size>{N})\s*MiB "
        rf"\(\s*(?P<state_slots>{N})\s*cells,",
        state_size="MiB", state_slots="count",
    ),
    _line(rf"{_CARD}\s+compute buffer size (?:=|is)\s*(?P<compute>{N})\s*MiB", compute="MiB"),
    _line(rf"\b{_HOST}\s+compute buffer size (?:=|is)\s*(?P<compute_host>{N})\s*MiB", compute_host="MiB"),
    _line(rf"{_CARD}\s+model buffer size =\s*(?P<weights>{N})\s*MiB", weights="MiB"),
    _line(rf"\b{_HOST}\s+model buffer size =\s*(?P<weights_host>{N})\s*MiB", weights_host="MiB"),
    _line(rf"\bn_ctx\s*= (?P<n_ctx>{N})", n_ctx="count"),
    _line(rf"\bn_ctx_(?:seq|per_seq)\s*= (?P<n_ctx_seq>{N})", n_ctx_seq="count"),
    _line(rf"projected to use (?P<fit_used>{N})\s*MiB of device memory vs\. (?P<fit_free>{N})\s*MiB", fit_used="MiB"),
    _line(rf"allocating (?P<failed_size>{N})\s*MiB on device", failed_size="MiB"),
)  # fmt: skip
# words of a failed start -> kind, what it means
FAILURES: tuple[tuple[str, str, str], ...] = (
    ("cudaMalloc failed: out of memory", "memory", "a buffer did not fit the card"),
    ("failed to allocate buffer for kv cache", "memory", "the KV cache did not fit"),
    ("failed to allocate compute", "memory", "the compute buffer did not fit"),
    ("unable to allocate", "memory", "a buffer did not fit"),
    ("quantized V cache", "kv-dtype", "a quantised V cache needs flash attention"),
    ("does not divide n_embd_head", "kv-dtype", "the cache type's blocks do not divide the head size"),
    ("does not support different K", "kv-dtype", "this model needs one type for K and V"),
    ("unknown model architecture", "architecture", "this build does not know the architecture"),
    ("failed to load model", "load", "the model was not loaded"),
)
_PARAMETERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"\b{name}\s*= (\d+)"), field)
    for name, field in (
        ("n_ctx", "max_model_len"), ("n_seq_max", "max_num_seqs"), ("n_batch", "batch_size"),
        ("n_ubatch", "ubatch_size"),
    )
)  # fmt: skip
_TYPES = re.compile(r"K \((\w+)\):.*V \((\w+)\):")
_SWITCHES = (
    (re.compile(r"\bkv_unified\s*= (true|false)"), "kv_unified", {"true": True, "false": False}),
    (re.compile(r"\bflash_attn\s*= (\w+)"), "flash_attn", {"enabled": "on", "disabled": "off", "1": "on", "0": "off"}),
)
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
_DEVICE = re.compile(rf"using device ({_CARD}).*?(\d+) MiB free")


class LlamaCppLog:
    """See `calc.bootlog.EngineLog`."""

    engine = "llamacpp"
    marks: tuple[str, ...] = ("llama_", "llm_load", "load_tensors", "ggml_", "llama-server")
    keys: tuple[str, ...] = (
        "llama_kv_cache", "llama_memory_recurrent", "compute buffer size", "model buffer size", "llama_context",
        "llama_new_context", "llama_init", "offloaded", "using device", "llama_params_fit", "common_params_fit",
        "allocating", "unable to allocate", "cudaMalloc", "unknown model architecture", "failed to load model", "n_ctx",
        "build: ", "build_info: ",
    )  # fmt: skip
    patterns = PATTERNS
    starts = re.compile(r"\bbuild: \d+ \(|\bbuild_info: b?\d+")
    estimated = frozenset({"compute", "compute_host", "weights", "weights_host", "fit_used"})

    def setting(self, text: str, settings: dict[str, Any]) -> None:
        """Parameters by Plan field; cards by name with their free memory; words of a failure."""
        for pattern, field in _PARAMETERS:
            if found := pattern.search(text):
                settings[field] = int(found[1])
        for pattern, field, words in _SWITCHES:
            if (found := pattern.search(text)) and found[1] in words:
                settings[field] = words[found[1]]
        if (
            (types := _TYPES.search(text))
            and "llama_kv_cache" in text
            and cache_type(types[1])
            and cache_type(types[2])
        ):
            settings["cache_type_k"], settings["cache_type_v"] = types[1], types[2]
        if "using full-size SWA cache" in text:
            settings["swa_full"] = True
        if offloaded := _OFFLOADED.search(text):
            settings["n_gpu_layers"] = -1 if offloaded[1] == offloaded[2] else int(offloaded[1])
        if device := _DEVICE.search(text):
            settings.setdefault("devices", {})[device[1]] = int(device[2])
        settings.setdefault("failed", []).extend(words for words, _, _ in FAILURES if words in text)

    def plan(self, settings: dict[str, Any], facts: LogFacts, given: Plan) -> Plan:
        """What the user gave, then what the log states. KV lines are told apart by their order, as they are printed."""
        stated = {k: v for k, v in settings.items() if k in Plan.__struct_fields__}
        stated.setdefault("kv_unified", None)
        plan = replace(Plan(), **{**stated, **given.given(), "engine": given.engine if _is_ours(given) else "llamacpp"})
        _number_caches(facts)
        devices = settings.get("devices", {})
        if plan.gpus is None and devices:
            plan = replace(plan, gpus=len(devices))
        if plan.card is None and plan.vram_gib is None:
            if not devices:
                raise UsageError("the log names no card", path="--card", hint="give --card NAME, or --vram GIB")
            plan = replace(plan, vram_gib=min(devices.values()) / 1024)
        return plan

    def pools(self, profile: Profile, plan: Plan, facts: LogFacts) -> tuple[Plan, ...]:
        """The caches follow from the plan alone; weights that nobody knows are the log's own."""
        if not profile.weights and plan.weights_gb is None:
            loaded = sum(p.value for name in ("weights", "weights_host") for p in facts.all(name))
            plan = replace(plan, weights_gb=max(loaded, 1.0) / 1e9)
        return (plan,)

    def predicted(self, quantity: str, prediction: Prediction) -> Predicted | None:
        caches = [c for c in prediction.cache.pool.caches if c.name not in ("state", "compressor")]
        states = [c for c in prediction.cache.pool.caches if c.name == "state"]
        name, _, number = quantity.partition("#")
        if number:
            index = int(number) - 1
            if index >= len(caches):
                return None
            cache = caches[index]
            value = {"kv_size": cache.bytes, "kv_cells": cache.num_cells, "kv_layers": cache.num_layers}[name]
            return float(value), float(value)
        exact = {
            "state_size": sum(c.bytes for c in states) if states else None,
            "state_slots": states[0].num_slots if states else None,
            "n_ctx": prediction.cache.pool.extra.get("n_ctx"),
            "n_ctx_seq": prediction.cache.pool.extra.get("n_ctx_seq"),
        }
        if quantity in exact:
            found = exact[quantity]
            return None if found is None else (float(found), float(found))
        return _estimated(quantity, prediction)

    def suspects(self, profile: Profile, plan: Plan) -> tuple[tuple[Finding, Profile, Plan], ...]:
        """Settings that the lines do not state: slots, full-size windows, drafts, an older build's padding."""
        tried = (
            ("slots", "the server ran its default of 4 unified slots", {"max_num_seqs": None, "kv_unified": None}),
            ("slots", "one slot", {"max_num_seqs": 1, "kv_unified": False}),
            ("swa-full", "window caches are full size (--swa-full)", {"swa_full": True}),
            ("flash-attention", "flash attention was off", {"flash_attn": "off"}),
            ("speculation", "states are kept for 3 drafted tokens", {"num_speculative_tokens": 3}),
            ("version", "a build of October 2025, whose window caches were not padded", {"engine": "llamacpp@2025.10"}),
        )
        return tuple((Finding(kind, text), profile, replace(plan, **change)) for kind, text, change in tried)

    def failures(self, facts: LogFacts) -> tuple[Finding, ...]:
        said = facts.settings.get("failed", [])
        return tuple(Finding(kind, meaning) for words, kind, meaning in FAILURES if words in said)

    def remedies(self, facts: LogFacts) -> tuple[tuple[str, dict[str, Any]], ...]:
        length = facts.settings.get("max_model_len") or 32768
        return (
            ("--cache-type-k q8_0 --cache-type-v q8_0", {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}),
            ("--parallel 1", {"max_num_seqs": 1, "kv_unified": False}),
            (f"--ctx-size {length // 2}", {"max_model_len": length // 2}),
            ("--cpu-moe", {"cpu_moe": True}),
        )


def _is_ours(plan: Plan) -> bool:
    return plan.engine.partition("@")[0].lower() in ("llamacpp", "llama.cpp", "llama-cpp")


def _number_caches(facts: LogFacts) -> None:
    """`kv_size` and its neighbours become `kv_size#1`, `#2` ... by the line they stand on."""
    lines = sorted({p.line for p in facts.printed if p.quantity in ("kv_size", "kv_cells", "kv_layers")})
    facts.printed[:] = [
        replace(p, quantity=f"{p.quantity}#{lines.index(p.line) + 1}")
        if p.line in lines and p.quantity.startswith("kv_")
        else p
        for p in facts.printed
    ]


def _estimated(quantity: str, prediction: Prediction) -> Predicted | None:
    """Buffers and weights of the fullest card, and of the host."""
    terms = {t.name: t for t in prediction.terms}
    host = next((d for d in prediction.devices if d.name == "host"), None)
    if quantity == "compute" and "activation" in terms:
        return float(terms["activation"].low), float(terms["activation"].high)
    if quantity == "weights" and "weights" in terms:
        return loaded_range([terms["weights"]])
    if host is not None and quantity == "compute_host":
        return float(host.compute_bytes), float(host.compute_bytes)
    if host is not None and quantity == "weights_host":
        return float(host.weights_bytes), float(host.weights_bytes)
    return None


LOG = LlamaCppLog()
__all__ = ["LOG", "LlamaCppLog", "Printed"]
