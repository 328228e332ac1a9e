"""Models that a release does not serve: named classes that were dropped, and recurrent mechanisms it has no layer for.

Sources: vLLM 0.33 model_executor/models/registry.py:860 (classes of past releases), layers/mamba/ (mechanisms).
A class that is not listed is not refused: the list of what is served changes with every release.
"""

from __future__ import annotations

from calc.engines.vllm.versions import Version
from calc.prediction import Reason
from onboard.profile import Profile
from onboard.states import StateCache

#: The last release that served a class.
DROPPED: dict[str, Version] = {
    "MiniMaxText01ForCausalLM": (0, 23, 999),
    "MiniMaxM1ForCausalLM": (0, 23, 999),
    "BambaForCausalLM": (0, 23, 999),
    "QWenLMHeadModel": (0, 23, 999),
    "BaichuanForCausalLM": (0, 23, 999),
    "Phi3SmallForCausalLM": (0, 9, 2),
}
#: Mechanisms that no release has layers for.
UNSERVED = frozenset({"rwkv", "rwkv4", "xlstm", "rg_lru", "retention", "hyena"})


def unserved(profile: Profile, version: Version) -> tuple[Reason, ...]:
    """Why this release would not load the model at all; () where nothing is known against it."""
    for name in profile.architectures:
        last = DROPPED.get(name)
        if last is not None and version > last:
            text = f"vLLM served {name} up to {last[0]}.{last[1]}: use an older release, or another engine"
            return (Reason("model", text),)
    families = {s.family for s, _ in profile.cache_groups if isinstance(s, StateCache)}
    missing = sorted(families & UNSERVED)
    if missing:
        return (Reason("model", f"vLLM has no layers for {', '.join(missing)}: use another engine"),)
    return ()
