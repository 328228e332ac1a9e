"""SGLang 0.4.9 to 0.5.23: `mem_fraction_static`, pools of whole, window and state, running requests.

What each rule rests on is named in its module; `versions` holds what changed between releases, `knowledge` what only
the engine's code knows about an architecture.
"""

from __future__ import annotations

from calc.engines.sglang.engine import ENGINE

__all__ = ["ENGINE"]
