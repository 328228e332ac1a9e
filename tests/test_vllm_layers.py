"""Layers, heads and sizes against what vLLM 0.33 planned for the corpus (../shared/conformance/vllm_kv_spec.json)."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import Any

import pytest

from onboard.layers import (
    ChunkedAttention,
    Compressed,
    CrossAttention,
    FullAttention,
    Heads,
    Indexer,
    LatentAttention,
    WindowAttention,
)
from onboard.profile import Profile
from onboard.tp import valid_tp
from tests.deriving import profile_of
from tests.shared import SHARED, needs_shared

pytestmark = [needs_shared, pytest.mark.wide]
INDEX_BYTES = 132  # 128 keys and their scale: the indexer's own spec

# Windows that the engine keeps one token longer than the config states (vLLM 0.33 models/commandr.py:237).
WINDOWS = {"CohereLabs__c4ai-command-a-03-2025", "CohereLabs__c4ai-command-r7b-12-2024"}
# DeepSeek-V4 keeps compressor rings as windows of their own; test_states compares that class.
COMPRESSED = ("DeepseekV4ForCausalLM",)
LENGTHS = {
    "microsoft__Phi-3.5-MoE-instruct": "LongRoPE: the engine starts at the original length, a fact of its own",
    "mistralai__Mamba-Codestral-7B-v0.1": "no length is stated; the engine assumes 2048",
    "state-spaces__mamba-2.8b-hf": "no length is stated; the engine assumes 2048",
    "tiiuae__falcon-mamba-7b-instruct": "no length is stated; the engine assumes 2048",
}


@lru_cache(maxsize=1)
def entries() -> dict[str, tuple[dict[str, Any], dict[str, Any], Profile]]:
    """Entries of full trust at TP 1, their twin at TP 2, and the derived profile."""
    path = SHARED / "conformance" / "vllm_kv_spec.json"
    if not path.is_file():
        return {}
    results = json.loads(path.read_text())["results"]
    found = {}
    for entry in results.values():
        if entry["tp"] != 1 or "error" in entry["kv_auto"] or entry["generic_config_class"]:
            continue
        config = json.loads((SHARED / "corpus" / entry["config"] / "config.json").read_text())
        found[entry["config"]] = (entry, results[f"{entry['config']}@tp2"], profile_of(config))
    return found


def _planned(entry: dict[str, Any], name: str) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for spec in entry["kv_auto"]["spec_types"]:
        kind, shape = spec["type"], (spec.get("num_kv_heads"), spec.get("head_size"), spec.get("head_size_v"))
        if kind == "MLAAttentionSpec":
            key: Any = ("indexer",) if spec["head_size"] == INDEX_BYTES else ("latent", spec["head_size"])
        elif kind == "SlidingWindowSpec":
            key = ("window", *shape, spec["sliding_window"] - (name in WINDOWS))
        elif kind == "ChunkedLocalAttentionSpec":
            key = ("chunked", *shape, spec["attention_chunk_size"])
        else:
            key = {
                "MambaSpec": ("state",),
                "FullAttentionSpec": ("full", *shape),
                "CrossAttentionSpec": ("cross", *shape),
            }[kind]
        counts[key] += spec["layers"]
    return counts


def _derived(profile: Profile) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for layer in profile.layers:
        for spec in layer.caches:
            shape = (spec.num_kv_heads, spec.k_dim, spec.v_dim) if isinstance(spec, Heads) else ()
            if isinstance(spec, WindowAttention):
                counts[("window", *shape, spec.window)] += 1
            elif isinstance(spec, ChunkedAttention):
                counts[("chunked", *shape, spec.chunk)] += 1
            elif isinstance(spec, (FullAttention, CrossAttention)):
                counts[(spec.kind, *shape)] += 1
            elif isinstance(spec, LatentAttention):
                counts[("latent", spec.elements_per_token())] += 1
            elif isinstance(spec, Indexer):
                counts[("indexer",)] += 1
            elif spec.kind == "state":
                counts[("state",)] += 1
    return counts


def test_layers_heads_and_sizes_are_the_planned_ones() -> None:
    assert len(entries()) > 150
    different = {
        name: (_derived(profile), planned)
        for name, (entry, _, profile) in entries().items()
        if entry["architecture"] not in COMPRESSED and _derived(profile) != (planned := _planned(entry, name))
    }
    assert not different


def test_compressed_models_have_one_window_a_layer_and_the_planned_compressed_layers() -> None:
    for entry, _, profile in entries().values():
        if entry["architecture"] in COMPRESSED:
            specs = [s for s in entry["kv_auto"]["spec_types"] if s["type"] == "MLAAttentionSpec"]
            planned = sum(s["layers"] for s in specs if s["head_size"] != INDEX_BYTES)
            assert planned == sum(isinstance(c, Compressed) for x in profile.layers for c in x.caches)
            assert all("window" in x.kinds() for x in profile.layers)


def test_layers_that_share_are_counted_as_the_engine_counts_them() -> None:
    for entry, _, profile in entries().values():
        assert entry["kv_auto"]["kv_shared_layers"] == sum("shared" in x.kinds() for x in profile.layers)


def test_max_model_len_is_the_engine_s() -> None:
    different = {
        name: (profile.fact("max_model_len"), entry["kv_auto"]["max_model_len"])
        for name, (entry, _, profile) in entries().items()
        if name not in LENGTHS and profile.fact("max_model_len") != entry["kv_auto"]["max_model_len"]
    }
    assert not different
    phi = entries()["microsoft__Phi-3.5-MoE-instruct"]
    assert phi[0]["kv_auto"]["max_model_len"] == phi[2].fact("original_max_model_len")


def test_two_cards_are_allowed_where_the_engine_allows_them() -> None:
    for name, (_, twin, profile) in entries().items():
        refused = "error" in twin["kv_auto"]
        assert refused != (2 in valid_tp(profile)), name


def test_a_kv_format_of_the_checkpoint_is_noted_where_the_engine_takes_it() -> None:
    for name, (entry, _, profile) in entries().items():
        if entry["architecture"] not in COMPRESSED:  # these take a format of their own, whatever the checkpoint says
            assert ("kv_bfloat16" in entry) == (profile.fact("kv_cache_scheme") is not None), name
