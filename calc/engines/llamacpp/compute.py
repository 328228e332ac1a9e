"""Compute buffers: what the graph of one full ubatch at full context needs, on each device and on the host.

Source: llama.cpp 0c1e57098 src/llama-context.cpp:670 (what is reserved), :430 (pipeline parallelism).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from calc.engines.llamacpp.cache import window_cells
from calc.engines.llamacpp.estimate import Buffer, estimated_buffers
from calc.engines.llamacpp.graph.condense import CUTS, KEPT, KEPT_IN_PIPELINES, condensed
from calc.engines.llamacpp.graph.dense import INPUT, OUTPUT, LayerShape, Shape, dense_graph
from calc.engines.llamacpp.graph.recipes import RECIPES, Recipe
from calc.engines.llamacpp.graph.schedule import buffers
from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.placement import HOST, Placement
from calc.engines.llamacpp.settings import Settings
from calc.engines.llamacpp.types import cache_type, is_quantised
from calc.memo import remembered
from onboard.layers import ChunkedAttention, FullAttention, Layer, SharedWith, WindowAttention
from onboard.profile import Profile
from onboard.values import replace


def output_bytes(profile: Profile, settings: Settings) -> int:
    """Rows of logits on the host, one a slot at start (llama-context.cpp:2116)."""
    return 4 * _count(profile, "vocab_size") * settings.n_seq_max


def compute_buffers(profile: Profile, model: LlamaModel, settings: Settings, placement: Placement) -> dict[int, Buffer]:
    """Exact from the graph where the architecture's is known and dense, else an estimate with its interval."""
    recipe = RECIPES.get(model.name)
    uneven = not all(layer.caches for layer in model.layers)  # blocks without attention are not in these graphs
    if recipe is None or uneven or _count(profile, "num_experts") or not _count(profile, "hidden_size"):
        return estimated_buffers(profile, model, settings, placement)
    pipeline = settings.gpus > 1 and placement.all_offloaded() and settings.offload_kqv
    sizes = _peaks(shape_of(profile, model, settings), recipe, placement, pipeline)
    graph = f"{model.name} graph for {settings.n_ubatch:,} tokens at {settings.n_ctx_seq:,} cells"
    rule = f"; the peak of the {graph}, replayed as ggml's allocator places it: no line of arithmetic"
    return {device: Buffer(size, size, size, rule) for device, size in sizes.items()}


@lru_cache(maxsize=128)
def _peaks(shape: Shape, recipe: Recipe, placement: Placement, pipeline: bool) -> dict[int, int]:
    """A prediction asks for the same graph several times."""
    keys = [(layer, placement.layers[i], i < shape.deepstack) for i, layer in enumerate(shape.layers)]
    least = KEPT_IN_PIPELINES if pipeline else KEPT
    found = [_peaks_of(shape, recipe, placement, pipeline, condensed(keys, dropped, least)) for dropped in CUTS]
    if found[0] == found[1]:
        return found[0]
    return _peaks_of(shape, recipe, placement, pipeline, tuple(range(len(keys))))


def _peaks_of(
    shape: Shape, recipe: Recipe, placement: Placement, pipeline: bool, kept: tuple[int, ...]
) -> dict[int, int]:
    """Peaks of the graph with these layers alone."""
    fewer = replace(
        shape, layers=tuple(shape.layers[i] for i in kept), deepstack=sum(i < shape.deepstack for i in kept)
    )
    placed = replace(placement, layers=tuple(placement.layers[i] for i in kept))
    return buffers(dense_graph(fewer, recipe), device_of(placed), placed.devices, pipeline=pipeline)


def shape_of(profile: Profile, model: LlamaModel, settings: Settings) -> Shape:
    """Widths and batch of the graph. MLP widths are the config's, the same for every layer."""
    layers = remembered(profile, ("layer shapes", model.name), lambda: _layer_shapes(profile, model))
    k, v = cache_type(settings.type_k), cache_type(settings.type_v)
    v_head = max(model.v_widths, default=0)
    tokens = -(-min(settings.n_ctx, settings.n_ubatch) // settings.n_seq_max) * settings.n_seq_max
    return Shape(
        hidden=_count(profile, "hidden_size"),
        vocab=_count(profile, "vocab_size"),
        layers=layers,
        cells=settings.n_ctx_seq,
        window_cells=window_cells(model, settings),
        tokens=tokens,
        outputs=min(tokens, settings.n_outputs),
        flash_attn=settings.flash_attn,
        widest_v=model.widest_v,
        deepstack=_count(profile, "num_deepstack_layers"),
        num_deep=_count(profile, "num_deepstack_layers"),
        per_layer=_count(profile, "per_layer_input"),
        per_layer_total=_count(profile, "per_layer_input") * len(layers),
        fused_qkv=bool(profile.fact("fused_qkv")),
        cast=k is not None and k.name == "f32",
        k_rotation=_rotation(_k_head(model, False)) if k is not None and is_quantised(k) else 0,
        window_k_rotation=_rotation(_k_head(model, True)) if k is not None and is_quantised(k) else 0,
        v_rotation=64 if v is not None and is_quantised(v) and v_head % 64 == 0 else 0,
    )


def _layer_shapes(profile: Profile, model: LlamaModel) -> tuple[LayerShape, ...]:
    return tuple(_layer_shape(profile, model, layer) for layer in model.layers)


def _k_head(model: LlamaModel, window: bool) -> int:
    """Head size of the layers of one kind, 0 where there are none or they differ: those are not rotated."""
    kinds = (WindowAttention, ChunkedAttention) if window else (FullAttention,)
    found = {c.k_dim for layer in model.layers for c in layer.caches if isinstance(c, kinds)}
    return found.pop() if len(found) == 1 else 0


def _rotation(head: int) -> int:
    """The largest power of two from 64 on that divides the head size; 0 where 64 does not."""
    if not head or head % 64:
        return 0
    size = 64
    while head % (2 * size) == 0:
        size *= 2
    return size


def _layer_shape(profile: Profile, model: LlamaModel, layer: Layer) -> LayerShape:
    heads, owner, caches = _count(profile, "num_attention_heads"), True, layer.caches
    for cache in layer.caches:
        if isinstance(cache, SharedWith):
            caches, owner = model.layers[cache.layer].caches, False
    spec = next((c for c in caches if isinstance(c, (FullAttention, WindowAttention, ChunkedAttention))), None)
    mlp = _count(profile, "intermediate_size")
    if spec is None:
        return LayerShape(0, 0, 0, heads, False, False, mlp, 0)
    windowed = not isinstance(spec, FullAttention) and model.window > 0
    k, v = spec.num_kv_heads * spec.k_dim, spec.num_kv_heads * spec.v_dim
    return LayerShape(heads * spec.k_dim, k, v, heads, windowed, owner, mlp, heads * spec.v_dim)


def device_of(placement: Placement) -> Callable[[int], int]:
    """The device of a block, of the output (OUTPUT) or of the token table (INPUT)."""

    def device(layer: int) -> int:
        if layer == INPUT:
            return HOST
        return placement.output if layer == OUTPUT else placement.layers[layer]

    return device


def _count(profile: Profile, name: str) -> int:
    value: Any = profile.fact(name) or 0
    return int(max(value)) if isinstance(value, (tuple, list)) else int(value)
