"""A compose file or a script becomes the plan its engine command line asks for; nothing in it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calc.commandline import plan_from_file
from onboard.errors import BadYaml, UsageError

COMPOSE = """
x-common: &common
  restart: always
services:
  web:
    image: nginx
    command: nginx -g 'daemon off;'
  llm:
    <<: *common
    image: vllm/vllm-openai:v0.24.0
    command: >
      --model /models/x --max-model-len ${MAX_LEN:-262144} --tensor-parallel-size 2 --kv-cache-dtype fp8_e5m2
      --gpu_memory_utilization 0.92 --speculative-config '{"method":"mtp","num_speculative_tokens":3}' --port 8000
      --enable-auto-tool-choice --max-num-seqs=2 --no-enable-prefix-caching
"""
LLAMA = r"""#!/bin/bash
# llama-server -c 1
CTX=131072
exec ./llama-server -m x.gguf -c $CTX -np 2 -ctk q8_0 -ctv q8_0 -fa on \
  -ngl 99 --host 0.0.0.0 -ts 3,1
"""
SGLANG = "python3 -m sglang.launch_server --model-path x --tp 2 --mem-fraction-static 0.85 --context-length 65536"
CASES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "compose.yml",
        COMPOSE,
        {
            "engine": "vllm@0.24.0", "max_model_len": 262144, "tensor_parallel_size": 2, "kv_cache_dtype": "fp8_e5m2",
            "gpu_memory_utilization": 0.92, "max_num_seqs": 2, "drafter": "mtp", "num_speculative_tokens": 3,
            "enable_prefix_caching": False,
        },
    ),
    (
        "start.sh",
        LLAMA,
        {
            "engine": "llamacpp", "max_model_len": 131072, "max_num_seqs": 2, "cache_type_k": "q8_0",
            "cache_type_v": "q8_0",
            "flash_attn": "on", "n_gpu_layers": 99, "tensor_split": (3.0, 1.0),
        },
    ),
    (
        "compose.yml",
        COMPOSE.replace(
            "    command: >", "    environment: [A=1, VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0]\n    command: >"
        ),
        {
            "engine": "vllm@0.24.0", "max_model_len": 262144, "tensor_parallel_size": 2, "kv_cache_dtype": "fp8_e5m2",
            "gpu_memory_utilization": 0.92, "max_num_seqs": 2, "drafter": "mtp", "num_speculative_tokens": 3,
            "enable_prefix_caching": False, "cuda_graph_estimate": False,
        },
    ),
    (
        "start.sh",
        "export VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0\nvllm serve x --max-num-seqs 4",
        {"engine": "vllm", "cuda_graph_estimate": False, "max_num_seqs": 4},
    ),
    (
        "start.sh",
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1 vllm serve x",
        {"engine": "vllm", "cuda_graph_estimate": True},
    ),
    (
        "start.sh",
        SGLANG,
        {"engine": "sglang", "tensor_parallel_size": 2, "mem_fraction_static": 0.85, "max_model_len": 65536},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), CASES)
def test_the_plan_is_the_command_lines(tmp_path: Path, name: str, text: str, expected: dict[str, Any]) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert plan_from_file(str(path)) == expected


@pytest.mark.parametrize("text", ["echo hello", "", SGLANG + "\n" + SGLANG])
def test_none_or_several_engines_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "start.sh"
    path.write_text(text)
    with pytest.raises(UsageError):
        plan_from_file(str(path))


def test_nothing_is_run(tmp_path: Path) -> None:
    path = tmp_path / "start.sh"
    path.write_text(f"touch {tmp_path}/ran\nvllm serve x --max-num-seqs $(touch {tmp_path}/ran; echo 3)")
    with pytest.raises(UsageError, match="--max-num-seqs"):
        plan_from_file(str(path))
    assert not (tmp_path / "ran").exists()


def test_broken_yaml_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "compose.yml"
    path.write_text("services: [")
    with pytest.raises(BadYaml):
        plan_from_file(str(path))
