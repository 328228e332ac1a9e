"""Weights of repositories on a loopback Hub, through the real huggingface_hub, headers by range requests alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import checkpoints as c
from tests.commands import ROOT
from tests.hubserver import HubServer, Sparse

LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336,
    "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
TIED = {**LLAMA, "num_hidden_layers": 16, "hidden_size": 2048, "head_dim": 64, "intermediate_size": 8192,
        "tie_word_embeddings": True}  # fmt: skip
MOE = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 12, "hidden_size": 2048,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip
VLM = {
    "model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"], "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_vl_text", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
        "max_position_embeddings": 262144, "dtype": "bfloat16", "tie_word_embeddings": False,
    },
    "vision_config": {
        "model_type": "qwen3_vl", "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
        "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2, "in_channels": 3,
        "num_position_embeddings": 2304, "out_hidden_size": 4096, "deepstack_visual_indexes": [],
    },
}  # fmt: skip
DENSE = c.decoder(LLAMA)
EXPERTS = c.decoder(MOE, qk_norm=True)
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
VLM_TENSORS = [
    *c.decoder(VLM["text_config"], qk_norm=True, root="model.language_model"), *c.qwen_tower(1152, 27, 4304, 4096)
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    config: dict[str, Any]
    files: dict[str, bytes | Sparse]
    num_bytes: int
    num_parameters: int | None = None
    quantization: str | None = None
    others: tuple[str, ...] = ()


def plain(tensors: list[c.Stored]) -> int:
    return c.total(tensors) // 2


CASES = {
    "dense": Case(LLAMA, c.sharded(DENSE, 4), c.total(DENSE), plain(DENSE)),
    "single": Case(
        TIED, {"model.safetensors": c.file_of(c.decoder(TIED))}, c.total(c.decoder(TIED)), plain(c.decoder(TIED))
    ),
    "moe": Case(MOE, c.sharded(EXPERTS, 8), c.total(EXPERTS), plain(EXPERTS)),
    "fp8": Case(
        {**LLAMA, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
        c.sharded(c.fp8(DENSE), 3), c.total(c.fp8(DENSE)), plain(DENSE), "fp8",
    ),
    "awq": Case(
        {**LLAMA, "quantization_config": AWQ}, c.sharded(c.awq(DENSE), 2), c.total(c.awq(DENSE)), plain(DENSE), "awq"
    ),
    "gptq-8": Case(
        {**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 128}},
        c.sharded(c.gptq(DENSE, 8), 2), c.total(c.gptq(DENSE, 8)), plain(DENSE), "gptq",
    ),
    "nvfp4": Case(
        {**MOE, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
        c.sharded(c.nvfp4(EXPERTS), 2), c.total(c.nvfp4(EXPERTS)), plain(EXPERTS), "modelopt nvfp4",
    ),
    "nvfp4-packed": Case(
        {**LLAMA, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}}},
        c.sharded(c.nvfp4(DENSE, modelopt=False), 2), c.total(c.nvfp4(DENSE, modelopt=False)), plain(DENSE),
        "compressed-tensors nvfp4",
    ),
    "vlm": Case(VLM, c.sharded(VLM_TENSORS, 4), c.total(VLM_TENSORS), plain(VLM_TENSORS)),
    "two-sets": Case(
        LLAMA, {**c.sharded(DENSE, 3), "consolidated.safetensors": c.file_of(DENSE)}, c.total(DENSE), plain(DENSE),
        others=("consolidated",),
    ),
    "folders": Case(
        LLAMA,
        {"original/model.safetensors": c.file_of(DENSE), "metal/model.bin": Sparse(b"", 10**9), **c.sharded(DENSE, 3)},
        c.total(DENSE), plain(DENSE), others=("original", "metal"),
    ),
    "odd-names": Case(
        LLAMA, c.sharded(DENSE, 32, name="layers-{0}.safetensors"), c.total(DENSE), plain(DENSE)
    ),
    "bin-beside": Case(
        LLAMA,
        {**c.sharded(DENSE, 2), "pytorch_model-00001-of-00001.bin": Sparse(b"", 16 * 10**9),
         "adapter_model.safetensors": c.file_of([c.bf16("a.weight", 8, 8)]), "tf_model.h5": Sparse(b"", 10**9)},
        c.total(DENSE), plain(DENSE), others=("pytorch_model",),
    ),
}  # fmt: skip

READ = """
import json, sys, time
from onboard.errors import Refusal
from onboard.read import read_source
import huggingface_hub
for repo in sys.argv[1:]:
    start = time.process_time()
    try:
        profile = read_source(repo)
        first = profile.weights[0]
        answer = {"bytes": first.num_bytes, "origin": first.origin, "parameters": first.num_parameters,
                  "quantization": first.quantization, "others": [w.name for w in profile.weights[1:]],
                  "groups": sum(g.num_bytes * g.copies for g in first.groups),
                  "warnings": [w.message for w in profile.warnings if w.kind == "weights-set-aside"]}
    except Refusal as error:
        answer = {"refused": error.kind, "message": error.message, "code": error.exit_code}
    print(json.dumps({**answer, "seconds": time.process_time() - start}))
