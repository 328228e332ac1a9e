"""Logs as they come: wrapped, several boots in a file, refusals of every age; and what each difference points at.

Lines are built from the engines' own message texts (vLLM v1/worker/gpu_worker.py, v1/core/kv_cache_utils.py,
config/*.py; torch's CUDACachingAllocator) around the boot of tests.test_bootlog.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calc.bootlog import BootReport
from calc.bootlog_anchor import save_anchor
from calc.bootlog_lines import clean
from calc.plan import Plan
from calc.predict import predict
from onboard.anchor_checks import check_anchor
from onboard.anchor_file import read_anchors
from onboard.layers import FullAttention
from onboard.open import load_profile
from onboard.profile import Profile
from onboard.values import replace
from tests.test_bootlog import ASKED, BOOT, CARD, H100, boot_of, found, printed, read
from tests.test_vllm_rules import DENSE, FULL, GEMMA_31B, QWEN_27B, SLIDING, model

# --- wrappings ------------------------------------------------------------------------------------------------------


def docker(text: str) -> str:
    """docker's json-file driver: one JSON object a line, colours escaped."""
    return "".join(
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-07-01T08:00:00.123456789Z"}) + "\n"
        for line in text.splitlines()
    )


def journald(text: str) -> str:
    """journalctl -o json: a message with colours is a list of bytes."""
    return "".join(
        json.dumps({"__REALTIME_TIMESTAMP": "1", "MESSAGE": list(line.encode()) if "\x1b" in line else line}) + "\n"
        for line in text.splitlines()
    )


def prefixed(prefix: str) -> object:
    return lambda text: "".join(prefix + line + "\n" for line in text.splitlines())


WRAPPINGS = {
    "docker json": docker,
    "journald json": journald,
    "journald short": prefixed("Jul 01 08:00:00 box-2 docker[1234]: "),
    "kubernetes": prefixed("2026-07-01T08:00:00.123456789Z stderr F "),
    "compose": prefixed("vllm-qwen36-27b-dual-1  | "),
    "timestamps": prefixed("[2026-07-01 08:00:00,123] "),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "byte order mark": lambda text: "\ufeff" + text,
}


@pytest.mark.parametrize("form", WRAPPINGS)
def test_wrapped_logs_read_alike(tmp_path: Path, form: str) -> None:
    report = read(tmp_path, WRAPPINGS[form](BOOT), QWEN_27B)  # type: ignore[operator]
    plain = read(tmp_path, BOOT, QWEN_27B)
    assert report.agrees and report.plan == plain.plan
    assert [(x.printed.quantity, x.printed.value, x.printed.rank) for x in report.lines] == [
        (x.printed.quantity, x.printed.value, x.printed.rank) for x in plain.lines
    ]


@pytest.mark.parametrize("line", [b'{"log": 5}', b'{"MESSAGE": [256]}', b'{"log": "x', b"{" * 5000, b'{"a": 1}', b"[]"])
def test_a_line_that_is_no_record_is_itself(line: bytes) -> None:
    assert clean(line) == line.decode()


def test_a_log_that_starts_in_the_middle(tmp_path: Path) -> None:
    tail = BOOT[BOOT.index("(Worker_TP1 pid=10) INFO [gpu_worker") :]
    asked = replace(
        CARD, engine="vllm@0.24.0", tensor_parallel_size=2, max_model_len=262144, kv_cache_dtype="fp8_e5m2",
        max_num_batched_tokens=8192, max_num_seqs=2, num_speculative_tokens=3, drafter="mtp",
        enable_prefix_caching=True,
    )  # fmt: skip
    assert read(tmp_path, tail, QWEN_27B, asked).agrees


# --- several boots --------------------------------------------------------------------------------------------------


