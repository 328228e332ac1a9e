"""Public bug reports on weights, restated as cases: packed tensors, experts, ties, files, adapters, towers."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import pytest

from calc.adapters import adapters_term
from calc.cards import Card
from calc.plan import Plan
from calc.prediction import Resolved, Term
from calc.shard import Split, fullest_stage
from calc.weights import weights_term
from onboard.errors import MissingShard
from onboard.profile import TensorGroup
from onboard.weights.choose import Choice, choose
from onboard.weights.groups import Geometry, group_tensors
from onboard.weights.parameters import active_parameters
from onboard.weights.safetensors_header import Tensor
from onboard.yamlio import load_text
from tests.shared import SHARED, needs_shared
from tests.weights_rule import by_rule, profile_of

AREAS = ("weights-packed", "weights-moe", "weights-tied", "repo-files", "lora", "vision")
BITS = {"I32": 32, "F16": 16, "BF16": 16, "U8": 8, "F8_E4M3": 8, "F32": 32}


@lru_cache(maxsize=1)
def cases() -> dict[str, dict[str, Any]]:
    if not SHARED.is_dir():
        return {}
    listed = load_text((SHARED / "evidence/bug_cases.yml").read_text(encoding="utf-8"), "bug_cases.yml")["cases"]
    return {c["id"]: c for c in listed if c["area"] in AREAS}


def resolved(plan: Plan) -> Resolved:
    card = Card(name="card", vram_bytes=2**40, usable_bytes=2**40)
    return Resolved(plan=plan, engine="vllm", version=(0, 33), version_text="0.33", card=card)


def stored(case: dict[str, Any]) -> list[Tensor]:
    return [
        Tensor(t["name"], t["dtype"], tuple(t["shape"]), prod(t["shape"]) * BITS[t["dtype"]] // 8)
        for t in case["input"]["tensors"]
    ]


def packed(case: dict[str, Any]) -> tuple[int, int]:
    quantization = case["input"].get("config", {}).get("quantization_config")
    groups = group_tensors(stored(case), Geometry(quantization=quantization))
    return sum(g.num_bytes * g.copies for g in groups), sum(g.num_elements * g.copies for g in groups)


def chosen(case: dict[str, Any]) -> Choice:
    import json

    given = case["input"]
    listing = [(f["path"], f["size"]) for f in given["files"]]
    index = given.get("index")
    text = ""
    if index:
        total = {"total_size": index["total_size"]} if "total_size" in index else {}
        text = json.dumps({"metadata": total, "weight_map": {f"t{i}": f for i, f in enumerate(index["files"])}})
        if not any(p.endswith(".index.json") for p, _ in listing):
            listing.append(("model.safetensors.index.json", len(text)))
    return choose(listing, lambda path: text)


@needs_shared
def test_every_case_of_these_areas_is_tested() -> None:
    tested = {name for mark in PACKED + FILES for name in [mark]} | {
        "sglang-pr-32279-missing-shard", "llmfit-230-active-is-not-resident", "aiconfigurator-pr-1390-experts-and-ep",
        "vllm-fit-27-untied-head", "vllm-14450-lora-slots", "tt-xla-6055-vocab-matrix-not-sharded",
    }  # fmt: skip
    assert set(cases()) == tested


PACKED = [
    "llmfit-1045-packed-elements",
    "huggingfacejs-pr-2323-mxfp4-scales",
    "aiconfigurator-pr-391-nvfp4-bytes",
    "trtmc-pr-1115-fp8-block-scales",
]
FILES = [
    "unsloth-pr-11227-original-and-metal-folders",
    "vllm-pr-2480-bin-and-safetensors",
    "unsloth-zoo-pr-900-odd-shard-names",
]


@needs_shared
@pytest.mark.parametrize("name", PACKED)
def test_packed_tensors(name: str) -> None:
    expected = cases()[name]["expected"]
    num_bytes, parameters = packed(cases()[name])
    assert num_bytes == expected["weights_bytes"]
    assert parameters == expected.get("params", parameters)
    if "bits_per_param" in expected:
        assert num_bytes * 8 / parameters == expected["bits_per_param"]


@needs_shared
@pytest.mark.parametrize("name", FILES)
def test_files(name: str) -> None:
    expected = cases()[name]["expected"]
    choice = chosen(cases()[name])
    assert choice.chosen.num_bytes == expected["weights_bytes"]
    aside = [path for path, _ in choice.set_aside]
    assert sorted(aside) == sorted(expected.get("set_aside", aside))
    assert len(aside) == expected.get("set_aside_count", len(aside))


@needs_shared
def test_a_missing_shard_is_named() -> None:
    case = cases()["sglang-pr-32279-missing-shard"]
    with pytest.raises(MissingShard) as refused:
        chosen(case)
    assert all(name in refused.value.message for name in case["expected"]["names"])


@needs_shared
def test_every_expert_is_resident() -> None:
    case = cases()["llmfit-230-active-is-not-resident"]
    given = case["input"]
    stated = Plan(weights_gb=given["total_params"] * given["ask"]["bytes_per_param"] / 10**9)
    assert weights_term(profile_of(MOE), resolved(stated)).bytes == case["expected"]["weights_bytes"]
    variant = by_rule(profile_of(MOE))
    fewer = by_rule(profile_of({**MOE, "num_experts_per_tok": 1}))
    assert variant.num_bytes == fewer.num_bytes
    assert active_parameters(variant.groups, 8) < (variant.num_parameters or 0) / 5


@needs_shared
def test_experts_over_cards() -> None:
    case = cases()["aiconfigurator-pr-1390-experts-and-ep"]
    experts, rest = case["input"]["tensors"]
    groups = (
        TensorGroup(role="experts", num_bytes=experts["bytes"], num_elements=0, dtype="u8", num_units=experts["count"]),
        TensorGroup(role="attention", num_bytes=rest["bytes"], num_elements=0, dtype="u8"),
    )
    assert fullest_stage(groups, Split(tp=8, ep=8), 1) == case["expected"]["weights_bytes_per_card"]
    odd = (TensorGroup(role="experts", num_bytes=1000, num_elements=0, dtype="u8", num_units=10),)
    assert fullest_stage(odd, Split(tp=4, ep=4), 1) == 300  # three of ten experts on the fullest card


@needs_shared
def test_ties_by_family() -> None:
    case = cases()["vllm-fit-27-untied-head"]
    for variant, expected in zip(case["input"]["variants"], case["expected"]["variants"], strict=True):
        groups = by_rule(profile_of({**variant["config"], "torch_dtype": "bfloat16"})).groups
        size = sum(g.num_bytes for g in groups if g.kind in ("embedding", "lm_head"))
        assert size == expected["embedding_bytes"]


@needs_shared
def test_adapter_slots() -> None:
    case = cases()["vllm-14450-lora-slots"]
    term = lora(case["input"]["config"], max_loras=4, max_lora_rank=64)
    assert term.bytes == case["expected"]["lora_bytes"]
    assert lora(case["input"]["config"], max_loras=1, max_lora_rank=64).bytes == case["expected"]["lora_bytes_per_slot"]


@needs_shared
def test_what_stays_whole() -> None:
    case = cases()["tt-xla-6055-vocab-matrix-not-sharded"]
    head, tower, rest = case["input"]["tensors"]
    size = 2 * prod(head["shape"])
    assert size == case["expected"]["lm_head_bytes"]
    groups = (
        TensorGroup(role="replicated", num_bytes=size, num_elements=size // 2, dtype="bf16"),
        TensorGroup(role="vision.other", num_bytes=tower["bytes"], num_elements=0, dtype="bf16"),
        TensorGroup(role="mlp", num_bytes=rest["bytes"], num_elements=0, dtype="bf16"),
    )
    assert fullest_stage(groups, Split(tp=8), 1) == case["expected"]["weights_bytes_per_card"]


def lora(config: dict[str, Any], **knobs: int) -> Term:
    full = {"model_type": "llama", "vocab_size": 128256, "max_position_embeddings": 8192, "dtype": "bfloat16", **config}
    term = adapters_term(profile_of(full), resolved(Plan(**knobs)))
    assert term is not None
    return term


MOE: dict[str, Any] = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 4, "hidden_size": 2048,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "vocab_size": 1024, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip


def test_adapters_over_cards() -> None:
    """TP divides one side of each module, so a card's share is more than its part."""
    config = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
              "intermediate_size": 14336}  # fmt: skip
    one = lora(config, max_loras=1, max_lora_rank=16).bytes
    two = lora(config, max_loras=1, max_lora_rank=16, tensor_parallel_size=2).bytes
    assert one / 2 < two < one
    assert adapters_term(profile_of({**MOE}), resolved(Plan())) is None
