"""Tensors as stored -> groups that an engine treats alike, cross-checked against the config's geometry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from onboard.errors import WeightsDisagree
from onboard.layers import Heads, SharedWith
from onboard.profile import Profile, TensorGroup
from onboard.values import Struct
from onboard.weights.names import Place, place
from onboard.weights.quant import config_bits, is_aux, split_name, unpacked_elements
from onboard.weights.safetensors_header import Tensor

MTP_NAMES = ("eh_proj", "enorm", "hnorm", "shared_head", "mtp_block", "embed_tokens")


class Geometry(Struct, frozen=True, kw_only=True):
    """What the roles need of the config: counts the rules divide. A zero is "not known"."""

    num_layers: int | None = None
    num_heads: int = 0
    num_kv_heads: Mapping[int, int] | int = 0
    kv_dims: Mapping[int, int] | None = None
    tied_kv_layers: frozenset[int] = frozenset()
    num_experts: int = 0
    vocab_size: int = 0
    tied_embeddings: bool | None = None
    quantization: Mapping[str, Any] | None = None
    whole: frozenset[str] = frozenset()  # parts (`vision`) and kinds (`embedding`) that an engine does not divide

    def kv_heads(self, layer: int) -> int:
        return self.num_kv_heads if isinstance(self.num_kv_heads, int) else self.num_kv_heads.get(layer, 0)


def geometry_of(profile: Profile, quantization: Mapping[str, Any] | None = None) -> Geometry:
    """The counts a profile states."""
    heads: dict[int, Heads] = {}
    for index, layer in enumerate(profile.layers):
        for cache in layer.caches:
            source = profile.layers[cache.layer].caches if isinstance(cache, SharedWith) else (cache,)
            found = next((c for c in source if isinstance(c, Heads)), None)
            if found is not None:
                heads[index] = found
    queries = profile.fact("num_attention_heads")
    return Geometry(
        num_layers=len(profile.layers) or None,
        num_heads=queries if isinstance(queries, int) else 0,
        num_kv_heads={i: h.num_kv_heads for i, h in heads.items()},
        kv_dims={i: h.num_kv_heads * h.k_dim for i, h in heads.items()},
        tied_kv_layers=frozenset(i for i, h in heads.items() if getattr(h, "k_eq_v", False)),
        num_experts=profile.fact("num_experts") or 0,
        vocab_size=profile.fact("vocab_size") or 0,
        tied_embeddings=profile.fact("tie_word_embeddings"),
        quantization=quantization,
        whole=_undivided(profile),
    )


def _undivided(profile: Profile) -> frozenset[str]:
    """What the rules hold whole though its names look divisible: towers of transformers' own modules, and the like."""
    roles = {g.role for v in profile.weights if v.origin == "parameters" for g in v.groups}
    towers = {p for p in ("vision", "audio") if any(r.startswith(f"{p}.") for r in roles)}
    whole = {p for p in towers if f"{p}.attention" not in roles}
    return frozenset(whole | ({"embedding"} if roles and "embedding" not in roles else set()))


def group_tensors(tensors: Iterable[Tensor], geometry: Geometry) -> tuple[TensorGroup, ...]:
    """Groups whose bytes add up to the tensors' exactly. Raises WeightsDisagree where shapes contradict the config."""
    modules: dict[str, dict[str, Tensor]] = {}
    for tensor in tensors:
        module, suffix = split_name(tensor.name)
        modules.setdefault(module, {})[suffix] = tensor
    placed = [(m, place(m, next(iter(parts)), geometry.num_layers), parts) for m, parts in modules.items()]
    _check_layers(placed, geometry)
    own_v = {p.layer for m, p, _ in placed if not p.part and m.rpartition(".")[2] in ("v_proj", "wv", "value")}
    bits = config_bits(geometry.quantization or {})
    sums: dict[tuple[str, int, int], Counter[str]] = {}
    sizes: dict[tuple[str, int, int], Counter[str]] = {}
    for module, where, parts in placed:
        _check_kv(module, where, parts, geometry)
        size = sum(t.num_bytes for t in parts.values())
        elements = sum(unpacked_elements(t, s, bits, parts) for s, t in parts.items())
        for kind, units, num_bytes, num_elements in _shares(module, where, parts, geometry, own_v, size, elements):
            key = (f"{where.part}.{kind}" if where.part else kind, units, where.layer)
            sums.setdefault(key, Counter()).update(bytes=num_bytes, elements=num_elements)
            dtypes = Counter({t.dtype: t.num_bytes for t in parts.values()})
            sizes.setdefault(key, Counter()).update(dtypes)
    flat = [
        TensorGroup(
            role=role, num_bytes=total["bytes"], num_elements=total["elements"], num_units=units,
            dtype=sizes[role, units, layer].most_common(1)[0][0].lower(), layers=(layer,) if layer >= 0 else (),
        )
        for (role, units, layer), total in sums.items()
    ]  # fmt: skip
    return collapse(flat)