"""


def read(hub: HubServer, home: Path, *repos: str, token: str = "") -> list[dict[str, Any]]:
    env = {**hub.env(home), "PYTHONPATH": str(ROOT), **({"HF_TOKEN": token} if token else {})}
    command = [sys.executable, "-W", "ignore", "-c", READ, *repos]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, dict[str, Any]], int]]:
    with HubServer() as hub:
        for name, case in CASES.items():
            hub.repo(f"org/{name}", {"config.json": json.dumps(case.config).encode(), **case.files})
        found = read(hub, tmp_path_factory.mktemp("home"), *(f"org/{name}" for name in CASES))
        yield dict(zip(CASES, found, strict=True)), hub.sent


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_the_selected_tensors(name: str, answers: tuple[dict[str, dict[str, Any]], int]) -> None:
    case, got = CASES[name], answers[0][name]
    assert got.get("origin") == "headers", got
    assert got["bytes"] == case.num_bytes == got["groups"]
    assert got["parameters"] == case.num_parameters
    assert got["quantization"] == case.quantization
    assert sorted(got["others"]) == sorted(case.others)


def test_what_was_set_aside_is_told(answers: tuple[dict[str, dict[str, Any]], int]) -> None:
    assert any("consolidated.safetensors" in w for w in answers[0]["two-sets"]["warnings"])
    aside = " ".join(answers[0]["bin-beside"]["warnings"])
    assert "adapter" in aside and "tf_model.h5" in aside and "pytorch_model" in aside


def test_little_is_fetched(answers: tuple[dict[str, dict[str, Any]], int]) -> None:
    stored = sum(len(f) for case in CASES.values() for f in case.files.values() if isinstance(f, Sparse))
    assert stored > 10**11
    assert answers[1] < 8 * 10**6


def test_three_hundred_shards(tmp_path: Path) -> None:
    config = {**MOE, "num_hidden_layers": 48}
    tensors = c.decoder(config, qk_norm=True)
    with HubServer() as hub:
        hub.repo("org/large", {"config.json": json.dumps(config).encode(), **c.sharded(tensors, 300)})
        (got,) = read(hub, tmp_path, "org/large")
        assert got["bytes"] == c.total(tensors)
        ranged = [path for method, path, wanted in hub.log if method == "GET" and wanted]
        assert len(ranged) < 600
        assert hub.sent < 6 * 10**6
    assert got["seconds"] < 3  # of this process's own work, imports included


def test_missing_shards_both_ways(tmp_path: Path) -> None:
    files = c.sharded(DENSE, 4)
    short = {k: v for k, v in files.items() if k != "model-00003-of-00004.safetensors"}
    stale = {**files, "model-00001-of-00009.safetensors": c.file_of(DENSE[:3])}
    config = json.dumps(LLAMA).encode()
    with HubServer() as hub:
        hub.repo("org/short", {"config.json": config, **short})
        hub.repo("org/stale", {"config.json": config, **stale})
        gone, extra = read(hub, tmp_path, "org/short", "org/stale")
    assert gone["refused"] == "MissingShard" and "model-00003-of-00004.safetensors" in gone["message"]
    assert extra["refused"] == "MissingShard" and "model-00001-of-00009.safetensors" in extra["message"]


def test_shapes_that_contradict_the_config(tmp_path: Path) -> None:
    with HubServer() as hub:
        hub.repo(
            "org/other", {"config.json": json.dumps({**LLAMA, "num_hidden_layers": 40}).encode(), **c.sharded(DENSE, 2)}
        )
        (got,) = read(hub, tmp_path, "org/other")
    assert got["refused"] == "WeightsDisagree" and "32 layers" in got["message"]


def test_fifty_thousand_files(tmp_path: Path) -> None:
    many = {f"checkpoint-{i}/part-{i}.safetensors": b"" for i in range(50_000)}
    with HubServer() as hub:
        hub.repo("org/many", {"config.json": json.dumps(LLAMA).encode(), **c.sharded(DENSE, 2), **many})
        (got,) = read(hub, tmp_path, "org/many")
    assert got["bytes"] == c.total(DENSE)


def test_a_redirect_keeps_the_token_at_home(tmp_path: Path) -> None:
    files = {"config.json": json.dumps(LLAMA).encode(), **c.sharded(DENSE, 2)}
    with HubServer() as home, HubServer() as elsewhere:
        elsewhere.repo("org/moved", files)
        home.repo("org/moved", files)
        home.repos["org/moved"].elsewhere = elsewhere.url.replace("127.0.0.1", "localhost")
        (got,) = read(home, tmp_path, "org/moved", token="hf_right")
        assert any(home.tokens)
        assert not any(elsewhere.tokens)
    assert got.get("bytes") == c.total(DENSE), got
