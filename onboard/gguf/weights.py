"""The tensors of a GGUF file as groups that are placed alike, and the variant they make.

Names: llama.cpp 0c1e57098 src/llama-arch.cpp LLM_TENSOR_NAMES. `--cpu-moe` moves what `experts` names
(`ffn_(up|down|gate|gate_up)_(ch|)exps`); shared experts stay with their layer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from onboard.gguf.reader import GgufHeader, TensorInfo
from onboard.gguf.types import BY_NAME
from onboard.profile import TensorGroup, WeightVariant

_BLOCK = re.compile(r"^blk\.(\d+)\.(.*)$")
# first match wins; the rest of a block's tensors are `other`
_ROLES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), role)
    for pattern, role in (
        (r"nextn\.", "other"),
        (r"ffn_(up|down|gate|gate_up)_(ch)?exps", "experts"),
        (r"ffn_(up|down|gate)_shexp", "shared_expert"),
        (r"(ffn_gate_inp|exp_probs)", "router"),
        (r".*norm", "norm"),
        (r"attn_(k|v|k_b|v_b|kv_a_mqa|kv_b)\.", "kv_proj"),
        (r"attn_|indexer", "attention"),
        (r"ffn_", "mlp"),
        (r"(ssm_|shortconv|time_mix|channel_mix)", "state"),
    )
)
_OUTSIDE = {"token_embd.weight": "embedding", "output.weight": "lm_head", "per_layer_token_embd.weight": "embedding"}


def role_of(name: str, num_trunk: int) -> tuple[str, int]:
    """The role of a tensor and its block (-1 outside the stack); draft-head blocks are `mtp.`."""
    match = _BLOCK.match(name)
    if match is None:
        return _OUTSIDE.get(name, "norm" if "norm" in name else "other"), -1
    block, rest = int(match[1]), match[2]
    kind = next((role for pattern, role in _ROLES if pattern.match(rest)), "other")
    return (f"mtp.{kind}" if block >= num_trunk else kind), block


def variant_of(header: GgufHeader, *, name: str, num_trunk: int, where: str) -> WeightVariant:
    """The weights of the file, exact from its tensor list."""
    return WeightVariant(
        name=name,
        num_bytes=header.tensor_bytes,
        origin="headers",
        where=where,
        quantization=_quantization(header.tensors),
        num_parameters=sum(t.num_elements for t in header.tensors),
        groups=_groups(header.tensors, num_trunk),
    )


def _groups(tensors: tuple[TensorInfo, ...], num_trunk: int) -> tuple[TensorGroup, ...]:
    """Layers whose tensors of a role take equal bytes share a group; draft blocks count on from the trunk's last."""
    totals: dict[tuple[str, int, str], list[int]] = defaultdict(lambda: [0, 0])
    for tensor in tensors:
        role, block = role_of(tensor.name, num_trunk)
        held = totals[role, block, tensor.ggml_type]
        held[0] += tensor.num_bytes
        held[1] += tensor.num_elements
    layers: dict[tuple[str, str, int, int], list[int]] = defaultdict(list)
    for (role, block, dtype), (size, elements) in totals.items():
        layers[role, dtype, size, elements].append(block)
    return tuple(
        TensorGroup(
            role=role,
            num_bytes=size,
            num_elements=elements,
            dtype=dtype,
            layers=tuple(sorted(b for b in blocks if b >= 0)),
        )
        for (role, dtype, size, elements), blocks in layers.items()
    )


def _quantization(tensors: tuple[TensorInfo, ...]) -> str | None:
    """The type that most elements have, None where it is not a quantised one."""
    counts: Counter[str] = Counter()
    for tensor in tensors:
        counts[tensor.ggml_type] += tensor.num_elements
    common = counts.most_common(1)
    return common[0][0] if common and BY_NAME[common[0][0]].block > 1 else None
