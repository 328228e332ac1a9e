"""The engine contract for llama.cpp, through `predict`: sums, verdicts, refusals, --fit, devices, public reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Prediction
from onboard.derive import derive
from onboard.errors import UnknownEngine, UnknownKnob, UsageError, WeightsUnknown
from onboard.profile import Profile, SourceRef
from tests.llamacpp_cases import from_gguf
from tests.shared import SHARED, needs_shared

MIB = 2**20
QWEN3 = from_gguf("Qwen__Qwen3-8B", small=True)
QWEN36 = from_gguf("Qwen__Qwen3.6-27B", small=True)
GEMMA = from_gguf("google__gemma-4-31B-it", small=True)


def run(profile: Profile, **knobs: Any) -> Prediction:
    knobs = {"card": "rtx-3090", "weights_gb": 5.0, **knobs}
    return predict(profile, Plan(engine="llamacpp", **knobs))


def configured(config: dict[str, Any]) -> Profile:
    return derive(config, model_id="m", source=SourceRef(kind="folder", name="m"))


@settings(max_examples=25, deadline=None)
@given(
    length=st.integers(1, 300_000),
    slots=st.one_of(st.none(), st.integers(1, 12)),
    unified=st.one_of(st.none(), st.booleans()),
    gpus=st.integers(1, 3),
    kind=st.sampled_from(["auto", "f16", "q8_0", "q4_0", "f32"]),
    profile=st.sampled_from([QWEN3, QWEN36, GEMMA]),
)
def test_sums_hold_to_the_byte(
    length: int, slots: int | None, unified: bool | None, gpus: int, kind: str, profile: Profile
) -> None:
    p = run(profile, max_model_len=length, max_num_seqs=slots, kv_unified=unified, gpus=gpus, kv_cache_dtype=kind)
    terms = {t.name: t.bytes for t in p.terms}
    assert sum(terms.values()) == p.needed_bytes
    cache = sum(terms[n] for n in ("kv_growing", "kv_window", "state", "kv_padding"))
    assert cache == (slots or 1) * p.cache.one.total
    pool = p.cache.pool
    assert sum(c.bytes for c in pool.caches) == sum(d.context_bytes for d in p.devices)
    assert pool.bytes == max(d.context_bytes for d in p.devices if d.name != "host") or gpus > 1
    assert p.minimum_bytes <= p.needed_bytes
    assert (p.verdict == "FAIL") == bool(p.reasons)


def test_defaults_are_the_servers_and_are_said() -> None:
    p = run(GEMMA, max_model_len=32768)
    assert (p.resolved.plan.max_num_seqs, p.resolved.plan.kv_unified) == (4, True)
    assert sum(c.bytes for c in p.cache.pool.caches) == 6160 * MIB
    assert any("4 slots" in n.message for n in p.notes)
    alone = run(GEMMA, max_model_len=32768, max_num_seqs=1)
    assert sum(c.bytes for c in alone.cache.pool.caches) == 3760 * MIB


def test_slots_that_share_a_context_cannot_all_fill_it() -> None:
    assert run(QWEN3, max_model_len=8192, max_num_seqs=1).verdict == "PASS"
    assert run(QWEN3, max_model_len=8192, max_num_seqs=4).verdict == "TIGHT"
    assert run(QWEN3, max_model_len=8192).verdict == "PASS"


def test_what_does_not_fit_names_what_would() -> None:
    p = run(QWEN3, max_model_len=40960, kv_cache_dtype="f32", weights_gb=16.4)
    assert [r.kind for r in p.reasons] == ["memory"]
    longest = p.cache.max_model_len_that_fits
    assert 0 < longest < 40960
    assert run(QWEN3, max_model_len=longest, kv_cache_dtype="f32", weights_gb=16.4).verdict != "FAIL"
    assert run(QWEN3, max_model_len=longest + 256, kv_cache_dtype="f32", weights_gb=16.4).verdict == "FAIL"


def test_fit_shortens_only_a_context_that_was_not_given() -> None:
    whole = run(QWEN36, weights_gb=16.0)
    assert whole.resolved.plan.max_model_len is not None and whole.resolved.plan.max_model_len < 262144
    assert whole.verdict == "PASS"
    assert any("--fit takes" in n.message for n in whole.notes)
    assert run(QWEN36, weights_gb=16.0, max_model_len=262144).verdict == "FAIL"


@pytest.mark.parametrize(
    "knob",
    [
        {"gpu_memory_utilization": 0.9},
        {"tensor_parallel_size": 2},
        {"kv_cache_memory_bytes": 2**30},
        {"enforce_eager": True},
        {"mem_fraction_static": 0.8},
        {"max_num_batched_tokens": 2048},
    ],
)
def test_knobs_of_other_engines_are_refused(knob: dict[str, Any]) -> None:
    with pytest.raises(UnknownKnob) as refusal:
        run(QWEN3, max_model_len=4096, **knob)
    assert refusal.value.path == "--" + next(iter(knob)).replace("_", "-")


def test_bad_values_and_versions_are_refused() -> None:
    with pytest.raises(UsageError):
        run(QWEN3, max_model_len=4096, flash_attn="maybe")
    with pytest.raises(UnknownEngine):
        predict(QWEN3, Plan(engine="llamacpp@banana", card="rtx-3090", weights_gb=5, max_model_len=4096))
    with pytest.raises(WeightsUnknown):
        predict(QWEN3, Plan(engine="llamacpp", card="rtx-3090", max_model_len=4096))


@pytest.mark.parametrize(
    ("knobs", "kind"),
    [
        ({"kv_cache_dtype": "fp8"}, "kv_dtype"),
        ({"kv_cache_dtype": "q8_0", "flash_attn": "off"}, "kv_dtype"),
        ({"max_num_seqs": 300}, "slots"),
    ],
)
def test_what_the_engine_would_not_start_with_fails(knobs: dict[str, Any], kind: str) -> None:
    p = run(QWEN3, **{"max_model_len": 4096, **knobs})
    assert p.verdict == "FAIL"
    assert kind in {r.kind for r in p.reasons}


def test_a_draft_head_adds_its_context_and_older_states() -> None:
    plain = run(QWEN36, max_model_len=32768, max_num_seqs=1)
    draft = run(QWEN36, max_model_len=32768, max_num_seqs=1, drafter="mtp", num_speculative_tokens=3)
    caches = {c.name: c for c in draft.cache.pool.caches}
    assert caches["mtp"].bytes == 128 * MIB
    assert caches["state"].bytes == 4 * {c.name: c for c in plain.cache.pool.caches}["state"].bytes


def test_layers_on_the_host_take_their_cache_along() -> None:
    p = run(QWEN3, max_model_len=8192, max_num_seqs=1, n_gpu_layers=10)
    held = {d.name: d for d in p.devices}
    layer = 2 * 8 * 128 * 2 * 8192
    assert (held["gpu0"].context_bytes, held["host"].context_bytes) == (9 * layer, 27 * layer)
    none = {d.name: d for d in run(QWEN3, max_model_len=8192, max_num_seqs=1, no_kv_offload=True).devices}
    assert (none["gpu0"].context_bytes, none["host"].context_bytes) == (0, 36 * layer)


def test_a_window_padded_as_its_build_did() -> None:
    sizes = {}
    for version in ("", "@2025.10"):
        profile = from_gguf("openai__gpt-oss-20b", small=True)
        plan = Plan(engine="llamacpp" + version, card="rtx-3090", weights_gb=12, max_model_len=4096, max_num_seqs=1)
        sizes[version] = {c.name: c.num_cells for c in predict(profile, plan).cache.pool.caches}["window"]
    assert sizes == {"": 768, "@2025.10": 640}


GPT_OSS = {
    "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "num_hidden_layers": 24, "num_key_value_heads": 8,
    "num_attention_heads": 64, "hidden_size": 2880, "vocab_size": 201088, "intermediate_size": 2880, "head_dim": 64,
    "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 12,
}  # fmt: skip
QWEN35_TEXT = {
    "model_type": "qwen3_5_text", "num_hidden_layers": 32, "full_attention_interval": 4, "num_key_value_heads": 4,
    "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
}  # fmt: skip
QWEN2 = {
    "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4,
}  # fmt: skip


def test_reports_of_windows_states_and_quantised_caches() -> None:
    oss = run(configured(GPT_OSS), max_model_len=131072, max_num_seqs=1)
    assert sum(c.bytes for c in oss.cache.pool.caches) == 3240099840
    hybrid = run(configured(QWEN35_TEXT), max_model_len=131072, max_num_seqs=1)
    caches = {c.name: c.bytes for c in hybrid.cache.pool.caches}
    assert caches == {"full": 4294967296, "state": 52690944}
    for kind, size in (("q8_0", 7985954816), ("f16", 15032385536)):
        p = run(configured(QWEN2), max_model_len=262144, max_num_seqs=1, kv_cache_dtype=kind)
        assert sum(c.bytes for c in p.cache.pool.caches) == size
    assert run(configured(QWEN2), max_model_len=4096, kv_cache_dtype="q8_0").cache.growing_bytes_per_token == 30464


@needs_shared
@pytest.mark.parametrize(
    "name",
    ["Qwen__Qwen3.6-27B", "Qwen__Qwen3.6-35B-A3B", "google__gemma-4-31B-it", "google__gemma-4-26B-A4B-it"],
)
def test_the_specifications_models_have_an_answer_on_two_cards(name: str) -> None:
    config: dict[str, Any] = json.loads(Path(SHARED / "corpus" / name / "config.json").read_text())
    profile = configured(config)
    for length in (32768, 131072, 262144):
        p = run(profile, max_model_len=length, max_num_seqs=1, gpus=2, weights_gb=18.0)
        assert p.verdict in ("PASS", "FAIL")
        assert [d.name for d in p.devices] == ["gpu0", "gpu1", "host"]
        assert {r.kind for r in p.reasons} <= {"memory"}
        assert json.loads(json.dumps(p.to_json()))["verdict"] == p.verdict
