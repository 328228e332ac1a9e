"""llama.cpp: full and window caches, recurrent memory, placement on cards and host, compute buffers."""

from __future__ import annotations

from calc.engines.llamacpp.engine import ENGINE

__all__ = ["ENGINE"]
