"""Every public bug report of tests/data/bug_cases.json, end to end: a file on disk, `onboard.inspect`, `calc.predict`.

The cases' inputs and right answers are a copy of the evidence, with nothing added to any input. What an expected key
means here stands in `CHECKS`; what this road cannot show stands in `ELSEWHERE` with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from calc import Plan, predict
from calc.prediction import Prediction
from onboard import inspect
from onboard.errors import FieldMissing, Refusal
from onboard.profile import Profile
from tests.gguf_bytes import header

DATA = Path(__file__).parent / "data" / "bug_cases.json"
LISTED: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))
ENGINES = {"vllm": "vllm@0.25.1", "llama.cpp": "llamacpp", "sglang": "sglang"}
KNOBS = {
    "tp": "tensor_parallel_size", "max_model_len": "max_model_len", "num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens", "block_size": "block_size", "n_ubatch": "ubatch_size",
    "kv_dtype": "kv_cache_dtype", "gpu_memory_utilization": "gpu_memory_utilization",
}  # fmt: skip
NOT_IN = {
    "llamacpp": {"tensor_parallel_size", "block_size", "max_num_batched_tokens", "gpu_memory_utilization"},
    "sglang": {"block_size", "gpu_memory_utilization"},
}
STATE_DTYPES = {"bf16": "bfloat16"}
REFUSALS = {
    "layer-count-mismatch": "LayerCountMismatch",
    "window-missing": "WindowMissing",
    "unknown-layer-kind": "UnknownLayerKind",
    "duplicate-key": "DuplicateKey",
}
# A fragment of a GGUF file's metadata that is written without the architecture's prefix, and a list by its sum.
SPELLED_OUT = {"ods-pr-5508-array-longer-than-sample"}

# Cases whose input is no config: tensors, listings and answers of the Hub have tests of their own.
NO_CONFIG = {
    "tt-xla-6055-vocab-matrix-not-sharded": "tensors: tests/test_weights_cases.py",
    "aiconfigurator-pr-1390-experts-and-ep": "tensors: tests/test_weights_cases.py",
    "llmfit-1045-packed-elements": "tensors: tests/test_weights_cases.py",
    "huggingfacejs-pr-2323-mxfp4-scales": "tensors: tests/test_weights_cases.py",
    "aiconfigurator-pr-391-nvfp4-bytes": "tensors: tests/test_weights_cases.py",
    "trtmc-pr-1115-fp8-block-scales": "tensors: tests/test_weights_cases.py",
    "vllm-fit-27-untied-head": "parameters of one matrix: tests/test_weights_cases.py",
    "llmfit-230-active-is-not-resident": "a stated total: tests/test_weights_cases.py",
    "unsloth-pr-11227-original-and-metal-folders": "a listing: tests/test_weights_cases.py",
    "vllm-pr-2480-bin-and-safetensors": "a listing: tests/test_weights_cases.py",
    "sglang-pr-32279-missing-shard": "a listing: tests/test_weights_cases.py",
    "unsloth-zoo-pr-900-odd-shard-names": "a listing: tests/test_weights_cases.py",
    "hub-pr-1202-401-means-two-things": "answers of the Hub: tests/test_sources_hub.py",
}
ELSEWHERE = {
    "names": "checked with the refusal",
    "note": "an unread text of the config: tests/test_rawjson.py",
    "override_refuse": "an override's text: tests/test_overrides.py",
    "weights_bytes": "the file's own size: tests/test_weights_cases.py",
    "must_not_fetch_other_repo_silently": "no test reaches the network (conftest)",
    "bytes_needed": "a stated peak stands for the estimate: tests/test_vllm_bug_cases.py",
    "report_shows_both_numbers": "both are fields of every prediction: tests/test_vllm_bug_cases.py",
    "lora_bytes_per_slot": "the term holds all slots: `lora_bytes`",
}
# Read, and too little for a layout: the refusal is of the next field that is needed, not of the text.
NO_LAYOUT = {"openviking-pr-500-byte-order-mark[0]": "num_attention_heads"}


class Asked:
    """One input with what is asked of it."""

    def __init__(self, profile: Profile, ask: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self.profile, self.ask, self.given = profile, ask, given
        self.length = ask.get("max_model_len") or 2048

    @property
    def json(self) -> dict[str, Any]:
        return self.profile.to_json()

    def predict(self, **more: Any) -> Prediction:
        engine = str(more.pop("engine", ENGINES[self.ask.get("engine", "vllm")]))
        knobs = {name: self.ask[key] for key, name in KNOBS.items() if self.ask.get(key) is not None}
        if self.ask.get("speculative") == "mtp":
            knobs["num_speculative_tokens"] = 1
        if self.ask.get("ssm_dtype"):
            knobs["mamba_ssm_cache_dtype"] = STATE_DTYPES[self.ask["ssm_dtype"]]
        adapter = self.given.get("adapter", {})
        knobs |= {k: adapter[k] for k in ("max_loras", "max_lora_rank") if k in adapter}
        skipped = NOT_IN.get(engine.split("@")[0], set())
        plan = {"max_model_len": self.length, **{k: v for k, v in knobs.items() if k not in skipped}, **more}
        return predict(self.profile, Plan(engine=engine, **{"vram_gib": 9000, "weights_gb": 1, **plan}))

    def indices(self, *kinds: str) -> list[int]:
        return sorted({i for run in self.json["layers"] if run["kind"] in kinds for i in run["indices"]})

    def floor(self, length: int) -> int:
        """What the architecture keeps of one sequence, two bytes an element."""
        total = 0
        for run in self.json["layers"]:
            if run["kind"] in ("full", "window"):
                row = run["num_kv_heads"] * (run["k_dim"] + run["v_dim"]) * 2
                total += len(run["indices"]) * row * min(run.get("window", length), length)
        return total

    def per_token(self, **more: Any) -> Any:
        """Bytes a token while no window is full."""
        windows = self.json["num_layers"]["window"]
        return self.floor(1) if windows else self.predict(**more).cache.growing_bytes_per_token

    def kinds(self) -> set[str]:
        return {w.kind for w in self.profile.warnings}

    def shape(self, field: str) -> set[int]:
        return {run[field] for run in self.json["layers"] if field in run}


def _kv_bytes(asked: Asked, want: Any) -> Any:
    if isinstance(want, dict):
        return {n: _growing(asked, int(n)) for n in want}
    return _growing(asked, asked.length)


def _growing(asked: Asked, length: int) -> int:
    """K and V of one sequence: the engine's own caches where it has windows, else bytes a token x length."""
    if "window-not-effective" in asked.kinds():  # vLLM adds a block a layer to it
        return asked.floor(length)
    found = asked.predict(max_model_len=length)
    if asked.json["num_layers"]["window"]:
        return found.cache.one.total
    return int(found.cache.growing_bytes_per_token * length)


