"""Take any one key out of a good recurrent config, or null it: the layers stay, or the run refuses or says so."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from onboard.derive import derive
from onboard.errors import Refusal
from onboard.profile import SourceRef
from tests.shared import SHARED, needs_shared

pytestmark = [needs_shared, pytest.mark.wide]
LEFT_ALONE = ("vision_config", "quantization_config", "audio_config")
CONFIGS = (
    "LiquidAI__LFM2-1.2B", "MiniMaxAI__MiniMax-Text-01", "Qwen__Qwen3-Next-80B-A3B-Instruct", "Qwen__Qwen3.6-27B",
    "RWKV__rwkv-4-7b-pile", "Zyphra__Zamba2-1.2B", "ai21labs__Jamba-v0.1", "deepseek-ai__DeepSeek-V4-Flash",
    "ibm-ai-platform__Bamba-9B-v1", "ibm-granite__granite-4.0-h-micro", "mistralai__Mamba-Codestral-7B-v0.1",
    "moonshotai__Kimi-K3", "moonshotai__Kimi-Linear-48B-A3B-Instruct", "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "nvidia__NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", "nvidia__NVIDIA-Nemotron-Nano-9B-v2",
    "openbmb__MiniCPM-V-4_6-AWQ", "sgl-project__DeepSeek-V4-Flash-FP8", "state-spaces__mamba-2.8b-hf",
    "tiiuae__Falcon-H1-34B-Instruct", "tiiuae__falcon-mamba-7b-instruct",
)  # fmt: skip


def outcome(config: dict[str, Any]) -> tuple[Any, frozenset[Any]] | None:
    """Layers and cautions, None where it is refused."""
    try:
        profile = derive(config, model_id="m", source=SourceRef(kind="file", name="m"))
    except Refusal:
        return None
    return (profile.layers, profile.mtp_layers), frozenset((w.kind, w.where) for w in profile.warnings)


def without_one_key(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    inner = [(key,) for key in config]
    for key, value in config.items():
        if isinstance(value, dict) and key not in LEFT_ALONE:
            inner += [(key, nested) for nested in value]  # type: ignore[misc]
    for path in inner:
        for nulled in (False, True):
            changed = copy.deepcopy(config)
            place = changed
            for key in path[:-1]:
                place = place[key]
            if nulled:
                place[path[-1]] = None
            else:
                del place[path[-1]]
            yield f"{'.'.join(path)} {'null' if nulled else 'gone'}", changed


@pytest.mark.parametrize("name", CONFIGS)
def test_no_missing_key_gives_other_layers_silently(name: str) -> None:
    config = json.loads((SHARED / "corpus" / name / "config.json").read_text())
    good = outcome(config)
    assert good is not None
    silent = []
    for change, changed in without_one_key(config):
        got = outcome(changed)
        if got is not None and got[0] != good[0] and not got[1] - good[1]:
            silent.append(change)
    assert not silent
