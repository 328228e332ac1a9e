"""KV formats: a rule on one head of one token, and where it may be used. A new format is one entry.

Bytes are for K and V of one head and one token, given their widths. Sources: vLLM 0.33
v1/attention/backends/triton_attn.py:308, utils/torch_utils.py:542, v1/attention/backends/turboquant_attn.py:141;
ggml block sizes from gguf-py quants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onboard.errors import UnknownKvFormat


@dataclass(frozen=True, slots=True)
class KvFormat:
    """`bytes_of(k_dim, v_dim)` of one head and token; `engines` that have it; `bits` for display.

    `min_capability` is the CUDA capability its kernels need; `exempt_ends` the number of attention layers at either
    end that stay at the model's dtype on dense models (TurboQuant).
    """

    name: str
    bytes_of: Callable[[int, int], int]
    engines: frozenset[str]
    min_capability: tuple[int, int] = (0, 0)
    exempt_ends: int = 0
    element_bits: int = 16


def _per_element(num: int, den: int = 1) -> Callable[[int, int], int]:
    return lambda k, v: (k + v) * num // den


def _even(n: int) -> int:
    return n + n % 2


_VLLM, _GGML, _SGL = frozenset({"vllm"}), frozenset({"llamacpp"}), frozenset({"sglang"})

FORMATS: dict[str, KvFormat] = {
    f.name: f
    for f in (
        KvFormat("bf16", _per_element(2), _VLLM | _GGML | _SGL),
        KvFormat("fp16", _per_element(2), _VLLM | _GGML | _SGL),
        KvFormat("f32", _per_element(4), _GGML, element_bits=32),
        KvFormat("fp8_e4m3", _per_element(1), _VLLM | _SGL, (8, 9), element_bits=8),
        KvFormat("fp8_e5m2", _per_element(1), _VLLM | _SGL, (8, 0), element_bits=8),
        KvFormat("int8_per_token_head", lambda k, v: k + v + 8, _VLLM, (8, 0), element_bits=8),
        KvFormat("fp8_per_token_head", lambda k, v: k + v + 8, _VLLM, (8, 9), element_bits=8),
        KvFormat("int4_per_token_head", lambda k, v: (k + v) // 2 + 8, _VLLM, (8, 0), element_bits=4),
        KvFormat("nvfp4", lambda k, v: k // 2 + k // 16 + v // 2 + v // 16, _VLLM | _SGL, (10, 0), element_bits=4),
        KvFormat("fp4_mx_block16", lambda k, v: k // 2 + k // 16 + v // 2 + v // 16, _SGL, element_bits=4),
        KvFormat("mxfp8", lambda k, v: k + v + k // 32 + v // 32, _SGL, element_bits=8),
        KvFormat("nvfp4_4over6", lambda k, v: k // 2 + k // 16 + v // 2 + v // 16, _VLLM, (10, 0), element_bits=4),
        KvFormat("turboquant_k8v4", lambda k, v: _even(k + -(-v // 2) + 4), _VLLM, (8, 0), exempt_ends=2, element_bits=6),
        KvFormat("turboquant_4bit_nc", lambda k, v: _even(k // 2 + 2 + v // 2 + 4), _VLLM, (8, 0), exempt_ends=2, element_bits=4),
        KvFormat("turboquant_k3v4_nc", lambda k, v: _even(k * 3 // 8 + 2 + v // 2 + 4), _VLLM, (8, 0), exempt_ends=2, element_bits=4),
        KvFormat("turboquant_3bit_nc", lambda k, v: _even(k * 3 // 8 + 2 + v * 3 // 8 + 4), _VLLM, (8, 0), exempt_ends=2, element_bits=3),
        KvFormat("q8_0", _per_element(34, 32), _GGML, element_bits=8),
        KvFormat("q5_1", _per_element(24, 32), _GGML, element_bits=6),
        KvFormat("q5_0", _per_element(22, 32), _GGML, element_bits=5),
        KvFormat("q4_1", _per_element(20, 32), _GGML, element_bits=5),
        KvFormat("q4_0", _per_element(18, 32), _GGML, element_bits=4),
        KvFormat("iq4_nl", _per_element(18, 32), _GGML, element_bits=4),
    )
}

ALIASES: dict[str, str] = {
    "bfloat16": "bf16", "float16": "fp16", "f16": "fp16", "half": "fp16", "float32": "f32",
    "fp8": "fp8_e4m3", "fp8_e4m3fn": "fp8_e4m3", "k8v4": "turboquant_k8v4", "tq3": "turboquant_3bit_nc",
    "fp4_e2m1": "fp4_mx_block16", "int8": "int8_per_token_head",
}  # fmt: skip


def kv_format(name: str) -> KvFormat:
    """The format of that name or alias. Raises UnknownKvFormat with the known names."""
    key = ALIASES.get(name.lower(), name.lower())
    if key not in FORMATS:
        raise UnknownKvFormat(f"no KV format is called {name!r}", path="--kv-cache-dtype", value=name, hint="one of auto, " + ", ".join(FORMATS))
    return FORMATS[key]


def formats_of(engine: str) -> tuple[KvFormat, ...]:
    """The formats an engine has, widest first, one of those that are alike in bytes and width."""
    key = {"llama.cpp": "llamacpp", "llama-cpp": "llamacpp"}.get(engine, engine)
    mine = [f for f in FORMATS.values() if key in f.engines and f.name not in ("fp16", "f32")]
    return tuple(sorted(mine, key=lambda f: -f.bytes_of(128, 128)))