def test_the_last_of_several_boots_counts(tmp_path: Path) -> None:
    first = boot_of(QWEN_27B, replace(H100, max_model_len=32768, tensor_parallel_size=4), "0.25.1")
    report = read(tmp_path, first + first + BOOT, QWEN_27B)
    assert report.agrees, report.to_json()
    assert (report.num_boots, report.plan.engine, report.plan.max_model_len) == (3, "vllm@0.24.0", 262144)
    assert printed(report, "kv_tokens") == [623_873]
    assert report.first_line == 9


def test_a_boot_that_only_began_does_not_hide_the_one_before(tmp_path: Path) -> None:
    report = read(tmp_path, BOOT + BOOT.splitlines()[0] + "\n", QWEN_27B)
    assert report.agrees and printed(report, "kv_tokens") == [623_873]


def test_a_boot_that_failed_after_one_that_worked(tmp_path: Path) -> None:
    failed = (
        BOOT.splitlines()[0]
        + "\n(EngineCore pid=9) ValueError: No available memory for the cache blocks. Try increasing "
        + "`gpu_memory_utilization` when initializing the engine.\n"
    )
    report = read(tmp_path, BOOT + failed, QWEN_27B, replace(CARD, max_model_len=4096))
    assert report.failed and "no-cache-memory" in found(report)


def test_engines_of_a_data_parallel_group_are_one_boot(tmp_path: Path) -> None:
    core = BOOT.splitlines()[2]
    more = core.replace("EngineCore", "EngineCore_DP1")
    report = read(
        tmp_path, BOOT.replace("(EngineCore pid=7) INFO [interface", f"{more}\n(EngineCore pid=7) x"), QWEN_27B
    )
    assert report.num_boots == 1 and report.agrees


# --- refusals -------------------------------------------------------------------------------------------------------

V = "INFO [api_server.py:1] vLLM API server version {}\n"
ARGS = "INFO non-default args: {'max_model_len': 32768, 'gpu_memory_utilization': 0.9}\n"
TORCH = {  # torch 2.5 to 2.11, 2.0 and ROCm
    "2.5": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "23.58 GiB of which 102.50 MiB is free. Including non-PyTorch memory, this process has 23.47 GiB memory in use. "
    "Of the allocated memory 22.78 GiB is allocated by PyTorch, with 58.00 MiB allocated in private pools (e.g., CUDA "
    "Graphs), and 237.00 MiB is reserved by PyTorch but unallocated.",
    "processes": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity "
    "of 23.58 GiB of which 102.50 MiB is free. Process 1234 has 3.10 GiB memory in use. Process 99 has 20.10 GiB",
    "2.0": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.58 GiB total "
    "capacity; 20.00 GiB already allocated; 102.50 MiB free; 21.00 GiB reserved in total by PyTorch)",
    "rocm": "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "23.58 GiB of which 102.50 MiB is free. Of the allocated memory 22.78 GiB is allocated by PyTorch",
}


@pytest.mark.parametrize("torch", TORCH)
def test_torchs_out_of_memory_of_every_age(tmp_path: Path, torch: str) -> None:
    text = V.format("0.24.0") + ARGS + "Available KV cache memory: 8.0 GiB\n" + TORCH[torch] + "\n"
    report = read(tmp_path, text, DENSE, Plan(weights_gb=15))
    assert found(report) == {"cuda-out-of-memory"}
    assert (printed(report, "oom"), printed(report, "oom_free")) == ([2 * 2**30], [round(102.5 * 2**20)])
    assert report.plan.card in ("rtx-3090", None)
    assert "--gpu-memory-utilization 0.81" in report.flags  # what was asked and not there is 8 % of the card
    tight = read(tmp_path, text.replace("8.0 GiB", "5.0 GiB"), DENSE, Plan(weights_gb=15))
    assert "--gpu-memory-utilization 0.81" not in tight.flags  # a request of 4 GiB would no longer fit


