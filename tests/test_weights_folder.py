"""Weights in a local folder: what else lies there, how much may lie there, and headers against the rule's count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onboard.errors import TooLarge
from onboard.profile import Profile
from onboard.read import read_source
from onboard.sources import local
from tests import checkpoints as c

LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 4, "hidden_size": 512,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1024, "vocab_size": 1000,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
TENSORS = c.decoder(LLAMA)


def folder(root: Path, config: dict[str, Any]) -> Profile:
    (root / "config.json").write_text(json.dumps(config), encoding="utf-8")
    made = c.file_of(TENSORS)
    with (root / "model.safetensors").open("wb") as handle:
        handle.write(made.head)
        handle.truncate(made.size)
    return read_source(str(root))


def told(profile: Profile) -> list[str]:
    return [w.kind for w in profile.warnings]


def test_headers_agree_with_the_rule(tmp_path: Path) -> None:
    profile = folder(tmp_path, LLAMA)
    assert profile.weights[0].num_bytes == c.total(TENSORS)
    assert "weights-disagree" not in told(profile)


def test_headers_that_hold_another_width_are_told(tmp_path: Path) -> None:
    profile = folder(tmp_path, {**LLAMA, "intermediate_size": 2048})
    assert profile.weights[0].num_bytes == c.total(TENSORS)
    assert "weights-disagree" in told(profile)


def test_thousands_of_other_files_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_FILES", 50)
    for i in range(3000):
        (tmp_path / f"{i}.png").touch()
    assert folder(tmp_path, LLAMA).weights[0].num_bytes == c.total(TENSORS)


@pytest.mark.parametrize("bound", ["MAX_FILES", "MAX_SCANNED"])
def test_a_folder_beyond_the_bounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(local, bound, 20)
    for i in range(40):
        (tmp_path / f"{i}.json").touch()
    with pytest.raises(TooLarge, match="holds more than"):
        folder(tmp_path, LLAMA)
