"""What `calc` prints for people: few lines, none twice, none too long, and never a silent nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import call

from calc.advice import MOST_STEPS, next_steps
from calc.plan import Plan
from calc.predict import fits, predict
from calc.prediction import Note
from calc.report import WIDTH, print_notes
from calc.solve import solve
from calc.table import table
from onboard import catalog

CASES = (
    ("gemma-4-31b", "--tp", "2", "--card", "rtx-3090", "--max-ctx", "262144"),
    ("qwen3.6-27b", "--tp", "2", "--card", "rtx-3090", "--sequences", "64", "--max-ctx", "200000"),
    ("qwen3.6-27b", "--engine", "llamacpp", "--vram", "8", "--gpus", "2", "--max-ctx", "200000"),
    ("qwen3.6-27b", "--engine", "sglang", "--card", "rtx-3090", "--max-ctx", "32768"),
)


@pytest.mark.parametrize("arguments", CASES, ids=lambda a: " ".join(a))
def test_nothing_is_said_twice_and_notes_stay_within_the_page(arguments: tuple[str, ...], tmp_path: Path) -> None:
    lines = call("predict", *arguments, cwd=tmp_path, program="calc").out.splitlines()
    verdict = next(i for i, line in enumerate(lines) if line.startswith(("PASS", "TIGHT", "FAIL")))
    notes = lines[verdict + 1 :]
    assert notes and all(len(line) <= WIDTH for line in notes), max(notes, key=len)
    starts = [line for line in notes if not line.startswith("    ")]
    assert len(set(starts)) == len(starts)
    assert sum(line.startswith("  next-step:") for line in notes) <= MOST_STEPS


def test_a_note_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_notes([Note("advice", "one"), Note("advice", "one"), Note("default", "--x not given: 5")])
    assert capsys.readouterr().out == "  advice: one\n  not given, so by default: --x 5\n"


def test_the_next_steps_are_few_mildest_first_and_each_is_enough() -> None:
    profile = catalog.effective("gemma-4-31b")
    plan = Plan(card="rtx-3090", tensor_parallel_size=2, max_model_len=190_000)
    prediction = predict(profile, plan)
    assert prediction.verdict == "FAIL"
    steps = [n.message for n in next_steps(profile, plan, prediction)]
    assert 2 <= len(steps) <= MOST_STEPS
    order = ["--max-num-seqs", "--gpu-memory-utilization", "--kv-cache-dtype", "--max-model-len", "--enforce-eager"]
    places = [next(i for i, flag in enumerate(order) if flag in step) for step in steps]
    assert places == sorted(places), steps
    tried = {
        "--max-num-seqs": ("max_num_seqs", int),
        "--gpu-memory-utilization": ("gpu_memory_utilization", float),
        "--kv-cache-dtype": ("kv_cache_dtype", str),
    }
    for step in steps:
        for flag, (knob, kind) in tried.items():
            if flag in step:
                value = kind(step.partition(flag)[2].split(",")[0].strip())
                assert fits(predict(profile, Plan(**{**plan.given(), knob: value})), "start"), step


def test_a_draft_of_unknown_layers_is_never_a_silent_zero(tmp_path: Path) -> None:
    plan = ("--tp", "2", "--card", "rtx-3090", "--max-ctx", "32768", "--num-speculative-tokens", "7")
    done = call("predict", "gemma-4-31b", *plan, "--drafter", "gemma-4-31b-it-dflash", cwd=tmp_path, program="calc")
    assert "drafter's KV is not counted" in done.out
    assert next(x for x in done.out.splitlines() if x.startswith("PASS")).endswith(
        "(the drafter's own KV cache left out)"
    )
    known = ("qwen3.6-27b", *plan, "--drafter", "qwen3.6-27b-dflash")
    assert "not counted" not in call("predict", *known, cwd=tmp_path, program="calc").out
    assistant = ("gemma-4-31b", *plan, "--drafter", "gemma-4-31b-it-assistant")
    assert "not counted" not in call("predict", *assistant, cwd=tmp_path, program="calc").out, "it keeps no cache"


def test_cards_of_llamacpp_are_counted_by_its_own_knob() -> None:
    """Its layers spread over any number of cards: the fewest that fit, one fewer does not."""
    profile = catalog.effective("qwen3.6-27b")
    plan = Plan(engine="llamacpp", vram_gib=8.0, max_model_len=32_768)
    found = solve(profile, plan, "tp")
    assert isinstance(found.value, int) and found.value > 1 and found.prediction.resolved.plan.gpus == found.value
    fewer = Plan(**{**plan.given(), "gpus": found.value - 1})
    assert predict(profile, fewer).verdict == "FAIL"
    assert solve(profile, Plan(**{**plan.given(), "gpus": found.value - 1}), "tp").value is None
    rows = table(profile, plan, contexts=[32_768], kv_formats=["bf16"], tp_sizes=[found.value - 1, found.value])
    assert [(r.tensor_parallel_size, r.verdict) for r in rows] == [
        (found.value - 1, "FAIL"),
        (found.value, found.prediction.verdict),
    ]


@pytest.mark.parametrize("engine", ["llamacpp", "sglang", "vllm@0.21"])
def test_a_table_of_every_engine_has_no_refused_row_of_its_own_making(engine: str, tmp_path: Path) -> None:
    line = ("table", "gemma-4-26b-a4b", "--engine", engine, "--card", "rtx-3090", "--gpus", "2", "--contexts", "8k")
    done = call(*line, "--json", cwd=tmp_path, program="calc")
    assert done.code == 0
    assert {r["tensor_parallel_size"] for r in done.json["rows"]} == {1, 2}
    assert any(r["verdict"] == "PASS" for r in done.json["rows"])
    assert not any("has no tensor_parallel_size" in r["reason"] for r in done.json["rows"])


def test_the_header_names_the_format_that_is_stored(tmp_path: Path) -> None:
    for engine, words in (("llamacpp", "KV f16"), ("sglang", "KV bf16"), ("vllm", "KV bf16")):
        line = ("predict", "qwen3.6-27b", "--engine", engine, "--vram", "80", "--max-ctx", "8k")
        assert words in call(*line, cwd=tmp_path, program="calc").out, engine
