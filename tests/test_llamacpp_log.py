"""Lines of llama.cpp's start, read and set beside the prediction."""

from __future__ import annotations

from pathlib import Path

from calc.bootlog import compare, read_log
from calc.plan import Plan
from tests.llamacpp_cases import evidence, from_gguf

GEMMA = """\
build: 7321 (0c1e57098) with GNU 13.3.0 for Linux x86_64
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 23886 MiB free
load_tensors: offloaded 61/61 layers to GPU
load_tensors:        CUDA0 model buffer size = 18132.31 MiB
load_tensors:   CPU_Mapped model buffer size =  1102.50 MiB
llama_context: n_seq_max             = 4
llama_context: n_ctx                 = 32768
llama_context: n_ctx_seq             = 32768
llama_context: n_batch               = 2048
llama_context: n_ubatch              = 512
llama_context: flash_attn            = enabled
llama_context: kv_unified            = true
llama_kv_cache_iswa: creating non-SWA KV cache, size = 32768 cells
llama_kv_cache: size = 2560.00 MiB ( 32768 cells,  10 layers,  4/1 seqs), K (f16): 1280.00 MiB, V (f16): 1280.00 MiB
llama_kv_cache_iswa: creating     SWA KV cache, size = 4608 cells
llama_kv_cache: size = 3600.00 MiB (  4608 cells,  50 layers,  4/1 seqs), K (f16): 1800.00 MiB, V (f16): 1800.00 MiB
llama_context:      CUDA0 compute buffer size =   217.00 MiB
llama_context:  CUDA_Host compute buffer size =    59.00 MiB
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.log"
    path.write_text(text)
    return path


def test_a_boot_is_read_and_agrees(tmp_path: Path) -> None:
    log, facts = read_log(write(tmp_path, GEMMA))
    assert log.engine == "llamacpp"
    report = compare(from_gguf("google__gemma-4-31B-it", small=True), Plan(), log, facts)
    assert report.agrees
    checked = {line.printed.quantity: line.within_rounding for line in report.lines if not line.estimated}
    assert checked["kv_size#1"] and checked["kv_size#2"] and checked["kv_cells#2"] and checked["n_ctx"]
    assert report.plan.kv_unified is True and report.plan.max_num_seqs == 4


def test_a_difference_points_at_its_cause(tmp_path: Path) -> None:
    text = GEMMA.replace("4608 cells,  50 layers", "32768 cells,  50 layers").replace("3600.00", "25600.00")
    log, facts = read_log(write(tmp_path, text))
    report = compare(from_gguf("google__gemma-4-31B-it", small=True), Plan(), log, facts)
    assert not report.agrees
    assert "swa-full" in {f.kind for f in report.diagnosis}


def test_a_failed_start_is_told(tmp_path: Path) -> None:
    text = GEMMA.split("llama_context:      CUDA0 compute")[0] + (
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 217.00 MiB on device 0: "
        "cudaMalloc failed: out of memory\n"
        "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers\n"
    )
    log, facts = read_log(write(tmp_path, text))
    report = compare(from_gguf("google__gemma-4-31B-it", small=True), Plan(), log, facts)
    assert report.failed
    assert {f.kind for f in report.diagnosis} >= {"memory"}


def test_the_small_evidence_is_llama_cpps_own() -> None:
    assert evidence(small=True)["about"]["engine"] == "llama.cpp"