REFUSALS = {
    "kv-does-not-fit": [
        (
            "0.10.0",
            "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (3.00 GiB). Based on the available memory, the "
            "estimated maximum model length is 24576. Try increasing `gpu_memory_utilization` or decreasing "
            "`max_model_len` when initializing the engine.",
        ),
        (
            "0.8.5",
            "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be "
            "stored in KV cache (24576). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`",
        ),
    ],
    "no-cache-memory": [("0.11.0", "ValueError: No available memory for the cache blocks. Try increasing `gpu")],
    "memory-profiling": [
        (
            "0.20.0",
            "AssertionError: Error in memory profiling. Initial free memory 20.1 GiB, current free memory 21.3 GiB. "
            "This happens when other processes sharing the same container release GPU memory while vLLM is profiling",
        )
    ],
    "max-model-len": [
        (
            "0.24.0",
            "ValueError: User-specified max_model_len (262144) is greater than the derived max_model_len "
            "(max_position_embeddings=131072 or model_max_length=None in model's config.json).",
        )
    ],
    "batched-tokens": [
        (
            "0.10.0",
            "ValueError: max_num_batched_tokens (2048) is smaller than max_model_len (32768). This effectively limits",
        )
    ],
    "tp": [
        ("0.24.0", "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8)."),
        ("0.24.0", "ValueError: World size (4) is larger than the number of available GPUs (2) in this node."),
    ],
    "sampler-memory": [
        (
            "0.17.0",
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try "
            "lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
        )
    ],
    "cuda-out-of-memory": [("0.28.0", "torch.AcceleratorError: CUDA error: out of memory")],
    "free-memory": [
        (
            "0.20.2",
            "ValueError: Free memory on device (18.1/23.58 GiB) on startup is less than desired GPU memory utilization "
            "(0.9, 21.22 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        ),
        (
            "0.33.0",
            "ValueError: Free memory on device cuda:0 (18.1/23.58 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 21.22 GiB). Decrease GPU memory utilization or reduce GPU memory used by other",
        ),
    ],
    "state-slots": [
        ("0.24.0", "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (787). Each sequence needs"),
    ],
    "align-block": [
        ("0.24.0", "AssertionError: In Mamba cache align mode, block_size (4176) must be <= max_num_batched_tokens"),
    ],
}  # fmt: skip
CASES = [(kind, version, text) for kind, rows in REFUSALS.items() for version, text in rows]


@pytest.mark.parametrize(("kind", "version", "text"), CASES)
def test_every_refusal_is_named(tmp_path: Path, kind: str, version: str, text: str) -> None:
    report = read(
        tmp_path, V.format(version) + ARGS + f"(EngineCore pid=7) ERROR {text}\n", DENSE, replace(CARD, weights_gb=15)
    )
    assert report.failed and report.diagnosis[0].kind == kind, report.to_json()
    for flag in report.flags:  # each was tried, and no flag is offered twice
        assert flag.startswith("--") and report.flags.count(flag) == 1


def test_flags_are_only_those_that_help(tmp_path: Path) -> None:
    """4 GiB needed, 1 left: the fp8 cache of 2 GiB does not fit either, and the share that adds 3 GiB is too much."""
    said = REFUSALS["kv-does-not-fit"][0][1]
    text = V.format("0.10.0") + ARGS + "Free memory on device (23.3/23.58 GiB) on startup\n" + said + "\n"
    given = replace(CARD, weights_gb=15)
    needed = predict(DENSE, replace(given, engine="vllm@0.10.0", max_model_len=32768)).cache.one.total / 2**30
    assert needed == pytest.approx(4.0)
    close = read(tmp_path, text, DENSE, given)
    assert {"--max-model-len 24576", "--gpu-memory-utilization 0.95", "--kv-cache-dtype fp8"} <= set(close.flags)
    far = read(tmp_path, text.replace("(3.00 GiB)", "(1.00 GiB)").replace("24576", "8192"), DENSE, given)
    assert far.flags == ("--max-model-len 8192",)


# --- each difference, and only it -----------------------------------------------------------------------------------


def loaded(text: str, gib: float) -> str:
    return text + f"Model loading took {gib:.2f} GiB memory and 30.1 seconds\n"


def only(report: BootReport) -> set[str]:
    return {f.kind for f in report.diagnosis if f.kind != "estimate"}


WEIGHTS = 10e9 / 2**30
ONCE = FullAttention(num_kv_heads=4, k_dim=512, v_dim=0, k_eq_v=True)
MIXED = model(*(([SLIDING] * 5 + [FULL]) * 10))


def said(profile: Profile, plan: Plan, version: str = "0.25.1", weights: float = WEIGHTS, tp: int = 1) -> str:
    """The lines of a boot that states its KV format, TP and batch, with the weights that it loaded."""
    text = loaded(boot_of(profile, plan, version), weights / tp)
    return text.replace("config: ", "config: kv_cache_dtype=auto, ")


DIFFERENCES = {
    "k-eq-v-storage": (said(model(*(([SLIDING] * 5 + [ONCE]) * 10)), H100), MIXED, ASKED),
    "engine-version": (said(GEMMA_31B, H100, "0.20.0").replace("v0.20.0", "v0.20.1"), GEMMA_31B, ASKED),
    "missing-drafter-layer": (
        said(QWEN_27B, replace(H100, num_speculative_tokens=2, enable_prefix_caching=True)),
        QWEN_27B,
        replace(ASKED, enable_prefix_caching=True),
    ),
    "no-drafter": (said(QWEN_27B, H100), QWEN_27B, replace(ASKED, num_speculative_tokens=2)),
    "tensor-parallel": (
        said(DENSE, H100).replace("tensor_parallel_size=1", "tensor_parallel_size=2"),
        DENSE,
        ASKED,
    ),
    "replicated-heads": (
        said(
            model(*[FullAttention(num_kv_heads=16, k_dim=128, v_dim=128)] * 32),
            replace(H100, tensor_parallel_size=2),
            tp=2,
        ),
        DENSE,
        ASKED,
    ),
    "kv-dtype": (said(GEMMA_31B, replace(H100, kv_cache_dtype="fp8")), GEMMA_31B, ASKED),
    "batched-tokens": (said(GEMMA_31B, replace(H100, max_num_batched_tokens=2048)), GEMMA_31B, ASKED),
    "hybrid-manager": (said(GEMMA_31B, replace(H100, disable_hybrid_kv_cache_manager=True)), GEMMA_31B, ASKED),
    "prefix-caching": (said(QWEN_27B, replace(H100, enable_prefix_caching=True)), QWEN_27B, ASKED),
    "layer-set": (said(replace(MIXED, layers=(model(FULL).layers[0],) * 60), H100), MIXED, ASKED),
}


@pytest.mark.parametrize("kind", DIFFERENCES)
def test_a_difference_is_named_and_nothing_else(tmp_path: Path, kind: str) -> None:
    text, profile, asked = DIFFERENCES[kind]
    report = read(tmp_path, text, profile, asked)
    assert not report.agrees
    assert only(report) == {kind}, report.to_json()["diagnosis"]


def test_weights_larger_than_stated(tmp_path: Path) -> None:
    report = read(tmp_path, said(DENSE, H100, weights=14.2), DENSE, ASKED)
    assert report.agrees and only(report) == {"weights"}
    assert "14.20 GiB printed" in report.diagnosis[-1].message


@pytest.mark.parametrize(
    ("field", "kind"), [("max_num_seqs", "max-num-seqs"), ("max_num_batched_tokens", "batched-tokens")]
)
def test_an_activation_peak_of_another_batch(tmp_path: Path, field: str, kind: str) -> None:
    profile = load_profile("qwen3.6-27b")
    asked = replace(ASKED, max_num_seqs=4, max_num_batched_tokens=2048, enable_prefix_caching=False)
    size = {"max_num_seqs": 1024, "max_num_batched_tokens": 16384}[field]
    plan = replace(asked, **{field: size}, kv_cache_memory_bytes=40 * 2**30, max_model_len=65536)
    peak = next(t.bytes for t in predict(profile, replace(plan, engine="vllm@0.25.1")).terms if t.name == "activation")
    usage = f"Actual usage is 9.31 GiB for weight, {peak / 2**30:.2f} GiB for peak activation, 0.25 GiB for non-torch "
    text = boot_of(profile, replace(plan, kv_cache_memory_bytes=40 * 2**30), "0.25.1") + usage
    report = read(tmp_path, text + "memory, and 0.5 GiB for CUDAGraph memory.\n", profile, asked)
    assert kind in found(report), report.to_json()["diagnosis"]
    right = read(
        tmp_path, text + "memory, and 0.5 GiB for CUDAGraph memory.\n", profile, replace(asked, **{field: size})
    )
    assert not {"max-num-seqs", "batched-tokens"} & found(right)


# --- saving ---------------------------------------------------------------------------------------------------------


def test_an_anchor_is_saved_once_and_passes_the_check(tmp_path: Path) -> None:
    from calc.bootlog import compare, read_log

    for name in ("boot.log", "copy of boot.log"):
        path = tmp_path / name
        path.write_text(BOOT)
        log, facts = read_log(path)
        report = compare(QWEN_27B, CARD, log, facts)
        saved = save_anchor(str(tmp_path), QWEN_27B, report, facts, str(path))
    (anchor,) = read_anchors(saved)
    assert check_anchor(anchor, QWEN_27B) == ()
    assert anchor.version == "0.24.0" and anchor.flags["num_speculative_tokens"] == 3


# --- the other engines ----------------------------------------------------------------------------------------------

LLAMA_CPP = """build: 6521 (c0ffee12) with cc (Ubuntu 13.3.0) for x86_64-linux-gnu
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) - 23875 MiB free
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  4000.00 MiB
llama_context: n_seq_max     = 1
llama_context: n_ctx         = {cells}
llama_context: n_batch       = 2048
llama_context: n_ubatch      = 512
llama_context: kv_unified    = false
llama_kv_cache: size = {size:.2f} MiB ({cells:6} cells,  32 layers,  1/1 seqs), K (f16): 1.00 MiB, V (f16): 1.00 MiB
"""


@pytest.mark.parametrize("form", WRAPPINGS)
def test_llama_cpp_wrapped_and_restarted(tmp_path: Path, form: str) -> None:
    text = LLAMA_CPP.format(cells=8192, size=1024) + LLAMA_CPP.format(cells=16384, size=2048)
    report = read(tmp_path, WRAPPINGS[form](text), DENSE, Plan(weights_gb=4.2))  # type: ignore[operator]
    assert (report.engine, report.num_boots) == ("llamacpp", 2)
    assert report.agrees and not report.diagnosis, report.to_json()
    assert printed(report, "kv_cells#1") == [16384]


def test_sglang_wrapped_and_restarted(tmp_path: Path) -> None:
    boot = (
        "[2026-07-01 08:00:00] server_args=ServerArgs(model_path='m', tp_size=1, context_length={n}, "
        "mem_fraction_static=0.8, kv_cache_dtype='auto', page_size=1)\n"
        "[2026-07-01 08:00:05 TP0] KV Cache is allocated. #tokens: {n}, K size: {k:.2f} GB, V size: {k:.2f} GB\n"
        "[2026-07-01 08:00:05 TP0] max_total_num_tokens={n}, chunked_prefill_size=4096, context_len={n}\n"
    )
    text = boot.format(n=16384, k=1) + boot.format(n=32768, k=2)
    report = read(tmp_path, docker(text), DENSE, Plan(engine="sglang", card="rtx-3090", weights_gb=4.2))
    assert (report.engine, report.num_boots, report.plan.max_model_len) == ("sglang", 2, 32768)
    assert report.agrees, report.to_json()
