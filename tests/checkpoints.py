"""Checkpoints with real geometry and no data: tensor names as published, shapes from a config, schemes as stored.

Independent of the rules under test: a model is written out tensor by tensor, as its files list it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tests.hubserver import Sparse

SIZES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1}


@dataclass(frozen=True)
class Stored:
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return SIZES[self.dtype] * prod(self.shape)


def total(tensors: Iterable[Stored]) -> int:
    return sum(t.size for t in tensors)


def bf16(name: str, *shape: int) -> Stored:
    return Stored(name, "BF16", shape)


def attention(config: Mapping[str, Any], prefix: str, qk_norm: bool = False) -> list[Stored]:
    hidden, heads, kv = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    dim = config.get("head_dim") or hidden // heads
    made = [
        bf16(f"{prefix}.q_proj.weight", heads * dim, hidden),
        bf16(f"{prefix}.k_proj.weight", kv * dim, hidden),
        bf16(f"{prefix}.v_proj.weight", kv * dim, hidden),
        bf16(f"{prefix}.o_proj.weight", hidden, heads * dim),
    ]
    return made + [bf16(f"{prefix}.{n}_norm.weight", dim) for n in ("q", "k") if qk_norm]


def gated_mlp(prefix: str, hidden: int, width: int) -> list[Stored]:
    return [
        bf16(f"{prefix}.gate_proj.weight", width, hidden),
        bf16(f"{prefix}.up_proj.weight", width, hidden),
        bf16(f"{prefix}.down_proj.weight", hidden, width),
    ]


def decoder(config: Mapping[str, Any], *, qk_norm: bool = False, root: str = "model") -> list[Stored]:
    """A Llama-shaped stack, with experts where the config counts them."""
    hidden = config["hidden_size"]
    made = [bf16(f"{root}.embed_tokens.weight", config["vocab_size"], hidden)]
    for layer in range(config["num_hidden_layers"]):
        base = f"{root}.layers.{layer}"
        made += attention(config, f"{base}.self_attn", qk_norm)
        made += [bf16(f"{base}.{n}.weight", hidden) for n in ("input_layernorm", "post_attention_layernorm")]
        experts = config.get("num_experts", 0)
        if experts:
            made.append(bf16(f"{base}.mlp.gate.weight", experts, hidden))
            for e in range(experts):
                made += gated_mlp(f"{base}.mlp.experts.{e}", hidden, config["moe_intermediate_size"])
        else:
            made += gated_mlp(f"{base}.mlp", hidden, config["intermediate_size"])
    made.append(bf16(f"{root}.norm.weight", hidden))
    return made if config.get("tie_word_embeddings") else [*made, bf16("lm_head.weight", config["vocab_size"], hidden)]


def packable(tensor: Stored) -> bool:
    """What quantisers pack: the layers' projections, not the router, the norms or what lies outside the stack."""
    return "_proj." in tensor.name and len(tensor.shape) == 2 and tensor.name.startswith("model.")


