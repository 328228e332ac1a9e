"""Write docs/two_cards.md: what three engines fit on two 24 GiB cards, model by model; a test compares them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MODELS = ("qwen3.6-27b", "qwen3.6-35b-a3b", "gemma-4-31b", "gemma-4-26b-a4b")
LENGTHS = ((32768, "32K"), (131072, "128K"), (262144, "262K"))
GIB = 2**30


class Column(NamedTuple):
    """One engine with a KV format: the options of its plan, and how a reader would ask for them."""

    title: str
    engine: str
    knobs: dict[str, Any]


def columns() -> tuple[Column, ...]:
    both = [("vLLM", "vllm", "auto"), ("vLLM", "vllm", "fp8_e5m2"), ("SGLang", "sglang", "auto")]
    both += [("SGLang", "sglang", "fp8_e5m2")]
    served = [
        Column(f"{title} {'bf16' if kv == 'auto' else kv}", engine, {"tensor_parallel_size": 2, "kv_cache_dtype": kv})
        for title, engine, kv in both
    ]
    local = [
        Column(f"llama.cpp {kv}", "llamacpp", {"gpus": 2, "max_num_seqs": 1, "kv_cache_dtype": kv})
        for kv in ("f16", "q8_0")
    ]
    return (*served, *local)


def cell(model: Any, column: Column, length: int) -> str:
    """The verdict, bytes a card with one request of that length, and what the cache holds of it."""
    from calc.plan import Plan
    from calc.predict import predict

    found = predict(model, Plan(engine=column.engine, card="rtx-3090", max_model_len=length, **column.knobs))
    held = f"{found.minimum_bytes / GIB:.1f} GiB"
    if found.verdict == "FAIL":
        longest = found.cache.max_model_len_that_fits
        return f"FAIL {held}" + (f", {longest} fit" if longest else "")
    if column.engine == "llamacpp":
        return f"{found.verdict} {held}"
    return f"{found.verdict} {held}, x{found.cache.pool.max_concurrency:.1f}"


def page() -> str:
    """The whole page."""
    from onboard.open import load_profile

    asked = columns()
    lines = [
        "# Two 24 GiB cards, three engines",
        "",
        "Written by `make docs` from `calc predict --card rtx-3090`: `--tp 2` for vLLM and SGLang, `--gpus 2` and",
        "one slot for llama.cpp, each profile's default weights, the newest release's rules. GiB is what the",
        "fuller card holds with one request of that length; `x` is how many such requests the cache holds at a",
        "time. PASS: it starts and holds one. TIGHT: it starts, and a request of that length does not fit its",
        "cache. FAIL: it does not start; the longest context that would stands behind. SGLang keeps",
        "`mem_fraction_static` of a 24 GiB card for weights and cache, and gives the rest to graphs and",
        "activations: `--mem-fraction-static` moves the line.",
        "",
    ]
    for name in MODELS:
        model = load_profile(name)
        lines += [f"## {name}, weights {model.default_weights}", ""]
        lines += ["| context | " + " | ".join(c.title for c in asked) + " |", "|---" * (len(asked) + 1) + "|"]
        for length, label in LENGTHS:
            lines.append(f"| {label} | " + " | ".join(cell(model, c, length) for c in asked) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "two_cards.md").write_text(page(), encoding="utf-8")
