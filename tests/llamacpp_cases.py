"""llama.cpp's measured cases as plans, and what the engine says of each: caches, devices, buffers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from calc.engines.llamacpp.cache import Cache, caches_of, draft_cache
from calc.engines.llamacpp.model import LlamaModel, model_of
from calc.engines.llamacpp.placement import HOST, Placement, place
from calc.engines.llamacpp.settings import Settings, settings_of
from calc.plan import Plan
from onboard.gguf.converter import context_length
from onboard.gguf.derive import derive_gguf
from onboard.profile import Profile, SourceRef
from tests.shared import SHARED

SMALL = Path(__file__).parent / "data" / "llamacpp" / "cases.json"


class Case(NamedTuple):
    name: str
    model: str
    params: Mapping[str, Any]
    logged: Mapping[str, Any]
    refused: str


@lru_cache(maxsize=2)
def evidence(small: bool = False) -> dict[str, Any]:
    path = SMALL if small else SHARED / "conformance" / "llamacpp_cache.json"
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def cases(small: bool = False) -> Iterator[Case]:
    for name, raw in evidence(small)["cases"].items():
        yield Case(name, raw["model"], raw["params"], raw.get("logged", {}), raw.get("refused", ""))


def metadata(model: Mapping[str, Any]) -> dict[str, Any]:
    """The file's metadata as the reader would give it."""
    return {k: tuple(v) if isinstance(v, list) else v for k, (_, v) in model["metadata"].items()}


@cache
def from_gguf(name: str, small: bool = False) -> Profile:
    raw = metadata(evidence(small)["models"][name])
    return derive_gguf(raw, model_id=name, source=SourceRef(kind="gguf", name=name))


@cache
def from_config(name: str) -> Profile:
    from onboard.derive import derive

    path = SHARED / evidence()["models"][name]["config"]
    return derive(json.loads(path.read_text()), model_id=name, source=SourceRef(kind="folder", name=name))


def plan_of(params: Mapping[str, Any]) -> Plan:
    """The plan whose knobs make these llama_context_params."""
    overridden = params.get("override_cpu", [])
    return Plan(
        engine="llamacpp",
        max_model_len=params["n_ctx"] or None,
        max_num_seqs=params.get("n_seq_max", 1),
        kv_unified=params.get("kv_unified", False),
        batch_size=params.get("n_batch"),
        ubatch_size=params.get("n_ubatch"),
        cache_type_k=params.get("type_k"),
        cache_type_v=params.get("type_v"),
        flash_attn=params.get("flash_attn"),
        swa_full=params.get("swa_full", False),
        n_outputs_max=params.get("n_outputs_max", 0),
        gpus=params["gpus"],
        n_gpu_layers=params.get("n_gpu_layers"),
        tensor_split=tuple(params["tensor_split"]) if params.get("tensor_split") else None,
        no_kv_offload=not params.get("offload_kqv", True),
        num_speculative_tokens=params.get("n_rs_seq"),
        cpu_moe=len(overridden) == 1,
        n_cpu_moe=len(overridden) if len(overridden) > 1 else None,
    )


_LOADED: dict[int, LlamaModel] = {}  # by identity: the profiles above live as long as the tests


def loaded(profile: Profile) -> LlamaModel:
    if id(profile) not in _LOADED:
        _LOADED[id(profile)] = model_of(profile)
    return _LOADED[id(profile)]


class Answer(NamedTuple):
    model: LlamaModel
    settings: Settings
    placement: Placement
    caches: tuple[Cache, ...]


def answer(profile: Profile, params: Mapping[str, Any]) -> Answer:
    model = loaded(profile)
    settings = settings_of(
        plan_of(params), n_ctx_train=context_length(profile), rollback=model.arch.rollback, causal=True
    )
    caches = caches_of(model, settings)
    if params.get("ctx_type"):
        draft = draft_cache(model, settings)
        caches = () if draft is None else (draft,)
    return Answer(model, settings, place(model.num_blocks, settings), caches)


def device(name: str) -> int:
    return int(name.removeprefix("GPU")) if name.startswith("GPU") else HOST
