"""vLLM's own planning code, run on real configs by four releases, equalled figure by figure."""

from __future__ import annotations

import pytest

from tests.shared import needs_shared
from tests.vllm_sweep import answered, differences, entries, profile_of

FILES = {
    "0.33": "vllm_kv_spec.json",
    "0.25.1": "vllm_kv_spec_0.25.1.json",
    "0.20.2": "vllm_kv_spec_0.20.2.json",
    "0.11.0": "vllm_kv_spec_0.11.0.json",
}
#: Runs with a pool and a full config class that the files hold; a sweep that sees fewer proves less.
RUNS = {"0.33": 670, "0.25.1": 184, "0.20.2": 192, "0.11.0": 106}
#: (version, entry, KV) -> why ours differs. None.
EXCEPTIONS: dict[tuple[str, str, str], str] = {}


@needs_shared
@pytest.mark.wide
@pytest.mark.parametrize("version", FILES)
def test_every_run_is_equalled(version: str) -> None:
    file = FILES[version]
    runs = answered(file)
    assert len(runs) >= RUNS[version]
    wrong = {}
    for name, kv in runs:
        entry = entries(file)[name]
        found = differences(version, entry, kv, profile_of(entry["config"]))
        if found and (version, name, kv) not in EXCEPTIONS:
            wrong[name, kv] = found
    assert not wrong, f"{len(wrong)} of {len(runs)}: {dict(list(wrong.items())[:5])}"


@needs_shared
@pytest.mark.wide
def test_refusals_of_the_config_classes_are_ours_too() -> None:
    """Entries that vLLM refused before it planned, for a reason that a plan can know."""
    from calc.plan import Plan
    from calc.predict import predict

    refused = {"gpt2-xl": "tp", "falcon-7b": "tp", "bloom": "kv_dtype", "bloom-7b1": "kv_dtype"}
    seen = set()
    for entry in entries(FILES["0.33"]).values():
        word = next((w for w in refused if entry["config"].endswith(w)), None)
        for kv, dtype in (("kv_auto", "auto"), ("kv_fp8", "fp8")):
            error = (entry.get(kv) or {}).get("error", "")
            if word is None or ("divisible" not in error and "fp8" not in error):
                continue
            plan = Plan(
                engine="vllm@0.33",
                card="h100-80gb",
                tensor_parallel_size=entry["tp"],
                kv_cache_dtype=dtype,
                kv_cache_memory_bytes=2**35,
                weights_gb=1,
            )
            prediction = predict(profile_of(entry["config"]), plan)
            assert prediction.verdict == "FAIL", entry["config"]
            assert refused[word] in {r.kind for r in prediction.reasons}
            seen.add(word)
    assert seen == set(refused)


@needs_shared
@pytest.mark.wide
@pytest.mark.parametrize(
    ("config", "block", "blocks", "tokens"),
    [
        ("nvidia__NVIDIA-Nemotron-Nano-9B-v2", 1408, 94, 324_368),
        ("ai21labs__Jamba-v0.1", 2048, 128, 327_680),
        ("tiiuae__Falcon-H1-34B-Instruct", 1280, 205, None),
    ],
)
def test_a_state_for_every_block(config: str, block: int, blocks: int, tokens: int | None) -> None:
    """0.25.1 with prefix caching on, 40 GiB: mode `all` makes the states grow (vllm_rules_older.md 4)."""
    from calc.plan import Plan
    from calc.predict import predict

    plan = Plan(
        engine="vllm@0.25.1",
        card="h100-80gb",
        kv_cache_memory_bytes=40 * 2**30,
        weights_gb=1,
        enable_prefix_caching=True,
    )
    prediction = predict(profile_of(config), plan)
    assert prediction.cache.pool.extra["attention_block_size"] == block
    assert {g.num_blocks_per_request for g in prediction.cache.pool.groups} == {blocks}
    if tokens is None:
        assert "memory" in {r.kind for r in prediction.reasons}
    else:
        assert prediction.cache.pool.tokens == tokens
