"""Why llama.cpp would not make this context, in the order it checks.

Source: llama.cpp 0c1e57098 src/llama-context.cpp:3836-3870 (llama_init_from_model), src/llama-cparams.h:8.
"""

from __future__ import annotations

from collections.abc import Iterator

from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.settings import MAX_SEQUENCES, Settings
from calc.engines.llamacpp.types import CACHE_TYPES, cache_type, is_quantised
from calc.prediction import Reason


def refusals(model: LlamaModel, settings: Settings, *, named: bool = True) -> tuple[Reason, ...]:
    """`named` is false where a config's fragment says nothing of its architecture: then none is refused."""
    return (*_architecture(model, named), *_cache_types(model, settings), *_slots(model, settings))


def _architecture(model: LlamaModel, named: bool) -> Iterator[Reason]:
    if not model.name:
        if named:
            yield Reason("architecture", "llama.cpp's converter has no class for this architecture")
    elif not model.known:
        yield Reason("architecture", f"llama.cpp does not load the architecture {model.name!r}")
    for kind in model.unsupported:
        yield Reason("architecture", f"llama.cpp has no memory for {kind} layers")


def _cache_types(model: LlamaModel, settings: Settings) -> Iterator[Reason]:
    kinds = {"K": cache_type(settings.type_k), "V": cache_type(settings.type_v)}
    names = {"K": settings.type_k, "V": settings.type_v}
    for side, kind in kinds.items():
        if kind is None:
            known = ", ".join(CACHE_TYPES)
            yield Reason("kv_dtype", f"llama.cpp keeps no {side} cache in {names[side]}; it has {known}")
    k, v = kinds["K"], kinds["V"]
    if k is None or v is None or model.arch.no_cache:
        return
    if (model.mla or model.arch.streams_per_sequence) and k != v:
        yield Reason("kv_dtype", f"this model does not support different K ({k.name}) and V ({v.name}) cache types")
    flash_attn = settings.flash_attn and not model.arch.no_flash_attn
    if is_quantised(v) and not flash_attn:
        yield Reason("kv_dtype", f"a {v.name} V cache requires flash attention, which is off")
    if not flash_attn:
        return
    for side, kind, widths in (("K", k, model.k_widths), ("V", v, model.v_widths)):
        bad = next((w for w in widths if w % kind.block), None)
        if bad is not None:
            yield Reason(
                "kv_dtype", f"{side} cache type {kind.name}: blocks of {kind.block} do not divide head size {bad}"
            )


def _slots(model: LlamaModel, settings: Settings) -> Iterator[Reason]:
    if settings.n_seq_max > MAX_SEQUENCES:
        yield Reason("slots", f"{settings.n_seq_max} sequences; llama.cpp allows {MAX_SEQUENCES}")
    if settings.unified or settings.n_seq_max == 1:
        return
    if model.arch.split_slots == "never":
        yield Reason("slots", f"{model.name} aborts in its graph with separate slots; give --kv-unified")
    if model.arch.split_slots == "divide" and settings.n_ubatch % settings.n_seq_max:
        yield Reason("slots", f"{model.name} aborts where {settings.n_seq_max} separate slots do not divide the ubatch")
