"""SGLang's boot log: the lines that name its pools, and what a difference to the prediction points at.

Where the log says how much memory was free before and after the weights, the pool is predicted from that; else from its
own token count, and then only the printed sizes, the window's split and the state slots are a test.
"""

from __future__ import annotations

import re
from typing import Any

from calc.bootlog_lines import LogFacts
from calc.engine_log import Finding, Predicted
from calc.engines.sglang.log_lines import LINES
from calc.engines.sglang.log_pools import label_pools, pool_range
from calc.plan import Plan
from calc.prediction import PoolCache, Prediction
from calc.units import GIB
from onboard.profile import Profile
from onboard.values import replace

_ARGUMENT = re.compile(r"\b(\w+)=('[^']*'|\"[^\"]*\"|[^,()\[\]]+)")
_VERSION = re.compile(r"sglang[ =:_-]{1,3}v?(\d+\.\d+\.\d+)", re.IGNORECASE)
# ServerArgs' name -> ours, for plain numbers and words.
_FIELDS = {
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "context_length": "max_model_len",
    "kv_cache_dtype": "kv_cache_dtype",
    "mem_fraction_static": "mem_fraction_static",
    "max_running_requests": "max_num_seqs",
    "page_size": "page_size",
    "swa_full_tokens_ratio": "swa_full_tokens_ratio",
    "mamba_full_memory_ratio": "mamba_full_memory_ratio",
    "chunked_prefill_size": "chunked_prefill_size",
    "max_total_tokens": "max_total_tokens",
    "max_mamba_cache_size": "max_mamba_cache_size",
    "mamba_ssm_dtype": "mamba_ssm_cache_dtype",
    "speculative_num_draft_tokens": "num_speculative_tokens",
    "disable_radix_cache": "disable_radix_cache",
    "disable_hybrid_swa_memory": "disable_hybrid_kv_cache_manager",
    "disable_cuda_graph": "enforce_eager",
}
_FLAGS = frozenset({"disable_radix_cache", "disable_hybrid_kv_cache_manager", "enforce_eager"})
_WORDS = frozenset({"kv_cache_dtype", "mamba_ssm_cache_dtype"})
# "mem usage" of a load is the drop of free memory: kernels that load with the model are in it (3.25 GiB were printed
# for 2.87 GiB of weights on a GB10).
LOADED_BESIDE_WEIGHTS = 0.4 * GIB
# Words of a line that reports a failure -> kind, what it means.
FAILURES: tuple[tuple[str, str, str], ...] = (
    ("Not enough memory. Please try to increase --mem-fraction-static", "memory", "weights leave no page of KV cache"),
    ("leave no GPU memory for the KV cache", "memory", "weights leave no memory for the cache under this fraction"),
    ("Not enough GPU memory for hybrid", "state_slots", "the state pool holds no slot"),
    ("state cache is too small to serve any requests", "state_slots", "fewer state slots than one request takes"),
    ("cannot hold even one request", "window_pool", "the window pool is below the window and a page"),
    ("leaves no room for the full", "window_pool", "the window pool's worst case takes the whole budget"),
    ("CUDA out of memory", "free_memory", "what mem_fraction_static leaves free did not hold graphs and activations"),
)


