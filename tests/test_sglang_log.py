"""SGLang's boot logs: what is read from them, which pool a line means, what a difference points at."""

# Log lines are kept as printed.
# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calc.bootlog import BootReport, compare, read_log
from calc.bootlog_lines import LogFacts, printed_of
from calc.engines.sglang.log import FAILURES, LOG
from calc.engines.sglang.log_lines import LINES
from calc.plan import Plan
from onboard.derive import derive
from onboard.profile import Profile, SourceRef, WeightVariant
from onboard.values import replace

BOOTS: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "sglang" / "boots.json").read_text())
ROWS = {row["id"]: row for row in BOOTS["rows"]}


def profile(name: str) -> Profile:
    return derive(BOOTS["configs"][name], model_id=name, source=SourceRef(kind="file", name=name))


def report(tmp_path: Path, text: str, model: str, given: Plan | None = None) -> BootReport:
    path = tmp_path / "boot.log"
    path.write_text(text)
    log, facts = read_log(path)
    assert log.engine == "sglang"
    return compare(profile(model), given or Plan(engine="sglang", card="rtx-3090", weights_gb=20.0), log, facts)


def figures(found: BootReport) -> dict[str, bool | None]:
    return {f"{line.printed.quantity}": line.within_rounding for line in found.lines}


def text_of(row: dict[str, Any], *, labelled: bool, kv: str | None = None) -> str:
    """A log as the row's boot printed it."""
    fraction, ratio, tp = row["mem_fraction_static"], row["swa_full_tokens_ratio"], row["tensor_parallel_size"]
    kv = kv or row["kv_cache_dtype"]
    lines = [
        f"[2026-06-10 10:00:00] server_args=ServerArgs(model_path='m', tp_size={tp}, context_length=262144, kv_cache_dtype='{kv}',"
        f" mem_fraction_static={fraction}, max_running_requests=1, swa_full_tokens_ratio={ratio}, disable_radix_cache=False)",
        "[2026-06-10 10:00:20 TP0] Load weight begin.",
    ]
    for name in ("window", "full"):
        if name in row["pools"]:
            tokens, k_gib, v_gib = row["pools"][name]
            label = {"window": "SWA ", "full": "Full "}[name] if labelled else ""
            lines.append(
                f"[2026-06-10 10:01:00 TP0] {label}KV Cache is allocated. #tokens: {tokens}, K size: {k_gib:.2f} GB, V size: {v_gib:.2f} GB"
            )
    tokens = row["pools"]["full"][0]
    lines.append(
        f"[2026-06-10 10:02:00 TP0] max_total_num_tokens={tokens}, chunked_prefill_size=4096, max_prefill_tokens=16384, "
        "max_running_requests=1, context_len=262144, available_gpu_memory=2.20 GB"
    )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("labelled", [True, False], ids=["labelled", "unlabelled"])
@pytest.mark.parametrize("row", ["g01", "g12", "g18", "g21"])
def test_a_boot_with_two_pools_agrees(tmp_path: Path, row: str, labelled: bool) -> None:
    found = report(tmp_path, text_of(ROWS[row], labelled=labelled), ROWS[row]["model"])
    seen = figures(found)
    assert {
        "window_tokens",
        "window_k_bytes",
        "window_v_bytes",
        "full_tokens",
        "full_k_bytes",
        "full_v_bytes",
        "kv_tokens",
        "max_running_requests",
    } <= set(seen)
    assert all(seen[name] for name in seen)
    assert found.agrees and not found.diagnosis and not found.failed
    assert found.plan.tensor_parallel_size == 2 and found.plan.max_model_len == 262144


def test_another_kv_format_is_suspected(tmp_path: Path) -> None:
    """The flags say auto, the sizes are fp8's."""
    found = report(tmp_path, text_of(ROWS["g22"], labelled=False, kv="auto"), "devstral-24b")
    assert not found.agrees
    assert found.diagnosis[0].kind == "kv-dtype" and "fp8_e4m3" in found.diagnosis[0].message
    assert {f.kind for f in found.diagnosis} == {"kv-dtype", "tensor-parallel"}  # bf16 at TP 4 has the same rows


def test_another_tp_is_suspected(tmp_path: Path) -> None:
    text = text_of(ROWS["g22"], labelled=False).replace("tp_size=2", "tp_size=1")
    assert "tensor-parallel" in [f.kind for f in report(tmp_path, text, "devstral-24b").diagnosis]


FREE = """sglang 0.5.23
server_args=ServerArgs(model_path='m', tp_size=1, kv_cache_dtype='auto', mem_fraction_static=0.85, context_length=None)
[2026-10-01 00:00:00] Load weight begin. avail mem=23.10 GB
[2026-10-01 00:00:09] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=20.20 GB, mem usage=2.90 GB.
[2026-10-01 00:00:10] KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: {size} GB, V size: {size} GB
[2026-10-01 00:00:20] Capture cuda graph end. Time elapsed: 3.00 s. mem usage=0.11 GB. avail mem=3.0 GB.
[2026-10-01 00:00:21] max_total_num_tokens={tokens}, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=4096, context_len=32768, available_gpu_memory=3.05 GB
"""


