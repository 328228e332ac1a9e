"""The dtype of a recurrent state as vLLM keeps it."""

from __future__ import annotations

from onboard.facts import Facts

# Architectures whose config has the key while vLLM reads it only through another architecture's config hook.
KEY_UNREAD = frozenset({"MiniCPMV4_6ForConditionalGeneration"})  # vLLM 0.33 MODELS_CONFIG_MAP has no entry for it


def ssm_dtype(facts: Facts) -> str:
    """The config's key; float32 for Nemotron-H without one; else the model's own ("model").

    Source: vLLM 0.33 `model_executor/models/config.py`, the hooks of Qwen3.5 and Nemotron-H.
    """
    architectures = facts.root.get("architectures") or ()
    if facts.has("ssm_dtype") and not KEY_UNREAD.intersection(str(a) for a in architectures):
        stated = str(facts.get("ssm_dtype"))
        return "model" if stated == "auto" else stated.removeprefix("torch.")
    return "float32" if facts.get("nemotron_state_size") is not None else "model"
