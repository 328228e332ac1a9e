"""The dtype of a recurrent state as vLLM keeps it."""

from __future__ import annotations

from onboard.facts import Facts

# Models whose config has the key while vLLM reads it only through another model's config hook.
KEY_UNREAD = frozenset({"MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6"})  # vLLM 0.33: not in MODELS_CONFIG_MAP


def ssm_dtype(facts: Facts) -> str:
    """The config's key; float32 for Nemotron-H without one; else the model's own ("model").

    Source: vLLM 0.33 `model_executor/models/config.py`, the hooks of Qwen3.5 and Nemotron-H.
    """
    if facts.has("ssm_dtype") and not _unread(facts):
        stated = str(facts.get("ssm_dtype"))
        return "model" if stated == "auto" else stated.removeprefix("torch.")
    kept = "float32" if facts.get("nemotron_state_size") is not None else "model"
    word = kept if kept != "model" else "the model's dtype"
    facts.caution("defaulted-field", "mamba_ssm_dtype", f"not stated, or not read; vLLM keeps the state in {word}")
    return kept


def _unread(facts: Facts) -> bool:
    architectures = facts.root.get("architectures")
    listed = architectures if isinstance(architectures, (list, tuple)) else ()
    return bool(KEY_UNREAD.intersection(str(name)[:200] for name in (*listed, facts.root.get("model_type"))))
