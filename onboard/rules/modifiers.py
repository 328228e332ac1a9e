"""What changes layers that are otherwise finished: cross-layer sharing, and caches beside the attention's own."""

from __future__ import annotations

from onboard.errors import FieldInvalid, LayerCountMismatch
from onboard.facts import Facts, whole
from onboard.layers import CrossAttention, Heads, Indexer, Layer, SharedWith
from onboard.rules.knowledge import READS_TARGET

_SHARING = ("num_kv_shared_layers", "kv_sharing_modes", "kv_source_layers", "cross_layer_attention")


def modify(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Apply every modifier whose field is stated, in order."""
    for modifier in (_shared_tail, _sharing_modes, _source_layers, _cross_layer_groups, _cross_beside):
        layers = modifier(facts, layers)
    _check_sources(facts, layers)
    return layers


def _check_sources(facts: Facts, layers: tuple[Layer, ...]) -> None:
    """A layer reads another's K and V: that layer must own some. A recurrent state is read by its own layer alone:
    where both layers have one (Hymba), each keeps its own.
    """
    for index, layer in enumerate(layers):
        for cache in layer.caches:
            if isinstance(cache, SharedWith):
                kinds = layers[cache.layer].kinds()
                owned = set(kinds) - {"state", "shared", "none"}
                if not owned or ("state" in kinds and "state" not in layer.kinds()):
                    name = next((n for n in _SHARING if facts.get(n)), "num_kv_shared_layers")
                    raise FieldInvalid(
                        f"layer {index} shares the cache of layer {cache.layer}, which keeps no K and V to share",
                        path=facts.path(name), value=str(facts.get(name))[:80],
                    )  # fmt: skip


def _shared_tail(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """`num_kv_shared_layers` n: the last n layers read the last earlier layer of their own kind (Gemma 3n, Gemma 4).

    Where that is all of them, the model reads another model's cache and keeps none (Gemma 4's draft assistant).
    """
    count = facts.get("num_kv_shared_layers") or 0
    if not count:
        return _reads_target(facts, layers) if str(facts.root.get("model_type")) in READS_TARGET else layers
    path = facts.path("num_kv_shared_layers")
    if count > len(layers):
        raise FieldInvalid(f"{path} is more than {len(layers)} layers", path=path, value=count)
    if count == len(layers):
        return _reads_target(facts, layers)
    own = layers[: len(layers) - count]
    source = {layer.kinds(): index for index, layer in enumerate(own)}
    shared = []
    for index in range(len(own), len(layers)):
        if layers[index].kinds() not in source:
            raise FieldInvalid(
                f"layer {index} shares a cache of a kind that no earlier layer has", path=path, value=count
            )
        shared.append(Layer((SharedWith(source[layers[index].kinds()]),)))
    return own + tuple(shared)


def _reads_target(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    said = "every layer reads the target model's cache; on its own this model keeps none"
    facts.caution("reads-target-cache", "num_kv_shared_layers", said)
    return tuple(Layer() for _ in layers)


def _sharing_modes(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """`kv_sharing_modes`: a layer marked "reuse" reads the last earlier layer of its kind that is not."""
    modes = facts.get("kv_sharing_modes")
    if modes is None or "reuse" not in modes:
        return layers
    if len(modes) != len(layers):
        raise LayerCountMismatch(
            f"{len(modes)} sharing modes for {len(layers)} layers",
            path=facts.path("kv_sharing_modes"),
            value=len(modes),
        )
    source: dict[tuple[str, ...], int] = {}
    result = []
    for index, (layer, mode) in enumerate(zip(layers, modes, strict=True)):
        if mode != "reuse":
            source[layer.kinds()] = index
            result.append(layer)
        elif layer.kinds() in source:
            result.append(Layer((SharedWith(source[layer.kinds()]),)))
        else:
            path = f"{facts.path('kv_sharing_modes')}[{index}]"
            raise FieldInvalid(
                f"layer {index} reuses a cache of a kind that no earlier layer has", path=path, value=mode
            )
    return tuple(result)


def _source_layers(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """`kv_source_layers`: whose K and V layer i reads; its own indexer keys stay (Mistral Large 4)."""
    sources = facts.get("kv_source_layers")
    if sources is None:
        return layers
    path = facts.path("kv_source_layers")
    if len(sources) != len(layers):
        raise LayerCountMismatch(f"{len(sources)} KV sources for {len(layers)} layers", path=path, value=len(sources))
    result = []
    for index, layer in enumerate(layers):
        source = whole(sources[index], f"{path}[{index}]", 0, index)
        if source == index:
            result.append(layer)
            continue
        if sources[source] != source:
            raise FieldInvalid(
                f"layer {index} reads layer {source}, which keeps no KV", path=f"{path}[{index}]", value=source
            )
        result.append(Layer((SharedWith(source), *(c for c in layer.caches if isinstance(c, Indexer)))))
    return tuple(result)


def _cross_layer_groups(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """`use_cla` with `cla_share_factor` n: of every n layers the first keeps K and V, the rest read them (Hunyuan)."""
    if not facts.get("cross_layer_attention"):
        return layers
    size = facts.need("cross_layer_share", "says how many layers share one cache")
    return tuple(layer if i % size == 0 else Layer((SharedWith(i - i % size),)) for i, layer in enumerate(layers))


def _cross_beside(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """An encoder-decoder's decoder also keeps K and V of the encoder's tokens, in the shape of its own heads."""
    if not (facts.get("is_encoder_decoder") or facts.get("cross_attention")):
        return layers
    tokens = facts.get("max_encoder_tokens")
    result = []
    for layer in layers:
        own = next((c for c in layer.caches if isinstance(c, Heads) and not isinstance(c, CrossAttention)), None)
        cross = () if own is None else (CrossAttention(own.num_kv_heads, own.k_dim, own.v_dim, tokens),)
        result.append(Layer((*layer.caches, *cross)))
    return tuple(result)