def fp8(tensors: Iterable[Stored]) -> list[Stored]:
    """128 x 128 blocks with float32 scales."""
    made: list[Stored] = []
    for t in tensors:
        if not packable(t):
            made.append(t)
            continue
        rows, columns = t.shape
        made += [
            Stored(t.name, "F8_E4M3", t.shape),
            Stored(t.name + "_scale_inv", "F32", (-(-rows // 128), -(-columns // 128))),
        ]
    return made


def awq(tensors: Iterable[Stored]) -> list[Stored]:
    made: list[Stored] = []
    for t in tensors:
        if not packable(t):
            made.append(Stored(t.name, "F16", t.shape))
            continue
        (rows, columns), stem = t.shape, t.name.removesuffix(".weight")
        made += [
            Stored(f"{stem}.qweight", "I32", (columns, rows // 8)),
            Stored(f"{stem}.qzeros", "I32", (columns // 128, rows // 8)),
            Stored(f"{stem}.scales", "F16", (columns // 128, rows)),
        ]
    return made


def gptq(tensors: Iterable[Stored], bits: int) -> list[Stored]:
    made: list[Stored] = []
    for t in tensors:
        if not packable(t):
            made.append(Stored(t.name, "F16", t.shape))
            continue
        (rows, columns), stem = t.shape, t.name.removesuffix(".weight")
        made += [
            Stored(f"{stem}.qweight", "I32", (columns * bits // 32, rows)),
            Stored(f"{stem}.qzeros", "I32", (columns // 128, rows * bits // 32)),
            Stored(f"{stem}.scales", "F16", (columns // 128, rows)),
            Stored(f"{stem}.g_idx", "I32", (columns,)),
        ]
    return made


def nvfp4(tensors: Iterable[Stored], modelopt: bool = True) -> list[Stored]:
    made: list[Stored] = []
    for t in tensors:
        if not packable(t):
            made.append(t)
            continue
        (rows, columns), stem = t.shape, t.name.removesuffix(".weight")
        weight, second = ("weight", "weight_scale_2") if modelopt else ("weight_packed", "weight_global_scale")
        made += [
            Stored(f"{stem}.{weight}", "U8", (rows, columns // 2)),
            Stored(f"{stem}.weight_scale", "F8_E4M3", (rows, columns // 16)),
            Stored(f"{stem}.{second}", "F32", (1,)),
            Stored(f"{stem}.input_scale", "F32", (1,)),
        ]
    return made


def qwen_tower(hidden: int, depth: int, width: int, out: int) -> list[Stored]:
    made = [bf16("model.visual.patch_embed.proj.weight", hidden, 3, 2, 16, 16)]
    made += [bf16("model.visual.pos_embed.weight", 2304, hidden)]
    for layer in range(depth):
        base = f"model.visual.blocks.{layer}"
        made += [bf16(f"{base}.attn.qkv.weight", 3 * hidden, hidden), bf16(f"{base}.attn.qkv.bias", 3 * hidden)]
        made += [bf16(f"{base}.attn.proj.weight", hidden, hidden), bf16(f"{base}.attn.proj.bias", hidden)]
        made += [bf16(f"{base}.mlp.linear_fc1.weight", width, hidden), bf16(f"{base}.mlp.linear_fc1.bias", width)]
        made += [bf16(f"{base}.mlp.linear_fc2.weight", hidden, width), bf16(f"{base}.mlp.linear_fc2.bias", hidden)]
        made += [bf16(f"{base}.norm{i}.{k}", hidden) for i in (1, 2) for k in ("weight", "bias")]
    made += [bf16("model.visual.merger.linear_fc1.weight", 4 * hidden, 4 * hidden)]
    return [*made, bf16("model.visual.merger.linear_fc2.weight", out, 4 * hidden)]


# --- files ------------------------------------------------------------------------------------------------------


def header_of(tensors: Iterable[Stored], metadata: bool = True) -> tuple[bytes, int]:
    """The first bytes of a safetensors file, and the file's whole size."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}} if metadata else {}
    at = 0
    for t in tensors:
        entries[t.name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [at, at + t.size]}
        at += t.size
    body = json.dumps(entries).encode()
    body += b" " * (-len(body) % 8)
    return struct.pack("<Q", len(body)) + body, 8 + len(body) + at


def file_of(tensors: Iterable[Stored]) -> Sparse:
    return Sparse(*header_of(tensors))


def sharded(
    tensors: list[Stored], shards: int, name: str = "model-{:05d}-of-{:05d}.safetensors", index: str = "model"
) -> dict[str, bytes | Sparse]:
    """The files of a set in `shards` parts, with its index."""
    parts = [tensors[i::shards] for i in range(shards)]
    names = [name.format(i + 1, shards) for i in range(shards)]
    where = {t.name: n for n, part in zip(names, parts, strict=True) for t in part}
    listed = {"metadata": {"total_size": total(tensors)}, "weight_map": dict(sorted(where.items()))}
    files: dict[str, bytes | Sparse] = {n: file_of(part) for n, part in zip(names, parts, strict=True)}
    files[f"{index}.safetensors.index.json"] = json.dumps(listed).encode()
    return files