def _mib(asked: Asked) -> int:
    return round(asked.predict().cache.one.total / 2**20)


def _by_tp(asked: Asked, want: Any) -> Any:
    if not isinstance(want, dict):
        return asked.per_token()
    return {tp: asked.per_token(tensor_parallel_size=int(tp)) for tp in want}


def _page(asked: Asked, kv: str) -> Any:
    return asked.predict(kv_cache_dtype=kv).cache.pool


def _pool_bytes(asked: Asked) -> int:
    return int(asked.ask["card_bytes"] * 9 // 10 - asked.given["weights_bytes"] - asked.given["non_kv_peak_bytes"])


OWNING = ("full", "window", "chunked", "latent")
Check = Callable[[Asked, Any], Any]
CHECKS: dict[str, Check] = {
    "kv_layers": lambda a, w: len(a.indices(*OWNING)) + _drafting(a),
    "kv_layer_indices": lambda a, w: a.indices(*OWNING),
    "layers_owning_kv": lambda a, w: len(a.indices(*OWNING)),
    "full_layers": lambda a, w: a.json["num_layers"]["full"],
    "full_layers_owning_kv": lambda a, w: a.json["num_layers"]["full"],
    "window_layers": lambda a, w: a.json["num_layers"]["window"],
    "window_layers_owning_kv": lambda a, w: a.json["num_layers"]["window"],
    "window_layer_indices": lambda a, w: "{}..{}".format(a.indices("window")[0], a.indices("window")[-1]),
    "state_layers": lambda a, w: a.json["num_layers"]["state"],
    "indexer_layers": lambda a, w: a.json["num_layers"]["indexer"],
    "num_hidden_layers": lambda a, w: a.json["num_layers"]["total"],
    "num_attention_heads": lambda a, w: a.json["facts"]["num_attention_heads"]["value"],
    "kv_heads": lambda a, w: next(iter(a.shape("num_kv_heads"))),
    "head_dim": lambda a, w: next(iter(a.shape("k_dim") | a.shape("v_dim"))),
    "latent_width": lambda a, w: a.json["layers"][0]["latent_dim"] + a.json["layers"][0]["rope_dim"],
    "divided_by_tp": lambda a, w: a.per_token(tensor_parallel_size=1) != a.per_token(),
    "max_context": lambda a, w: a.json["max_model_len"],
    "window_effective": lambda a, w: "window-not-effective" not in a.kinds(),
    "provenance_of_layers": lambda a, w: a.json["facts"]["num_hidden_layers"]["origin"],
    "warn": lambda a, w: _warned(a, w),
    "kv_bytes_per_token": lambda a, w: a.per_token(),
    "growing_kv_bytes_per_token": lambda a, w: a.predict().cache.growing_bytes_per_token,
    "kv_bytes_per_token_per_card": _by_tp,
    "kv_bytes_per_token_all_cards": lambda a, w: {t: int(t) * b for t, b in _by_tp(a, w).items()},
    "kv_bytes": _kv_bytes,
    "kv_bytes_f16": lambda a, w: a.predict(kv_cache_dtype="f16").cache.one.total,
    "kv_bytes_at_262144": lambda a, w: _growing(a, 262144),
    "kv_bytes_at_8192": lambda a, w: _growing(a, 8192),
    "kv_bytes_one_request": lambda a, w: a.predict().cache.one.total,
    "kv_bytes_floor": lambda a, w: a.floor(a.length) * a.ask.get("num_seqs", 1),
    "kv_bytes_at_len_1": lambda a, w: a.floor(1),
    "kv_bytes_floor_at_len_131072": lambda a, w: a.floor(131072),
    "old_report_tokens_for_pool_5779095552": lambda a, w: (
        a.predict(engine="vllm@0.19.1", kv_cache_memory_bytes=5779095552, max_model_len=131072).cache.pool.tokens
    ),
    "kv_bytes_per_request_per_card": lambda a, w: a.predict().cache.one.total,
    "max_concurrency_for_pool_8_16_gib": lambda a, w: round(
        a.predict(kv_cache_memory_bytes=round(8.16 * 2**30)).cache.pool.max_concurrency, 2
    ),
    "kv_bytes_vllm_hybrid_manager_on": lambda a, w: a.predict().cache.asked.total,
    "kv_bytes_vllm_hybrid_manager_off": lambda a, w: a.predict(disable_hybrid_kv_cache_manager=True).cache.asked.total,
    "state_page_bytes": lambda a, w: a.predict().cache.state_bytes_per_sequence // a.json["num_layers"]["state"],
    "attention_block_tokens": lambda a, w: _page(a, "fp8_e4m3").extra["attention_block_size"],
    "attention_block_tokens_if_kv_bf16": lambda a, w: _page(a, "bf16").extra["attention_block_size"],
    "padded_page_bytes": lambda a, w: _page(a, "fp8_e4m3").groups[0].page_bytes,
    "state_bytes_per_seq": lambda a, w: a.predict().cache.state_bytes_per_sequence,
    "kv_plus_state_mib_rounded": lambda a, w: _mib(a),
    "layer_count_same_for_every_kv_dtype": lambda a, w: (
        len({a.predict(kv_cache_dtype=f).cache.pool.caches[0].num_layers for f in ("f16", "q8_0", "q4_0")}) == 1
    ),
    "lora_bytes": lambda a, w: next(t.bytes for t in a.predict().terms if t.name == "adapters"),
    "report_names_context_used": lambda a, w: a.predict().resolved.plan.max_model_len is not None,
    "kv_pool_bytes": lambda a, w: _pool_bytes(a),
    "bytes_reserved": lambda a, w: a.predict(vram_gib=a.ask["card_bytes"] / 2**30).budget_bytes,
    "must_not_refuse": lambda a, w: True,
    "parsed": lambda a, w: True,
    "remote_code_run": lambda a, w: False,
    "profile_contains_non_finite": lambda a, w: "Infinity" in json.dumps(a.json) or "NaN" in json.dumps(a.json),
    "yaml_has_no_integer_above": lambda a, w: w if max(_integers(a.json)) <= w else max(_integers(a.json)),
    "architecture": lambda a, w: "unknown" if "unknown-model-type" in a.kinds() else a.profile.model_type,
}


def _drafting(asked: Asked) -> int:
    return len(asked.profile.mtp_layers) if asked.ask.get("speculative") == "mtp" else 0


def _warned(asked: Asked, want: str) -> str:
    if want == "context-beyond-model":
        return want if any(r.kind == "max_model_len" for r in asked.predict().reasons) else "nothing said"
    return want if want in asked.kinds() else str(sorted(asked.kinds()))


def _integers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [n for v in value.values() for n in _integers(v)]
    if isinstance(value, list):
        return [n for v in value for n in _integers(v)]
    return [value] if isinstance(value, int) else [0]


def written(case: str, given: Mapping[str, Any], folder: Path) -> Path | None:
    """The input as the file it stands for; None where it is no config."""
    if "config" in given:
        (folder / "config.json").write_text(json.dumps(given["config"]), encoding="utf-8")
    elif "config_text" in given:
        (folder / "config.json").write_text(given["config_text"], encoding="utf-8")
    elif "config_bytes_hex" in given:
        (folder / "config.json").write_bytes(bytes.fromhex(given["config_bytes_hex"]))
    elif "params_json" in given:
        (folder / "params.json").write_text(json.dumps(given["params_json"]), encoding="utf-8")
    elif "gguf" in given:
        (folder / "model.gguf").write_bytes(header(metadata(case, given["gguf"])))
        return folder / "model.gguf"
    else:
        return None
    if "tokenizer_config" in given:
        (folder / "tokenizer_config.json").write_text(json.dumps(given["tokenizer_config"]), encoding="utf-8")
    return next(folder.glob("[cp]*s*.json" if "params_json" in given else "config.json"))


def metadata(case: str, gguf: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as a file has it: lists written out, keys under the architecture's name."""
    name = gguf["general.architecture"]
    found: dict[str, Any] = {}
    for key, value in gguf.items():
        long = key if key.startswith(("general.", f"{name}.")) else f"{name}.{key}"
        if isinstance(value, str) and value.startswith("repeat "):
            value = [8, 8, 8, 8, 8, 1] * 8
        found[long] = value
    if case in SPELLED_OUT:  # 8 of 88 layers with 2 KV heads each
        total, count = found.pop(f"{name}.attention.head_count_kv_sum"), found[f"{name}.block_count"]
        found[f"{name}.attention.head_count_kv"] = [2 if i % 11 == 4 else 0 for i in range(count)]
        assert sum(found[f"{name}.attention.head_count_kv"]) == total
        found |= {f"{name}.ssm.{k}": v for k, v in STATE.items()}
    return found


# Sizes of a Mamba 2 state, which a file of this architecture has and the fragment leaves out.
STATE = {"conv_kernel": 4, "inner_size": 8192, "state_size": 128, "time_step_rank": 128, "group_count": 8}


@lru_cache(maxsize=1)
def pairs() -> list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """(name, input, what is asked, right answer), one a variant."""
    found = []
    for case in LISTED:
        whole, answer = case["input"], case["expected"]
        inputs, answers = whole.get("variants") or [whole], answer.get("variants") or [answer]
        for index, (given, want) in enumerate(zip(inputs, answers, strict=True)):
            ask = given.get("ask") or whole.get("ask") or {}
            found.append((f"{case['id']}[{index}]", given, ask, want))
    return found


ROAD = [p for p in pairs() if p[0].split("[")[0] not in NO_CONFIG]


@pytest.mark.parametrize(("name", "given", "ask", "want"), ROAD, ids=[p[0] for p in ROAD])
def test_every_expected_key(
    name: str, given: dict[str, Any], ask: dict[str, Any], want: dict[str, Any], tmp_path: Path
) -> None:
    path = written(name.split("[")[0], given, tmp_path)
    assert path is not None
    if "refuse" in want:
        with pytest.raises(Refusal) as refused:
            inspect(str(path))
        assert refused.value.kind == REFUSALS[want["refuse"]]
        assert all(word in refused.value.message for word in want.get("names", ()))
        return
    if name in NO_LAYOUT:
        with pytest.raises(FieldMissing, match=NO_LAYOUT[name]):
            inspect(str(path))
        return
    asked = Asked(inspect(str(path)), ask, given)
    keys = [key for key in want if key not in ELSEWHERE]
    assert keys
    assert {key: CHECKS[key](asked, want[key]) for key in keys} == {key: want[key] for key in keys}


def test_every_case_is_here_or_is_named() -> None:
    assert {p[0].split("[")[0] for p in ROAD} | set(NO_CONFIG) == {case["id"] for case in LISTED}
    assert len(LISTED) == 52


def test_the_copy_is_the_evidence() -> None:
    from onboard.yamlio import load_text
    from tests.shared import SHARED

    if not SHARED.is_dir():
        pytest.skip("../shared is not here")
    source = load_text((SHARED / "evidence" / "bug_cases.yml").read_text(encoding="utf-8"), "bug_cases.yml")["cases"]
    same = [{k: json.loads(json.dumps(c[k])) for k in ("id", "area", "input", "expected")} for c in source]
    assert same == LISTED
