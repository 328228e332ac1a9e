"""`calc bootlog`: what engines print, read from logs as they are, and what a difference points at."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calc.bootlog import BootReport, compare, read_log
from calc.bootlog_lines import number_of, rank_of
from calc.commands.bootlog import command
from calc.plan import Plan
from onboard.errors import BadLog, Refusal
from onboard.layers import FullAttention, Layer
from onboard.profile import Profile
from onboard.values import replace
from tests.test_vllm_rules import DENSE, FULL, GEMMA_31B, QWEN_27B, SLIDING, model

#: A boot of Qwen3.6-27B with its MTP head, as two ranks of vLLM 0.24 print it (evidence row h10).
BOOT = """\
INFO 07-01 08:00:00 [api_server.py:1839] vLLM API server version 0.24.0
INFO 07-01 08:00:00 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3.6-27B', 'max_model_len': 262144, \
'tensor_parallel_size': 2, 'gpu_memory_utilization': 0.92, 'kv_cache_dtype': 'fp8_e5m2', 'max_num_seqs': 2, \
'max_num_batched_tokens': 8192, 'enable_prefix_caching': True, \
'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}}
\x1b[0;36m(EngineCore pid=7)\x1b[0;0m INFO [core.py:93] Initializing a V1 LLM engine (v0.24.0) with config: \
model='Qwen/Qwen3.6-27B', max_seq_len=262144, tensor_parallel_size=2, kv_cache_dtype=fp8_e5m2
\x1b[1;36m(Worker_TP0 pid=9)\x1b[0;0m INFO [gpu_model_runner.py:5307] Model loading took 9.87 GiB memory and 35.1 s
(Worker_TP1 pid=10) INFO [gpu_model_runner.py:5307] Model loading took 9.87 GiB memory and 35.2 seconds
(EngineCore pid=7) INFO [interface.py:870] Setting attention block size to 1600 tokens to ensure that it fits.
(Worker_TP1 pid=10) INFO [gpu_worker.py:499] Available KV cache memory: 11.07 GiB
(Worker_TP0 pid=9) INFO [gpu_worker.py:499] Available KV cache memory: 11.05 GiB
(EngineCore pid=7) INFO [kv_cache_utils.py:1798] GPU KV cache size: 623,873 tokens
(EngineCore pid=7) INFO [kv_cache_utils.py:1800] Maximum concurrency for 262,144 tokens per request: 2.38x
"""
CARD = Plan(card="rtx-3090", weights_gb=21.2)


def read(tmp_path: Path, text: str | bytes, profile: Profile, given: Plan = CARD) -> BootReport:
    path = tmp_path / "boot.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    log, facts = read_log(path)
    return compare(profile, given, log, facts)


def found(report: BootReport) -> set[str]:
    return {f.kind for f in report.diagnosis if f.kind != "estimate"}


def printed(report: BootReport, quantity: str) -> list[Any]:
    return [line.printed.value for line in report.lines if line.printed.quantity == quantity]


# --- reading --------------------------------------------------------------------------------------------------------


def test_a_boot_is_read_and_agrees(tmp_path: Path) -> None:
    report = read(tmp_path, BOOT, QWEN_27B)
    assert report.agrees, report.to_json()
    assert report.plan.engine == "vllm@0.24.0"
    assert (report.plan.tensor_parallel_size, report.plan.num_speculative_tokens) == (2, 3)
    assert printed(report, "kv_tokens") == [623_873]
    assert sorted(line.printed.rank for line in report.lines if line.printed.quantity == "kv_available") == [0, 1]


@pytest.mark.parametrize(
    "text",
    ["623,873", "623.873", "623 873", "623\u202f873", "623\u00a0873", "623'873", "٦٢٣٬٨٧٣", "６２３,８７３"],
)
def test_digits_of_any_locale(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, BOOT.replace("623,873", text), QWEN_27B).agrees


def test_decimal_commas(tmp_path: Path) -> None:
    report = read(tmp_path, BOOT.replace("11.05 GiB", "11,05 GiB").replace("2.38x", "2,38x"), QWEN_27B)
    assert report.agrees
    assert min(printed(report, "kv_available")) == round(11.05 * 2**30)


@pytest.mark.parametrize("cut", range(200, len(BOOT), 97))
def test_logs_cut_anywhere(tmp_path: Path, cut: int) -> None:
    try:
        report = read(tmp_path, BOOT.encode()[:cut], QWEN_27B)
    except Refusal as error:
        assert error.message
    else:
        assert report.lines or report.plan.engine.startswith("vllm")


def test_windows_ends_progress_bars_and_bad_bytes(tmp_path: Path) -> None:
    noisy = BOOT.replace("\n", "\r\n").encode().replace(b"GPU KV", b"Loading: 10%\rLoading: 100%\r GPU KV")
    assert read(tmp_path, noisy + b"\xff\xfe tail \xc3", QWEN_27B).agrees


def test_long_logs_take_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    request = b"INFO [loggers.py:123] Engine 000: Avg prompt throughput: 1.0 tokens/s, GPU KV cache usage: 1.0%\n"
    with path.open("wb") as stream:
        stream.write(BOOT.encode())
        for _ in range(20):
            stream.write(request * 10_000)
        stream.write(b"x" * 30_000_000 + b"\n")
        stream.write(b"Available KV cache memory: 11.06 GiB\n")
    tracemalloc.start()
    log, facts = read_log(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 2**20
    assert facts.num_lines > 200_000
    assert compare(QWEN_27B, CARD, log, facts).agrees


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (bytes(range(256)) * 400, "binary"),
        (b"\x1f\x8b\x08\x00" + bytes(range(1, 255)) * 40, "binary"),
        ("nothing of an engine\n" * 50, "no line"),
        (BOOT.encode("utf-16"), "UTF-16"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, content: bytes | str, word: str) -> None:
    with pytest.raises(BadLog, match=word):
        read(tmp_path, content, QWEN_27B)


def test_a_missing_file_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(Refusal):
        read_log(tmp_path / "none.log")


def test_numbers_and_ranks() -> None:
    assert number_of("1,234,567", whole=True) == (1234567, 0)
    assert number_of("14.9888", whole=False) == (14.9888, 4)
    assert number_of("1.234,56", whole=False) == (1234.56, 2)
    assert number_of("--", whole=False) is None
    assert number_of("9" * 400, whole=True) is None
    assert rank_of("(VllmWorker TP3 pid=1) x") == 3
    assert rank_of("(Worker_PP1_TP2 pid=1) x") == 2
    assert rank_of("INFO x") is None


# --- what a difference points at ------------------------------------------------------------------------------------


def boot_of(profile: Profile, plan: Plan, version: str) -> str:
    """The lines that this version would print for the plan's pool."""
    from calc.predict import predict

    prediction = predict(profile, replace(plan, engine=f"vllm@{version}"))
    pool, length = prediction.cache.pool, prediction.resolved.plan.max_model_len
    assert plan.kv_cache_memory_bytes is not None
    return (
        f"Initializing a V1 LLM engine (v{version}) with config: model='m', max_seq_len={length}, "
        f"tensor_parallel_size={plan.tensor_parallel_size}\n"
        f"Available KV cache memory: {plan.kv_cache_memory_bytes / 2**30:.2f} GiB\n"
        f"GPU KV cache size: {pool.tokens:,} tokens\n"
        f"Maximum concurrency for {length:,} tokens per request: {pool.max_concurrency:.2f}x\n"
    )


H100 = Plan(card="h100-80gb", weights_gb=10, kv_cache_memory_bytes=40 * 2**30, max_model_len=65536)
ASKED = Plan(card="h100-80gb", weights_gb=10)


def test_tied_k_and_v_stored_once(tmp_path: Path) -> None:
    once = FullAttention(num_kv_heads=4, k_dim=512, v_dim=0, k_eq_v=True)
    text = boot_of(model(*(([SLIDING] * 5 + [once]) * 10)), H100, "0.25.1")
    report = read(tmp_path, text, model(*(([SLIDING] * 5 + [FULL]) * 10)), ASKED)
    assert "k-eq-v-storage" in found(report)


def test_another_versions_meaning_of_tokens(tmp_path: Path) -> None:
    text = boot_of(GEMMA_31B, H100, "0.20.0").replace("v0.20.0", "v0.20.1")
    assert "engine-version" in found(read(tmp_path, text, GEMMA_31B, ASKED))


def test_a_drafter_that_was_not_counted(tmp_path: Path) -> None:
    plan = replace(H100, num_speculative_tokens=2, enable_prefix_caching=True)
    text = boot_of(QWEN_27B, plan, "0.25.1")
    report = read(tmp_path, text, QWEN_27B, replace(ASKED, enable_prefix_caching=True))
    assert "missing-drafter-layer" in found(report)


def test_tensor_parallel_that_did_not_take_effect(tmp_path: Path) -> None:
    text = boot_of(DENSE, H100, "0.25.1").replace("tensor_parallel_size=1", "tensor_parallel_size=2")
    assert "tensor-parallel" in found(read(tmp_path, text, DENSE, ASKED))


def test_heads_kept_whole_on_every_card(tmp_path: Path) -> None:
    whole = model(*[FullAttention(num_kv_heads=16, k_dim=128, v_dim=128)] * 32)
    text = boot_of(whole, replace(H100, tensor_parallel_size=2), "0.25.1")
    assert "replicated-heads" in found(read(tmp_path, text, DENSE, ASKED))


def test_the_wrong_set_of_layers(tmp_path: Path) -> None:
    profile = model(*(([SLIDING] * 5 + [FULL]) * 10))
    every = replace(profile, layers=(Layer((FULL,)),) * 60)
    text = boot_of(every, H100, "0.25.1")
    assert "layer-set" in found(read(tmp_path, text, profile, ASKED))


def test_windows_of_another_batch(tmp_path: Path) -> None:
    text = boot_of(GEMMA_31B, replace(H100, max_num_batched_tokens=2048), "0.25.1")
    assert "batched-tokens" in found(read(tmp_path, text, GEMMA_31B, ASKED))


def test_states_with_prefix_caching(tmp_path: Path) -> None:
    text = boot_of(QWEN_27B, replace(H100, enable_prefix_caching=True), "0.25.1")
    assert "prefix-caching" in found(read(tmp_path, text, QWEN_27B, ASKED))


def test_what_nothing_explains_is_said_with_its_size(tmp_path: Path) -> None:
    text = boot_of(DENSE, H100, "0.25.1").replace("GPU KV cache size: ", "GPU KV cache size: 7")
    report = read(tmp_path, text, DENSE, ASKED)
    assert found(report) == {"unexplained"} and "times" in report.diagnosis[0].message
    assert not report.agrees


# --- boots that failed ----------------------------------------------------------------------------------------------

REFUSED = (
    "(EngineCore pid=7) Initializing a V1 LLM engine (v{version}) with config: model='m', max_seq_len=262144, "
    "tensor_parallel_size=1, kv_cache_dtype=auto\n"
    "(EngineCore pid=7) ValueError: To serve at least one request with the model's max seq len (262144), "
    "({need:.2f} GiB KV cache is needed, which is larger than the available KV cache memory ({left:.2f} GiB). "
    "Based on the available "
    "memory, the estimated maximum model length is {longest}. Try increasing `gpu_memory_utilization`.\n"
)


@pytest.mark.parametrize("version", ["0.25.1", "0.33.0"])
def test_a_request_that_does_not_fit(tmp_path: Path, version: str) -> None:
    """Since 0.29 the printed memory has the null block taken off; the estimate follows from either."""
    from calc.predict import predict

    plan = Plan(engine=f"vllm@{version}", card="h100-80gb", weights_gb=10, kv_cache_memory_bytes=20 * 2**30)
    prediction = predict(GEMMA_31B, plan)
    extra = prediction.cache.pool.extra
    text = REFUSED.format(
        version=version,
        need=extra["needed_bytes"] / 2**30,
        left=extra["available_bytes"] / 2**30,
        longest=prediction.cache.max_model_len_that_fits,
    )
    report = read(tmp_path, text, GEMMA_31B, ASKED)
    assert report.failed and report.agrees, report.to_json()
    assert "kv-does-not-fit" in found(report)
    assert f"--max-model-len {prediction.cache.max_model_len_that_fits}" in report.flags
    assert "--kv-cache-dtype fp8" in report.flags


def test_out_of_memory_with_its_size(tmp_path: Path) -> None:
    text = BOOT + (
        "(Worker_TP0 pid=9) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a "
        "total capacity of 23.58 GiB of which 50.56 MiB is free. Including non-PyTorch memory, this process has 23.5\n"
    )
    report = read(tmp_path, text, QWEN_27B, Plan(weights_gb=21.2))
    assert printed(report, "oom") == [96 * 2**20]
    assert "cuda-out-of-memory" in found(report) and "after the pool" in report.diagnosis[0].message
    assert "--gpu-memory-utilization 0.87" in report.flags


def test_free_memory_and_state_slots(tmp_path: Path) -> None:
    text = (
        "vLLM API server version 0.33.0\n"
        "ValueError: Free memory on device cuda:0 (70.1/79.19 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 72.85 GiB). Decrease GPU memory utilization.\n"
    )
    report = read(tmp_path, text, DENSE, ASKED)
    assert "free-memory" in found(report) and "--gpu-memory-utilization 0.88" in report.flags
    slots = (
        "vLLM API server version 0.33.0\nAvailable KV cache memory: 40.0 GiB\n"
        "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (787). Each sequence requires one.\n"
    )
    report = read(tmp_path, slots, QWEN_27B, ASKED)
    assert report.agrees and "state-slots" in found(report)
    assert {"--max-num-seqs 787", "--enforce-eager"} <= set(report.flags)


# --- the command ----------------------------------------------------------------------------------------------------

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def test_the_command_prints_json_and_saves_an_anchor(tmp_path: Path) -> None:
    from calc.anchors import setup_from
    from onboard.anchor_checks import check_anchor
    from onboard.anchor_file import read_anchors

    config, log = tmp_path / "config.json", tmp_path / "boot.log"
    config.write_text(json.dumps(CONFIG))
    log.write_text(boot_of(DENSE, H100, "0.25.1"))
    words = [str(log), "--model", str(config), "--card", "h100-80gb", "--weights-gb", "16", "--json", "--save"]
    result = CliRunner().invoke(command, [*words, "--catalog", str(tmp_path)], standalone_mode=False)
    assert result.exception is None, result.output
    answer = json.loads(result.stdout)
    tokens = next(line for line in answer["lines"] if line["quantity"] == "kv_tokens")
    assert tokens["within_rounding"] is True and tokens["printed"] == tokens["predicted"]
    saved = next((tmp_path / "calibration" / "vllm").glob("*.yaml"))
    (anchor,) = read_anchors(saved)
    assert anchor.printed["kv_tokens"] == tokens["printed"] and anchor.flags["max_model_len"] == 65536
    assert check_anchor(anchor) == () and setup_from(anchor) is not None


def test_the_command_prints_text(tmp_path: Path) -> None:
    config, log = tmp_path / "config.json", tmp_path / "boot.log"
    config.write_text(json.dumps(CONFIG))
    log.write_text(boot_of(DENSE, H100, "0.20.0").replace("v0.20.0", "v0.33.0"))
    result = CliRunner().invoke(
        command, [str(log), "--model", str(config), "--card", "h100-80gb", "--weights-gb", "16"], standalone_mode=False
    )
    assert result.exception is None, result.output
    assert "GPU KV" not in result.output and "kv_tokens" in result.output


# --- lines of every age ---------------------------------------------------------------------------------------------

ONE_LINE = "GPU KV cache size: 174,752 tokens, Maximum concurrency for 4,096 tokens per request: 42.66x"
OLD_OOM = "allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 20.00 GiB already allocated; 1.20 GiB free;"
PROFILE = "model weights take 14.99GiB; non_torch_memory takes 0.35GiB; PyTorch activation peak memory takes 1.20GiB;"
USAGE = (
    "Actual usage is 14.9 GiB for weight, 1.2 GiB for peak activation, 0.35 GiB for non-torch memory, "
    "and 0.5 GiB for CUDAGraph memory."
)
LINES = [
    ("INFO model_runner.py:1077] Loading model weights took 14.9888 GB", "weights", round(14.9888 * 2**30)),
    ("INFO Model loading took 6.1 GiB and 3.2 seconds", "weights", round(6.1 * 2**30)),
    ("kv_cache_size=3.81GiB gpu_memory_utilization=0.90", "kv_available", round(3.81 * 2**30)),
    ("the rest of the memory reserved for KV Cache is 3.81GiB.", "kv_available", round(3.81 * 2**30)),
    ("# GPU blocks: 1952, # CPU blocks: 2048", "num_blocks", 1952),
    ("# cuda blocks: 1952, # CPU blocks: 2048", "num_blocks", 1952),
    (ONE_LINE, "kv_tokens", 174752),
    (ONE_LINE, "max_concurrency", 42.66),
    ("Based on the available memory, the estimated maximum model length is 32560.", "max_model_len_that_fits", 32560),
    ("Auto-fit max_model_len: reduced from 131072 to 87872 to fit", "max_model_len_that_fits", 87872),
    (OLD_OOM, "oom_free", round(1.2 * 2**30)),
    ("Padding mamba page size by 6.26% to ensure that", "state_padding_percent", 6.26),
    ("Add 8 padding layers, may waste at most 15.38% KV cache memory", "padding_layers_percent", 15.38),
    ("CUDA graph pool memory: 0.45 GiB (actual), 0.93 GiB (estimated), diff", "cuda_graphs", round(0.93 * 2**30)),
    ("PyTorch activation peak memory takes 1.40GiB", None, None),
    (PROFILE, "activation", round(1.2 * 2**30)),
    (USAGE, "runtime", round(0.35 * 2**30)),
    ("In Mamba cache align mode, block_size (2096) must be <= max_num_batched_tokens (2048).", "align_block", 2096),
]  # fmt: skip


@pytest.mark.parametrize(("text", "quantity", "value"), LINES)
def test_lines_of_every_age(text: str, quantity: str | None, value: float | None) -> None:
    from calc.bootlog_lines import printed_of
    from calc.engines.vllm.log import LOG

    assert quantity is None or any(key in text for key in LOG.keys), "a line that holds no key word is never read"
    found = {p.quantity: p.value for pattern in LOG.patterns for p in printed_of(1, text, pattern)}
    assert found.get(quantity or "activation") == value
