"""The contract, name by name: every JSON shape, every exit code, and errors as JSON. Shapes are compared as sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, call

from calc import Plan, predict, raw_verdict, solve
from onboard import inspect, load_profile
from tests.tiny_model import CONFIG as MODEL

KINDS = {"full", "window", "chunked", "latent", "compressed", "indexer", "state", "cross", "shared", "none"}
ORIGINS = {"config", "class-default", "rule", "header", "override"}
INSPECT = {
    "schema_version", "model", "layers", "num_layers", "cache", "max_model_len", "valid_tp", "num_experts",
    "num_experts_per_token", "num_mtp_layers", "weights", "facts", "warnings",
}  # fmt: skip
CACHE = {
    "growing_elements_per_token", "window_elements", "state_elements_per_sequence", "cross_elements_per_encoder_token",
}  # fmt: skip
PREDICT = {
    "schema_version", "model", "engine", "card", "plan", "terms", "cache", "kv_pool", "devices", "minimum_bytes",
    "needed_bytes", "reserved_bytes", "budget_bytes", "headroom_bytes", "max_model_len_that_fits", "verdict",
    "reasons", "calibration", "notes",
}  # fmt: skip
POOL = {"bytes", "num_blocks", "block_size", "num_groups", "tokens", "max_concurrency", "groups", "caches"}
TERM = {"name", "bytes", "low_bytes", "high_bytes", "inside_budget", "origin", "rule"}
CACHE_TERMS = {"kv_growing", "kv_window", "state", "kv_padding"}
ROW = {
    "max_model_len", "kv_cache_dtype", "tensor_parallel_size", "verdict", "max_concurrency", "needed_bytes",
}  # fmt: skip
FIELD = {"path", "generated", "override", "effective", "status", "why", "link"}
ERROR = {"kind", "path", "value", "message", "hint"}
ANCHOR = {
    "id", "set", "model", "engine", "quantity", "source", "thread", "predicted_bytes", "low_bytes", "high_bytes",
    "measured_bytes", "residual_bytes", "held_out", "verdict", "booted",
}  # fmt: skip
FITS = ("--tp", "2", "--card", "rtx-3090", "--max-ctx", "100000", "--kv-format", "fp8_e5m2")
MODELS = ("qwen3.6-27b", "qwen3.6-35b-a3b", "gemma-4-31b", "gemma-4-26b-a4b")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(MODEL))
    return tmp_path


def ask(home: Path, program: str, *arguments: str, code: int = 0) -> Any:
    done = call(*arguments, cwd=home, program=program)
    assert done.code == code, (done.out[-400:], done.err[-400:])
    return json.loads(done.out)


# --- onboard --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["model", "model/config.json", *MODELS])
def test_inspect(home: Path, source: str) -> None:
    answer = ask(home, "onboard", "inspect", source, "--json")
    assert set(answer) >= INSPECT and answer["schema_version"] == 1
    assert {"id", "source", "revision", "model_type", "architectures"} <= set(answer["model"])
    assert set(answer["cache"]) == CACHE
    assert set(answer["num_layers"]) == KINDS | {"total"}
    for group in answer["layers"]:
        assert group["kind"] in KINDS and group["indices"]
        assert len(group["indices"]) == len(set(group["indices"]))
    counted = {kind: sum(len(g["indices"]) for g in answer["layers"] if g["kind"] == kind) for kind in KINDS}
    assert counted == {kind: answer["num_layers"][kind] for kind in KINDS}
    assert {"checkpoint_bytes", "num_parameters", "quantization", "origin"} <= set(answer["weights"])
    assert all(set(f) == {"value", "origin", "where"} and f["origin"] in ORIGINS for f in answer["facts"].values())
    assert all(set(w) == {"kind", "where", "message"} for w in answer["warnings"])
    assert answer["valid_tp"] == sorted(answer["valid_tp"]) and set(answer["valid_tp"]) <= set(range(1, 65))


def test_inspect_of_a_layer_with_a_state_names_its_tensors(home: Path) -> None:
    layers = ask(home, "onboard", "inspect", "qwen3.6-27b", "--json")["layers"]
    state = next(g for g in layers if g["kind"] == "state")
    assert state["family"] == "gated_delta_net"
    assert state["states"] == [
        {"name": "conv", "shape": [10240, 3], "dtype": "bfloat16"},
        {"name": "ssm", "shape": [48, 128, 128], "dtype": "float32"},
    ]
    full = next(g for g in layers if g["kind"] == "full")
    assert {"num_kv_heads", "k_dim", "v_dim", "k_eq_v"} <= set(full)


def test_add_diff_check_refresh_list_show(home: Path) -> None:
    assert ask(home, "onboard", "add", "model", "--id", "x", "--json")["created"] is True
    (home / "overrides").mkdir()
    entry = "{path: facts.max_model_len, was: 4096, to: 2048, why: served so, link: 'https://example.org'}"
    (home / "overrides" / "x.yaml").write_text(f"model: x\noverrides:\n- {entry}\n")
    for form in (("--json",), ("--format", "json"), ("--format=json",)):
        fields = ask(home, "onboard", "diff", "x", *form)["fields"]
        assert [set(f) for f in fields] == [FIELD]
        assert fields[0]["status"] == "active"
    assert ask(home, "onboard", "check", "--json")["problems"] == []
    assert ask(home, "onboard", "refresh", "x", "--check", "--json")["models"][0]["changes"] == []
    assert "x" in [m["id"] for m in ask(home, "onboard", "list", "--json")["models"]]
    assert set(ask(home, "onboard", "show", "x", "--json")) >= INSPECT
    (home / "model" / "config.json").write_text(json.dumps({**MODEL, "max_position_embeddings": 8192}))
    assert ask(home, "onboard", "refresh", "x", "--check", "--json", code=1)["models"][0]["changes"]
    assert call("refresh", "x", cwd=home).code == 0
    assert ask(home, "onboard", "diff", "x", "--json", code=1)["fields"][0]["status"] == "stale"
    assert ask(home, "onboard", "check", "--json", code=1)["problems"][0]["kind"] == "stale"


def test_the_shipped_ids_and_their_default_weights(home: Path) -> None:
    listed = {m["id"] for m in ask(home, "onboard", "list", "--json")["models"]}
    assert set(MODELS) <= listed
    for model in MODELS:
        profile = ask(home, "onboard", "show", model, "--json")["profile"]
        assert "int4" in profile["default_weights"]
        assert profile["source"]["kind"] == "hub" and profile["source"]["name"].count("/") == 1


# --- calc -----------------------------------------------------------------------------------------------------------


PLANS = [
    ("qwen3.6-27b", *FITS),
    ("gemma-4-31b", "--tp", "2", "--card", "rtx-3090", "--max-ctx", "262144"),
    ("gemma-4-26b-a4b", "--card", "h100-80gb", "--sequences", "8", "--kv-cache-memory-bytes", "4294967296"),
    ("qwen3.6-27b", "--engine", "llamacpp", "--vram", "24", "--gpus", "2", "--ctx-size", "32768"),
    ("gemma-4-26b-a4b", "--engine", "sglang", "--card", "rtx-3090", "--tp", "2", "--context-length", "32768"),
]


@pytest.mark.parametrize("arguments", PLANS, ids=lambda a: " ".join(a))
def test_predict(home: Path, arguments: tuple[str, ...]) -> None:
    done = call("predict", *arguments, "--json", cwd=home, program="calc")
    answer = json.loads(done.out)
    assert set(answer) >= PREDICT and answer["schema_version"] == 1
    assert done.code == (1 if answer["verdict"] == "FAIL" else 0)
    assert answer["verdict"] in ("PASS", "TIGHT", "FAIL")
    assert bool(answer["reasons"]) == (answer["verdict"] == "FAIL") or answer["verdict"] == "TIGHT"
    assert all(set(r) == {"kind", "message"} for r in answer["reasons"] + answer["notes"])
    assert {"name", "version"} <= set(answer["engine"]) and {"name", "vram_bytes", "usable_bytes"} <= set(
        answer["card"]
    )
    assert set(answer["kv_pool"]) >= POOL
    assert {"status", "num_anchors", "error_bytes"} <= set(answer["calibration"])
    assert {f"{n}_bytes" for n in ("request", "growing", "state", "window")} - set(answer["cache"]) == {
        "growing_bytes", "state_bytes", "window_bytes",
    }  # fmt: skip
    for term in answer["terms"]:
        assert set(term) == TERM
        assert isinstance(term["bytes"], int) and term["low_bytes"] <= term["bytes"] <= term["high_bytes"]
    assert sum(t["bytes"] for t in answer["terms"]) == answer["needed_bytes"]
    held = sum(t["bytes"] for t in answer["terms"] if t["name"] in CACHE_TERMS)
    assert held == answer["cache"]["request_bytes"] * (8 if "--sequences" in arguments else 1)
    assert answer["headroom_bytes"] == answer["budget_bytes"] - answer["minimum_bytes"]
    knobs = {"tensor_parallel_size", "max_model_len", "max_num_seqs", "kv_cache_dtype", "gpu_memory_utilization"}
    assert knobs <= set(answer["plan"]) and answer["plan"]["kv_cache_dtype"] != "auto"


def test_solve(home: Path) -> None:
    for quantity in ("max-model-len", "max-num-seqs", "tp", "vram", "kv-cache-dtype"):
        plan = ("--tp", "2", "--card", "rtx-3090", "--max-ctx", "65536")
        answer = ask(home, "calc", "solve", "qwen3.6-27b", "--for", quantity, *plan, "--json")
        assert {"for", "value", "require", "prediction"} <= set(answer)
        assert answer["for"] == quantity and answer["require"] == "start" and answer["value"] is not None
        assert set(answer["prediction"]) >= PREDICT
    none = ("--tp", "1", "--vram", "8", "--require", "pass", "--json")
    answer = ask(home, "calc", "solve", "qwen3.6-27b", "--for", "max-model-len", *none, code=1)
    assert answer["value"] is None and answer["require"] == "pass"


def test_table(home: Path) -> None:
    line = ("table", "qwen3.6-27b", "--card", "rtx-3090", "--tp", "2", "--contexts", "32k,262144", "--json")
    rows = ask(home, "calc", *line)["rows"]
    assert rows and all(set(row) >= ROW for row in rows)
    assert {r["max_model_len"] for r in rows} == {32_000, 262_144}


def test_bootlog(home: Path) -> None:
    (home / "boot.log").write_text(
        "INFO [gpu_worker.py:1] Available KV cache memory: 11.15 GiB\n"
        "INFO [kv_cache_utils.py:2] GPU KV cache size: 1,000 tokens\n"
    )
    line = ("bootlog", "boot.log", "--model", "qwen3.6-27b", *FITS, "--engine", "vllm@0.33", "--json")
    answer = ask(home, "calc", *line, code=1)
    assert {"lines", "diagnosis", "flags"} <= set(answer)
    names = {"line", "quantity", "printed", "predicted", "within_rounding"}
    assert [names <= set(one) for one in answer["lines"]] == [True, True]
    assert any(not one["within_rounding"] for one in answer["lines"])
    assert all(set(d) >= {"kind", "message"} for d in answer["diagnosis"])


def test_calibration(home: Path) -> None:
    answer = ask(home, "calc", "calibration", "--json")
    assert all(set(a) >= ANCHOR for a in answer["anchors"])
    assert {a["set"] for a in answer["anchors"]} == {"specification", "boots"}
    for anchor in answer["anchors"]:
        assert abs(anchor["residual_bytes"]) == abs(anchor["predicted_bytes"] - anchor["measured_bytes"])
    told = answer["summary"]["specification"]
    assert (told["num_anchors"], told["num_verdicts_right"]) == (17, 17)
    boots = {"num_anchors", "mean_absolute_error_bytes", "coverage_90", "median_half_width_bytes"}
    assert boots <= set(answer["summary"]["boots"])


# --- exit codes -----------------------------------------------------------------------------------------------------

P, ON = "calc", "onboard"
CODES: list[tuple[str, tuple[str, ...], int]] = [
    (P, ("predict", "qwen3.6-27b", *FITS), 0),
    (P, ("predict", "qwen3.6-27b", *FITS, "--sequences", "64"), 0),  # TIGHT
    (P, ("predict", "qwen3.6-27b", *FITS, "--sequences", "64", "--require", "pass"), 1),
    (P, ("predict", "qwen3.6-27b", "--card", "rtx-3090"), 1),  # FAIL
    (P, ("predict", "qwen3.6-27b", "--no-such-option"), 2),
    (P, ("predict", "qwen3.6-27b", "--card", "rtx-9999"), 2),
    (P, ("predict", "qwen3.6-27b", "--engine", "tgi", "--vram", "24"), 2),
    (P, ("predict", "qwen3.6-27b", "--engine", "llamacpp", "--vram", "24", "--mem-fraction-static", "0.8"), 2),
    (P, ("predict", "qwen3.6-27b", "--vram", "24", "--kv-format", "fp7"), 2),
    (P, ("predict", "qwen3.6-27b", "--vram", "24", "--compose", "none-such"), 2),
    (P, ("solve", "qwen3.6-27b", "--for", "happiness", "--vram", "24"), 2),
    (P, ("bootlog", "nowhere.log", "--model", "qwen3.6-27b"), 3),
    (ON, ("add", "model", "--id", "Not An Id"), 2),
    (ON, ("refresh",), 2),
    (ON, ("inspect", "no-such-thing"), 3),
    (ON, ("show", "no-such-thing"), 3),
    (ON, ("inspect", "bad"), 3),
    (P, ("predict", "bad", "--vram", "24"), 3),
    (ON, ("inspect", "org/not-in-the-cache"), 4),  # offline
    (P, ("predict", "org/not-in-the-cache", "--vram", "24"), 4),
]


@pytest.mark.parametrize(
    ("program", "arguments", "code"), CODES, ids=lambda v: " ".join(v) if isinstance(v, tuple) else v
)
def test_exit_codes_and_errors_as_json(home: Path, program: str, arguments: tuple[str, ...], code: int) -> None:
    (home / "bad").mkdir()
    (home / "bad" / "config.json").write_text(json.dumps({**MODEL, "num_hidden_layers": -4}))
    plain = call(*arguments, cwd=home, program=program)
    assert plain.code == code, (plain.out[-300:], plain.err)
    as_json = call(*arguments, "--json", cwd=home, program=program)
    assert as_json.code == code
    answer = json.loads(as_json.out)
    if code >= 2:
        assert set(answer) == {"error"} and set(answer["error"]) == ERROR
        assert answer["error"]["kind"] and answer["error"]["message"]
        assert plain.err.startswith(answer["error"]["kind"] + ": ") and not plain.out
        assert "\n\n" not in plain.err.strip(), "one paragraph"
    if code in (3, 4):
        assert answer["error"]["hint"] and answer["error"]["path"]
    if arguments[1:2] == ("bad",):
        assert answer["error"]["path"].endswith("num_hidden_layers") and answer["error"]["value"] == -4


def test_a_total_without_weights_is_refused_with_the_option(home: Path) -> None:
    """No header, index, listing or countable parameters: exit 3 that names the option, and with it an answer."""
    sizeless = {k: v for k, v in MODEL.items() if k != "intermediate_size"}  # experts of no stated width
    (home / "model" / "config.json").write_text(json.dumps({**sizeless, "model_type": "unheard_of", "num_experts": 8}))
    line = ("predict", "model", "--vram", "24", "--json")
    error = ask(home, "calc", *line, code=3)["error"]
    assert error["kind"] == "WeightsUnknown" and "--weights-gb" in error["hint"]
    answer = ask(home, "calc", *line, "--weights-gb", "2")
    weights = next(t for t in answer["terms"] if t["name"] == "weights")
    assert (weights["bytes"], weights["origin"]) == (2 * 10**9, "option")


# --- Python ---------------------------------------------------------------------------------------------------------


def test_python(home: Path) -> None:
    profile = load_profile("qwen3.6-27b")
    plan = Plan(
        tensor_parallel_size=2, max_model_len=100_000, kv_cache_dtype="fp8_e5m2", engine="vllm@0.33", card="rtx-3090"
    )
    assert raw_verdict(profile, plan) == ("PASS", ())
    answer = predict(profile, plan).to_json()
    assert answer == json.loads(json.dumps(answer)), "plain JSON types, no tuples"
    printed = ask(home, "calc", "predict", "qwen3.6-27b", *FITS, "--engine", "vllm@0.33", "--json")
    for name in ("terms", "cache", "kv_pool", "verdict", "needed_bytes", "reserved_bytes"):
        assert answer[name] == printed[name], name
    assert inspect("qwen3.6-27b").to_json() == ask(home, "onboard", "inspect", "qwen3.6-27b", "--json")
    longest = solve(profile, plan, "max-model-len")
    assert longest.to_json()["value"] == longest.value
    given = Plan(kv_cache_memory_bytes=2**30, vram_gib=24, max_model_len=4096)
    assert predict(profile, given).cache.pool.bytes <= 2**30
    with pytest.raises((AttributeError, TypeError)):
        plan.card = "h100-80gb"  # type: ignore[misc]


OPTIONS = """
--tensor-parallel-size --tp --pipeline-parallel-size --pp --decode-context-parallel-size --dcp
--enable-expert-parallel --gpus --max-model-len --max-ctx --max-num-seqs --sequences --max-num-batched-tokens
--gpu-memory-utilization --mem-util --kv-cache-dtype --kv-format --block-size --enable-prefix-caching
--no-enable-prefix-caching --enforce-eager --kv-cache-memory-bytes --disable-hybrid-kv-cache-manager
--language-model-only --num-speculative-tokens --drafter --drafter-gb --max-loras --max-lora-rank --weights
--weights-gb --engine --card --vram --compose --from --ctx-size --parallel --kv-unified --batch-size --ubatch-size
--cache-type-k --cache-type-v --flash-attn --swa-full --n-gpu-layers --tensor-split --n-cpu-moe
--mem-fraction-static --context-length --max-running-requests --page-size --swa-full-tokens-ratio
--mamba-full-memory-ratio --disable-radix-cache --include-draft-kv --draft-kv-gb --compressed-layers
--compression-ratio --compressed-head-dim --indexer-ratio-layers --indexer-compress-ratio --indexer-head-dim
--indexer-format --json --explain --kv-breakdown --require
"""


def test_every_plan_option_of_the_contract_is_there(home: Path) -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    predict_help = call("predict", "--help", cwd=home, program="calc").out
    missing = [o for o in OPTIONS.split() if o not in predict_help or o not in text]
    assert not missing