class SglangLog:
    """The contract of `calc.bootlog.EngineLog`, answered for SGLang."""

    engine = "sglang"
    marks = ("ServerArgs(", "max_total_num_tokens=", "KV Cache is allocated", "Load weight", "sglang")
    keys = (
        "ServerArgs(", "max_total_num_tokens=", "KV Cache is allocated", "Mamba Cache is allocated", "Load weight",
        "sliding window memory pool", "apture cuda graph end", "sglang", *(words for words, _, _ in FAILURES),
    )  # fmt: skip
    patterns = LINES
    starts = re.compile(r"\bserver_args=ServerArgs\(")
    estimated = frozenset({"weights"})

    def setting(self, text: str, settings: dict[str, Any]) -> None:
        """Flags of the ServerArgs line, the version, and lines that say why a boot failed."""
        version = _VERSION.search(text)
        if version is not None:
            settings["version"] = version.group(1)
        for words, kind, meaning in FAILURES:
            if words in text:
                settings.setdefault("failures", {})[kind] = meaning
        if "ServerArgs(" in text:
            _server_args(dict(_ARGUMENT.findall(text)), settings)

    def plan(self, settings: dict[str, Any], facts: LogFacts, given: Plan) -> Plan:
        """What the user gave over what the log states."""
        label_pools(facts)
        stated = {k: v for k, v in settings.items() if k in Plan.__struct_fields__}
        context = facts.last("context_len")
        if context is not None and "max_model_len" not in stated:
            stated["max_model_len"] = int(context.value)
        version = settings.get("version")
        engine = given.engine if given.engine.startswith("sglang") else f"sglang@{version}" if version else "sglang"
        before = facts.least("free_before_weights_bytes")
        if given.card is None and given.vram_gib is None and before is not None:
            stated["vram_gib"] = float(-(-before.value // GIB))
        return replace(Plan(), **{**stated, **given.given(), "engine": engine})

    def pools(self, profile: Profile, plan: Plan, facts: LogFacts) -> tuple[Plan, ...]:
        """The pool that the free memory gives, else the pool that the token count gives."""
        loaded = facts.least("weights")
        if plan.weights_gb is None and not profile.weights and loaded is not None:
            shares = plan.tensor_parallel_size * plan.pipeline_parallel_size
            plan = replace(plan, weights_gb=loaded.value * shares / 10**9)
        return tuple(replace(plan, kv_cache_memory_bytes=size) for size in pool_range(profile, plan, facts)) or (plan,)

    def predicted(self, quantity: str, prediction: Prediction) -> Predicted | None:
        """The prediction's figure for a printed quantity."""
        caches = {c.name: c for c in prediction.cache.pool.caches}
        value = _figure(quantity, prediction, caches)
        if quantity == "weights":
            term = next((t for t in prediction.terms if t.name == "weights"), None)
            if term is None or term.origin == "option":
                return None
            return float(term.low), float(term.high) + LOADED_BESIDE_WEIGHTS
        return None if value is None else (float(value), float(value))

    def suspects(self, profile: Profile, plan: Plan) -> tuple[tuple[Finding, Profile, Plan], ...]:
        """Another KV format, another TP, no window pool, an uncounted drafter, another state dtype."""
        tried: list[tuple[str, str, dict[str, Any]]] = [
            ("kv-dtype", f"the cache holds {name}", {"kv_cache_dtype": name})
            for name in ("bf16", "fp8_e4m3", "fp4_mx_block16")
            if name != plan.kv_cache_dtype
        ]
        tried += [
            ("tensor-parallel", f"the boot ran at --tp {tp}", {"tensor_parallel_size": tp})
            for tp in (1, 2, 4, 8)
            if tp != plan.tensor_parallel_size
        ]
        tried += [
            (
                "window-pool",
                "the window pool is off: every layer is kept whole",
                {"disable_hybrid_kv_cache_manager": True},
            ),
            ("state-dtype", "recurrent state is kept in bfloat16", {"mamba_ssm_cache_dtype": "bfloat16"}),
        ]
        if profile.mtp_layers and plan.drafter is None:
            tried.append(("drafter", "the built-in draft head is charged to the pool", {"drafter": "mtp"}))
        return tuple((Finding(kind, text), profile, replace(plan, **change)) for kind, text, change in tried)

    def failures(self, facts: LogFacts) -> tuple[Finding, ...]:
        """What the log says went wrong."""
        return tuple(Finding(kind, meaning) for kind, meaning in facts.settings.get("failures", {}).items())

    def remedies(self, facts: LogFacts) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Changes worth trying, by what failed."""
        kinds = facts.settings.get("failures", {})
        found: list[tuple[str, dict[str, Any]]] = []
        if "free_memory" in kinds:
            found += [
                ("--mem-fraction-static 0.80", {}),
                ("--cuda-graph-max-bs 8", {}),
                ("--chunked-prefill-size 2048", {}),
            ]
        if {"memory", "state_slots"} & set(kinds):
            found += [
                ("--mem-fraction-static 0.92", {"mem_fraction_static": 0.92}),
                ("--kv-cache-dtype fp8_e4m3", {"kv_cache_dtype": "fp8_e4m3"}),
            ]
        if "state_slots" in kinds:
            found.append(("--mamba-full-memory-ratio 2", {"mamba_full_memory_ratio": 2.0}))
        if "window_pool" in kinds:
            found.append(("--swa-full-tokens-ratio 0.8", {"swa_full_tokens_ratio": 0.8}))
        return tuple(found)


def _figure(quantity: str, prediction: Prediction, caches: dict[str, PoolCache]) -> float | None:
    pool = prediction.cache.pool
    plain = {
        "kv_tokens": pool.tokens,
        "max_running_requests": pool.extra.get("max_running_requests"),
        "context_len": prediction.resolved.plan.max_model_len,
        "state_slots": caches["state"].num_slots if "state" in caches else None,
        "state_conv_bytes": pool.extra.get("state_conv_bytes"),
        "state_ssm_bytes": pool.extra.get("state_ssm_bytes"),
        "state_intermediate_ssm_bytes": pool.extra.get("state_intermediate_ssm_bytes"),
    }
    if quantity in plain:
        return plain[quantity]
    name, _, part = quantity.partition("_")
    if name not in caches:
        return None
    cache = caches[name]
    return {"tokens": cache.num_cells, "k_bytes": cache.k_bytes, "v_bytes": cache.v_bytes}.get(part)


def _server_args(found: dict[str, str], settings: dict[str, Any]) -> None:
    """ServerArgs(...) -> Plan fields. Values that a plan cannot hold are passed over."""
    values = {name: value.strip("'\" ") for name, value in found.items()}
    for name, field in _FIELDS.items():
        value = values.get(name, "None")
        if value == "None":
            continue
        if field in _FLAGS:
            settings[field] = value == "True"
        elif field in _WORDS:
            settings[field] = value
        elif re.fullmatch(r"\d{1,10}(\.\d{1,20})?", value) and float(value) > 0:
            settings[field] = float(value) if "." in value else int(value)
    if values.get("enable_dp_attention") == "True" and values.get("dp_size", "").isdigit():
        settings["data_parallel_size"] = int(values["dp_size"])
    algorithm = values.get("speculative_algorithm", "None")
    if algorithm == "NGRAM":
        settings["drafter"] = "ngram"
    elif algorithm in ("NEXTN", "EAGLE") and values.get("speculative_draft_model_path", "None") == "None":
        settings["drafter"] = "mtp"


LOG = SglangLog()
