"""The dtype of a recurrent state's matrix where neither the config's own rule nor the user settles it.

Sources: vLLM 0.33 models/config.py:812 (Nemotron-H); 0.19.1 :494; 0.14.1 :537; 0.11.0 (the key is ignored).
"""

from __future__ import annotations

from calc.engines.vllm.versions import Rules
from onboard.profile import Profile

#: Classes whose hook sets the state's dtype from the config's key, else from the release's own default.
NEMOTRON_H = frozenset({"NemotronHForCausalLM", "NemotronH_Nano_VL_V2", "NemotronHPuzzleForCausalLM"})


def state_dtype(profile: Profile, asked: str | None, rules: Rules) -> str | None:
    """The dtype to use instead of the layer's own, or None. A layer's own is what the config or class fixes."""
    if asked is not None and asked != "auto":
        return asked
    if not NEMOTRON_H.intersection(profile.architectures):
        return None
    if rules.nemotron_ssm_dtype == "model":
        return "model"
    stated = profile.facts.get("ssm_dtype")
    if stated is not None and stated.origin in ("config", "class-default"):
        return None
    return rules.nemotron_ssm_dtype
