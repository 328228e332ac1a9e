"""vLLM: defaults, cache arithmetic, refusals and log lines by release."""

from __future__ import annotations

from calc.engines.vllm.engine import ENGINE

__all__ = ["ENGINE"]
