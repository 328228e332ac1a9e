"""Nonsense in any key of a recurrent config ends in a typed refusal or an answer, never in a traceback."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from onboard.derive import derive
from onboard.errors import Refusal
from onboard.profile import SourceRef

DATA = Path(__file__).parent / "data" / "recurrent_families.json"
FAMILIES: dict[str, dict[str, Any]] = {
    row["family"]: row["config"] for row in json.loads(DATA.read_text(encoding="utf-8"))
}
EXTRA: dict[str, dict[str, Any]] = {
    "v4": {
        "model_type": "deepseek_v4", "hidden_size": 84, "num_hidden_layers": 4, "num_attention_heads": 6,
        "head_dim": 22, "num_key_value_heads": 1, "sliding_window": 16, "index_head_dim": 14,
        "compress_ratios": [0, 4, 128, 4, 0],
        "compress_rates": {"compressed_sparse_attention": 4}, "num_nextn_predict_layers": 1,
    },
    "loop": {
        "model_type": "inkling2_loop_text", "hidden_size": 84, "num_hidden_layers": 14, "num_attention_heads": 6,
        "num_key_value_heads": 3, "head_dim": 22, "sliding_window_size": 16, "conv_kernel_size": 5,
        "loop_config": {"core_start": 4, "core_end": 10, "num_passes": 3},
        "mtp_config": {"num_nextn_predict_layers": 1},
    },
    "dory": {
        "model_type": "dory", "hidden_size": 84, "num_hidden_layers": 14, "num_attention_heads": 6,
        "head_dim": 22, "num_key_value_heads": 3, "sliding_window": 16, "n_input_layers": 4,
        "n_output_layers": 4, "n_recurrent_loops": 3,
        "n_recurrent_layers": 6, "recurrent_kv_cache_mode": "per_loop",
    },
    "draft": {"dflash_config": {"mask_token_id": 1}, "architectures": ["x"], "model_type": "llama", "hidden_size": 64},
}  # fmt: skip
CONFIGS = {**FAMILIES, **EXTRA}
ODD = st.sampled_from(
    [
        0, -1, 1, 3, 2**63, 10**30, 1.5, 0.0, -2.0, 1e308, float("inf"), float("nan"), True, False, None, "", "auto",
        "M*",
        "seven", [], [0], [-1], [True], [[1]], [None], ["mamba"], [2**70], [1.5], {}, {"a": 1}, {"head_dim": []},
        {"kda_layers": 3, "full_attn_layers": [1]}, {"kda_layers": "abc", "full_attn_layers": {}},
        {"num_nextn_predict_layers": 2, "local_layer_ids": 5}, {"core_start": [], "core_end": {}, "num_passes": "x"},
    ]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for key in value for p in ((*path, key), *places(value[key], (*path, key)))]
    return []


@st.composite
def broken(draw: st.DrawFn) -> dict[str, Any]:
    config = copy.deepcopy(CONFIGS[draw(st.sampled_from(sorted(CONFIGS)))])
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places(config)))
        place = config
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = copy.deepcopy(draw(ODD))
        if not places(config):
            break
    return config


@settings(max_examples=300, deadline=None)
@given(broken())
@example({**FAMILIES["zamba"], "mamba_expand": float("nan")})
@example({**FAMILIES["jamba"], "mamba_expand": -2.0})
@example({**FAMILIES["xlstm"], "qk_dim_factor": float("inf")})
@example({**FAMILIES["retnet"], "expand_k": 1e308})
@example({**EXTRA["loop"], "mtp_config": {"num_nextn_predict_layers": 2, "local_layer_ids": 5}})
@example({**FAMILIES["kimi_linear counts from one"], "linear_attn_config": {"kda_layers": 3, "full_attn_layers": [1]}})
def test_nonsense_is_refused_not_raised(config: dict[str, Any]) -> None:
    try:
        profile = derive(config, model_id="m", source=SourceRef(kind="file", name="m"))
    except Refusal as refusal:
        assert refusal.message
        return
    json.dumps(profile.to_json())
    states = (
        c for x in profile.layers for c in x.caches if c.kind == "state" and getattr(c, "family", "") != "unknown"
    )
    assert all(size >= 0 for state in states for t in state.tensors() for size in t.shape)  # type: ignore[attr-defined]
