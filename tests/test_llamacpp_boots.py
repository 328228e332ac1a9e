"""Public llama.cpp boots: the cache, recurrent and buffer lines they printed, from each model's own geometry.

Flags that the rows do not state are those under which the figures come out, named beside each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from calc.engines.llamacpp.cache import caches_of, draft_cache
from calc.engines.llamacpp.compute import compute_buffers
from calc.engines.llamacpp.model import model_of
from calc.engines.llamacpp.placement import place
from calc.engines.llamacpp.settings import settings_of
from calc.plan import Plan
from onboard.gguf.converter import context_length
from onboard.gguf.derive import derive_gguf
from onboard.profile import Profile, SourceRef
from tests.shared import SHARED, needs_shared


def model(arch: str, **keys: Any) -> Profile:
    named = {f"{arch}.{k.replace('__', '.')}": v for k, v in keys.items()}
    return derive_gguf({"general.architecture": arch, **named}, model_id=arch, source=SourceRef(kind="gguf", name=arch))


def gpt_oss(layers: int) -> Profile:
    return model(
        "gpt-oss", block_count=layers, context_length=131072, embedding_length=2880, attention__head_count=64,
        attention__head_count_kv=8, attention__key_length=64, attention__value_length=64,
        attention__sliding_window=128, vocab_size=201088,
    )  # fmt: skip


def qwen35(layers: int, *, hidden: int, heads: int, kv_heads: int, values: int, mtp: int = 0) -> Profile:
    return model(
        "qwen35", block_count=layers + mtp, nextn_predict_layers=mtp, context_length=262144, embedding_length=hidden,
        attention__head_count=heads, attention__head_count_kv=kv_heads, attention__key_length=256,
        attention__value_length=256, full_attention_interval=4, ssm__conv_kernel=4, ssm__state_size=128,
        ssm__group_count=16, ssm__time_step_rank=values, ssm__inner_size=values * 128, vocab_size=248320,
        feed_forward_length=12288,
    )  # fmt: skip


GEMMA_4_E4B = model(
    "gemma4", block_count=42, context_length=131072, embedding_length=2560, attention__head_count=8,
    attention__head_count_kv=2, attention__key_length=512, attention__value_length=512, attention__key_length_swa=256,
    attention__value_length_swa=256, attention__sliding_window=512, attention__shared_kv_layers=18,
    attention__sliding_window_pattern=(True, True, True, True, True, False) * 7,
)  # fmt: skip
TRINITY_NANO = model(
    "afmoe", block_count=56, context_length=131072, embedding_length=1024, attention__head_count=8,
    attention__head_count_kv=2, attention__key_length=128, attention__value_length=128, attention__sliding_window=2048,
)  # fmt: skip
LLAMA_70B = model(
    "llama", block_count=80, context_length=131072, embedding_length=8192, feed_forward_length=28672,
    attention__head_count=64, attention__head_count_kv=8, vocab_size=128256,
)  # fmt: skip
PHI_3_MINI = model(
    "phi3", block_count=32, context_length=4096, embedding_length=3072, feed_forward_length=8192,
    attention__head_count=32, attention__head_count_kv=32, vocab_size=32064,
)  # fmt: skip
QWEN3_8B = model(
    "qwen3", block_count=36, context_length=40960, embedding_length=4096, feed_forward_length=12288,
    attention__head_count=32, attention__head_count_kv=8, attention__key_length=128, attention__value_length=128,
    vocab_size=151936,
)  # fmt: skip
LLAMA_1B = model(
    "llama", block_count=16, context_length=131072, embedding_length=2048, feed_forward_length=8192,
    attention__head_count=32, attention__head_count_kv=8, vocab_size=128256,
)  # fmt: skip


@dataclass(frozen=True)
class Boot:
    """A row of boot_logs.yml with the model, the flags found, and which buffer line it tells (None: an older build)."""

    id: str
    profile: Profile
    plan: Mapping[str, Any] = field(default_factory=dict)
    version: tuple[int, int] = (2026, 10)
    buffer_device: int | None = None
    draft: bool = False


BOOTS = (
    Boot("l01", gpt_oss(24), version=(2025, 10)),  # built in the week when window caches were not padded
    Boot("l04", gpt_oss(36), {"swa_full": True}),
    Boot("l08", GEMMA_4_E4B, {"kv_cache_dtype": "q8_0"}),
    Boot("l09", TRINITY_NANO),
    Boot(
        "l12", qwen35(32, hidden=4096, heads=16, kv_heads=4, values=32), {"max_model_len": 135168, "kv_unified": True}
    ),
    Boot(
        "l13",
        qwen35(64, hidden=5120, heads=24, kv_heads=4, values=48, mtp=1),
        {"num_speculative_tokens": 6},
        draft=True,
    ),
    Boot("l16", qwen35(32, hidden=4096, heads=16, kv_heads=4, values=32)),
    Boot("l17", LLAMA_70B, {"flash_attn": "off"}, buffer_device=0),  # over RPC, where pipelines are off too
    Boot("l18", PHI_3_MINI, {"flash_attn": "off"}, buffer_device=0),
    Boot("l19", QWEN3_8B, {"flash_attn": "off"}),
    Boot("l20", LLAMA_1B, {"gpus": 0}),
)
# Buffer lines of older builds, which reserved otherwise: f32 masks, rows of logits for the whole ubatch.
OLDER_BUFFERS = {"l13", "l16", "l19", "l20"}


def rows() -> dict[str, Any]:
    from onboard.yamlio import load

    data = load(SHARED / "evidence" / "boot_logs.yml")
    return {r["id"]: r for r in data["rows"] if r["kind"] == "llama.cpp"}


@needs_shared
def test_every_row_is_told_here() -> None:
    assert set(rows()) == {b.id for b in BOOTS}


@needs_shared
@pytest.mark.parametrize("boot", BOOTS, ids=lambda b: b.id)
def test_printed_lines(boot: Boot) -> None:
    row = rows()[boot.id]
    knobs = {
        "max_model_len": row["ctx"],
        "max_num_seqs": row["parallel"],
        "ubatch_size": row.get("ubatch"),
        **boot.plan,
    }
    loaded = model_of(boot.profile)
    settings = settings_of(
        Plan(engine="llamacpp", **knobs), n_ctx_train=context_length(boot.profile), rollback=loaded.arch.rollback,
        swa_rule=boot.version,
    )  # fmt: skip
    caches = list(caches_of(loaded, settings))
    if boot.draft:
        draft = draft_cache(loaded, settings)
        assert draft is not None
        caches.append(draft)
    held = {(c.cells, c.num_layers, round(c.bytes / 2**20, 2)) for c in caches if not c.slots}
    for line in row["logged"]["caches"]:
        assert (line["cells"], line["layers"], line["size_mib"]) in held
    states = [c for c in caches if c.slots]
    assert [round(c.bytes / 2**20, 2) for c in states] == [
        row["logged"][k] for k in ("recurrent_mib",) if k in row["logged"]
    ]
    if boot.buffer_device is not None:
        buffer = compute_buffers(boot.profile, loaded, settings, place(loaded.num_blocks, settings))[boot.buffer_device]
        assert buffer.bytes / 2**20 == pytest.approx(row["logged"]["compute_buffer_mib"], abs=0.02)
    else:
        assert "compute_buffer_mib" not in row["logged"] or boot.id in OLDER_BUFFERS
