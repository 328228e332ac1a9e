"""What one SGLang answer holds, read from a prediction, for the tests that compare pools."""

from __future__ import annotations

from typing import Any

from calc.plan import Plan
from calc.predict import predict
from onboard.profile import Profile

GIB = 2**30


def figures(profile: Profile, **knobs: Any) -> dict[str, Any]:
    """The figures that SGLang's log and pools state, under the names of tests/data/sglang/pools.json."""
    settings: dict[str, Any] = {
        "engine": "sglang",
        "card": "h100-80gb",
        "kv_cache_memory_bytes": 40 * GIB,
        "weights_gb": 1.0,
    }
    prediction = predict(profile, Plan(**{**settings, **knobs}))
    pool = prediction.cache.pool
    caches = {c.name: c for c in pool.caches}
    found: dict[str, Any] = {
        "tokens": pool.tokens,
        "max_running_requests": pool.extra["max_running_requests"],
        "page_size": pool.block_size,
        "mem_fraction_static": prediction.resolved.plan.mem_fraction_static,
        "request_table_bytes": next(t.bytes for t in prediction.terms if t.name == "request_table"),
    }
    if "window" in caches:
        found["window_tokens"] = caches["window"].num_cells
    if "compressed_4" in caches:
        sizes = {name: c.bytes or c.k_bytes for name, c in caches.items() if name != "full"}
        return {**found, "parts": sizes}
    for name in ("full", "window"):
        if name in caches:
            found[name] = [caches[name].k_bytes, caches[name].v_bytes]
    if "state" in caches:
        found["state"] = {
            "slots": caches["state"].num_slots,
            "slots_per_request": pool.extra["state_slots_per_request"],
            "bytes_per_slot": pool.extra["state_bytes_per_slot"],
            "conv_bytes": pool.extra["state_conv_bytes"],
            "ssm_bytes": pool.extra["state_ssm_bytes"],
        }
        assert caches["state"].bytes == found["state"]["conv_bytes"] + found["state"]["ssm_bytes"]
    return found