def test_free_memory_predicts_the_tokens(tmp_path: Path) -> None:
    """20.20 - 23.10 x 0.15 GiB over 28672 B a token, within the rounding of two decimals; a little less may go unlogged."""
    tokens = int((20.20 - 23.10 * 0.15) * 2**30 // 28672)
    good = report(tmp_path, FREE.format(tokens=tokens, size="8.37"), "qwen2.5-1.5b")
    assert figures(good)["kv_tokens"] and figures(good)["full_k_bytes"] and good.agrees
    assert good.plan.engine == "sglang"
    workspace = report(tmp_path, FREE.format(tokens=tokens - 2000, size="8.34"), "qwen2.5-1.5b")
    assert workspace.agrees
    for wrong, size in ((tokens + 2000, "8.39"), (tokens - 20000, "8.10")):
        off = report(tmp_path, FREE.format(tokens=wrong, size=size), "qwen2.5-1.5b")
        assert figures(off)["kv_tokens"] is False
        assert off.diagnosis[0].kind == "unexplained"


def test_loaded_memory_is_weights_and_what_loads_with_them(tmp_path: Path) -> None:
    """A plan's own figure is not set beside the log; a predicted one is, from below and with kernels above."""
    tokens = int((20.20 - 23.10 * 0.15) * 2**30 // 28672)
    text = FREE.format(tokens=tokens, size="8.37")
    assert figures(report(tmp_path, text, "qwen2.5-1.5b"))["weights"] is None
    known = replace(
        profile("qwen2.5-1.5b"),
        weights=(WeightVariant(name="w", num_bytes=3_087_000_000, origin="headers", where="x"),),
    )
    path = tmp_path / "boot.log"
    for printed, agrees in (("2.90", True), ("3.25", True), ("2.80", False), ("3.40", False)):
        path.write_text(text.replace("mem usage=2.90", f"mem usage={printed}"))
        log, facts = read_log(path)
        found = compare(known, Plan(engine="sglang", card="rtx-3090"), log, facts)
        assert figures(found)["weights"] is agrees


def test_a_state_pool_is_compared(tmp_path: Path) -> None:
    from tests.test_sglang_rules import qwen_hybrid

    text = (
        "server_args=ServerArgs(tp_size=2, kv_cache_dtype='auto', mem_fraction_static=0.85)\n"
        "[t TP0] Mamba Cache is allocated. max_mamba_cache_size: {slots}, conv_state size: 0.10GB, ssm_state size: {ssm}GB\n"
        "[t TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: 2.50 GB, V size: 2.50 GB\n"
        "[t TP0] max_total_num_tokens={tokens}, chunked_prefill_size=4096, max_running_requests=37, context_len=262144\n"
    )
    path = tmp_path / "boot.log"
    for slots, ssm, agrees in ((186, "4.38", True), (190, "4.48", False)):
        path.write_text(text.format(slots=slots, ssm=ssm, tokens=327680))
        log, facts = read_log(path)
        found = compare(qwen_hybrid(32, 32), Plan(engine="sglang", card="rtx-3090", weights_gb=9.0), log, facts)
        assert figures(found)["state_slots"] is agrees
        assert {"state_conv_bytes", "state_ssm_bytes", "max_running_requests"} <= set(figures(found))


def test_a_drafters_pool_is_told_from_the_targets() -> None:
    facts = LogFacts()
    for number, text in enumerate(
        (
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 601333, KV size: 39.35 GB",
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 601333, KV size: 0.65 GB",
            "max_total_num_tokens=601333, chunked_prefill_size=8192",
        )
    ):
        for pattern in LINES:
            facts.add(printed_of(number, text, pattern))
    LOG.plan({}, facts, Plan(engine="sglang", card="h100-80gb"))
    assert {p.quantity: round(p.value / 2**30, 2) for p in facts.printed if p.quantity.endswith("_k_bytes")} == {
        "full_k_bytes": 39.35,
        "drafter_k_bytes": 0.65,
    }


@pytest.mark.parametrize(("words", "kind"), [(words, kind) for words, kind, _ in FAILURES])
def test_failures_are_named(tmp_path: Path, words: str, kind: str) -> None:
    text = f"server_args=ServerArgs(tp_size=1, mem_fraction_static=0.7)\n[t] Load weight begin. avail mem=23.10 GB\nRuntimeError: {words} ...\n"
    found = report(tmp_path, text, "qwen2.5-1.5b")
    assert found.failed and found.diagnosis[0].kind == kind
    assert bool(found.flags) == (kind != "window_pool")  # this model has no window pool to try


@pytest.mark.parametrize(
    "arguments",
    [
        "tp_size=0, page_size=0",
        "tp_size=-3, mem_fraction_static=-1",
        "mem_fraction_static=nan, context_length=99999999999999999999",
        "swa_full_tokens_ratio='x', kv_cache_dtype=None",
        "tp_size=2, tp_size=",
        "kv_cache_dtype='",
    ],
)
def test_arguments_that_cannot_be_are_passed_over(arguments: str) -> None:
    settings: dict[str, Any] = {}
    LOG.setting(f"server_args=ServerArgs({arguments})", settings)
    plan = LOG.plan(settings, LogFacts(), Plan(engine="sglang", card="h100-80gb"))
    assert plan.tensor_parallel_size >= 1 and plan.page_size is None and plan.mem_fraction_static is None
