"""Predictions a second in one process, on a hybrid model with a plan that changes each time.

`python benchmarks/predictions_per_second.py [SOURCE]`; SOURCE is a catalogue id, a folder or a config.json.
"""

from __future__ import annotations

import sys
import time

from calc.plan import Plan
from calc.predict import predict
from onboard.open import load_profile
from onboard.values import replace

PREDICTIONS = 20_000


def main() -> None:
    profile = load_profile(sys.argv[1] if len(sys.argv) > 1 else "qwen3.6-27b")
    base = Plan(engine="vllm@0.33", card="h100-80gb", tensor_parallel_size=2, weights_gb=20)
    predict(profile, base)
    plans = [
        replace(
            base,
            max_model_len=4096 + 13 * (i % 10_000),
            kv_cache_dtype=("auto", "fp8")[i % 2],
            gpu_memory_utilization=0.9,
        )
        for i in range(PREDICTIONS)
    ]
    start, cpu = time.perf_counter(), time.process_time()
    for plan in plans:
        predict(profile, plan)
    seconds, busy = time.perf_counter() - start, time.process_time() - cpu
    print(
        f"{PREDICTIONS / seconds:,.0f} predictions a second; {PREDICTIONS / busy:,.0f} a second of this process's time"
    )


if __name__ == "__main__":
    main()