def collapse(groups: Iterable[TensorGroup]) -> tuple[TensorGroup, ...]:
    """Groups that differ only in their layer become one, in order of first appearance."""
    merged: dict[tuple[Any, ...], list[int]] = {}
    for group in groups:
        key = (group.role, group.num_bytes, group.num_elements, group.dtype, group.num_units, not group.layers)
        merged.setdefault(key, []).extend(group.layers)
    return tuple(
        TensorGroup(role=r, num_bytes=b, num_elements=e, dtype=d, num_units=u, layers=tuple(sorted(layers)))
        for (r, b, e, d, u, _), layers in merged.items()
    )


def _shares(
    module: str,
    where: Place,
    parts: Mapping[str, Tensor],
    geometry: Geometry,
    own_v: set[int],
    size: int,
    elements: int,
) -> list[tuple[str, int, int, int]]:
    """(kind, units, bytes, elements) of one module; a fused QKV matrix is split by its heads."""
    kind = where.kind
    shape = next((t.shape for s, t in parts.items() if not is_aux(s)), ())
    if where.part in geometry.whole:
        return [("other", 0, size, elements)]
    if where.part in ("vision", "audio", "talker"):
        return [("attention" if kind in ("qkv", "kv_proj", "kv_tied") else kind, 0, size, elements)]
    if kind == "embedding":
        if kind in geometry.whole and not where.part:
            return [("replicated", 0, size, elements)]
        return [(kind, shape[0] if len(shape) == 2 else 0, size, elements)]
    if kind == "lm_head":
        rows = geometry.vocab_size if "weight" not in parts else shape[0]
        return [("tied_copy" if geometry.tied_embeddings and not where.part else kind, rows, size, elements)]
    if kind == "experts":
        return [(kind, shape[0] if len(shape) >= 3 else geometry.num_experts, size, elements)]
    kv = geometry.kv_heads(where.layer)
    if kind == "kv_proj":
        tied = where.layer in geometry.tied_kv_layers and where.layer not in own_v and not where.part
        return [("kv_tied" if tied else kind, kv, size, elements)]
    if kind == "qkv":
        heads = geometry.num_heads + 2 * kv
        if not kv or not geometry.num_heads:
            return [("attention", 0, size, elements)]
        kv_bytes, kv_elements = size * 2 * kv // heads, elements * 2 * kv // heads
        return [("attention", 0, size - kv_bytes, elements - kv_elements), ("kv_proj", kv, kv_bytes, kv_elements)]
    return [(kind, 0, size, elements)]


def _check_layers(placed: list[tuple[str, Place, dict[str, Tensor]]], geometry: Geometry) -> None:
    """As many layers as the config says; more only where they are a draft head's."""
    if geometry.num_layers is None:
        return
    inside = {p.layer for _, p, _ in placed if not p.part and p.layer >= 0}
    beyond = {p.layer for _, p, _ in placed if p.part == "mtp" and p.layer >= geometry.num_layers}
    named = any(p.part == "mtp" and any(n in m for n in MTP_NAMES) for m, p, _ in placed)
    found = max(inside | beyond, default=-1) + 1
    if (inside and max(inside) + 1 < geometry.num_layers) or (beyond and not named):
        raise WeightsDisagree(
            f"the tensors have {found} layers, the config says {geometry.num_layers}",
            path="num_hidden_layers",
            value=geometry.num_layers,
            hint="the config belongs to another checkpoint, or a class default stands in",
        )


def _check_kv(module: str, where: Place, parts: Mapping[str, Tensor], geometry: Geometry) -> None:
    """A plain K projection has one row for each element of a cached key (Conv1D checkpoints store it transposed)."""
    wanted = (geometry.kv_dims or {}).get(where.layer)
    weight = parts.get("weight")
    if wanted is None or where.part or weight is None or not module.endswith("self_attn.k_proj") or len(parts) > 2:
        return
    if len(weight.shape) == 2 and weight.dtype in ("BF16", "F16", "F32") and wanted not in weight.shape:
        raise WeightsDisagree(
            f"{module} is {list(weight.shape)}, the config says {wanted} key elements in layer {where.layer}",
            path=module,
            value=list(weight.shape),
            hint="the config belongs to another checkpoint",
        )
