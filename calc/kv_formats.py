"""KV formats: a rule on one head of one token, and where it may be used. A new format is one entry.

Bytes are for K and V of one head and one token, given their widths, or for one token's latent row. Sources: vLLM 0.33
v1/attention/backends/triton_attn.py:308, utils/torch_utils.py:542, layers/quantization/turboquant/config.py,
layers/attention/mla_attention.py:1386 (packed latents) and :1600 (latents per token and head);
ggml block sizes from gguf-py quants.
"""

from __future__ import annotations

from collections.abc import Callable

from onboard.errors import UnknownKvFormat
from onboard.values import Struct


class KvFormat(Struct, frozen=True):
    """`bytes_of(k_dim, v_dim)` of one head and token; `engines` that have it; `bits` for display.

    `latent_of(latent_dim, rope_dim)` are the bytes of one MLA row, None where no engine stores one in this format;
    `latent_only` formats have no rule for heads. `min_capability` is the CUDA capability its kernels need;
    `exempt_ends` how many attention layers at either end stay at the model's dtype on dense models (TurboQuant).
    """

    name: str
    bytes_of: Callable[[int, int], int]
    engines: frozenset[str]
    min_capability: tuple[int, int] = (0, 0)
    exempt_ends: int = 0
    element_bits: int = 16
    latent_of: Callable[[int, int], int] | None = None
    latent_only: bool = False


def _per_element(num: int, den: int = 1) -> Callable[[int, int], int]:
    return lambda k, v: (k + v) * num // den


def _even(n: int) -> int:
    return n + n % 2


def _bits(elements: int, bits: int) -> int:
    return -(-elements * bits // 8)


def _nvfp4(k: int, v: int) -> int:
    """Half a byte an element, and one fp8 scale for every 16."""
    return k // 2 + k // 16 + v // 2 + v // 16


def _packed_fp8_latent(latent: int, rope: int) -> int:
    """fp8_ds_mla: fp8 latent, an fp32 scale for every 128, bf16 rope (656 bytes for 512 + 64)."""
    return latent + -(-latent // 128) * 4 + 2 * rope


def _packed_nvfp4_latent(latent: int, rope: int) -> int:
    """nvfp4_ds_mla: fp4 latent, an fp8 scale for every 16, fp8 rope (352 bytes for 512 + 64)."""
    return latent // 2 + latent // 16 + rope


_VLLM, _GGML, _SGL = frozenset({"vllm"}), frozenset({"llamacpp"}), frozenset({"sglang"})

FORMATS: dict[str, KvFormat] = {
    f.name: f
    for f in (
        KvFormat("bf16", _per_element(2), _VLLM | _GGML | _SGL, latent_of=_per_element(2)),
        KvFormat("fp16", _per_element(2), _VLLM | _GGML | _SGL, latent_of=_per_element(2)),
        KvFormat("f32", _per_element(4), _GGML, element_bits=32, latent_of=_per_element(4)),
        KvFormat("fp8_e4m3", _per_element(1), _VLLM | _SGL, (8, 9), element_bits=8, latent_of=_per_element(1)),
        KvFormat("fp8_e5m2", _per_element(1), _VLLM | _SGL, (8, 0), element_bits=8, latent_of=_per_element(1)),
        KvFormat(
            "int8_per_token_head",
            lambda k, v: k + v + 8,
            _VLLM,
            (8, 0),
            element_bits=8,
            latent_of=lambda c, r: c + r + 8,
        ),
        KvFormat(
            "fp8_per_token_head",
            lambda k, v: k + v + 8,
            _VLLM,
            (8, 9),
            element_bits=8,
            latent_of=lambda c, r: c + r + 8,
        ),
        KvFormat(
            "int4_per_token_head",
            lambda k, v: k // 2 + v // 2 + 8,
            _VLLM,
            (8, 0),
            element_bits=4,
            latent_of=lambda c, r: (c + r) // 2 + 8,
        ),
        KvFormat("nvfp4", _nvfp4, _VLLM | _SGL, (10, 0), element_bits=4),
        KvFormat("fp4_mx_block16", _nvfp4, _SGL, element_bits=4),
        KvFormat("mxfp8", lambda k, v: k + v + k // 32 + v // 32, _SGL, element_bits=8),
        KvFormat("nvfp4_4over6", _nvfp4, _VLLM, (10, 0), element_bits=4),
        KvFormat(
            "turboquant_k8v4", lambda k, v: _even(k + _bits(v, 4) + 4), _VLLM, (8, 0), exempt_ends=2, element_bits=6
        ),
        KvFormat(
            "turboquant_4bit_nc",
            lambda k, v: _even(_bits(k, 4) + 2 + _bits(v, 4) + 4),
            _VLLM,
            (8, 0),
            exempt_ends=2,
            element_bits=4,
        ),
        KvFormat(
            "turboquant_k3v4_nc",
            lambda k, v: _even(_bits(k, 3) + 2 + _bits(v, 4) + 4),
            _VLLM,
            (8, 0),
            exempt_ends=2,
            element_bits=4,
        ),
        KvFormat(
            "turboquant_3bit_nc",
            lambda k, v: _even(_bits(k, 3) + 2 + _bits(v, 3) + 4),
            _VLLM,
            (8, 0),
            exempt_ends=2,
            element_bits=3,
        ),
        KvFormat(
            "fp8_ds_mla", _per_element(1), _VLLM, (9, 0), element_bits=8, latent_of=_packed_fp8_latent, latent_only=True
        ),
        KvFormat(
            "nvfp4_ds_mla", _nvfp4, _VLLM, (10, 0), element_bits=4, latent_of=_packed_nvfp4_latent, latent_only=True
        ),
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
    "int8": "int8_per_token_head", "fp4_e2m1": "fp4_mx_block16",
}  # fmt: skip


def kv_format(name: str) -> KvFormat:
    """The format of that name or alias. Raises UnknownKvFormat with the known names."""
    key = ALIASES.get(name.lower(), name.lower())
    if key not in FORMATS:
        raise UnknownKvFormat(
            f"no KV format is called {name!r}",
            path="--kv-cache-dtype",
            value=name,
            hint="one of auto, " + ", ".join(FORMATS),
        )
    return FORMATS[key]


def formats_of(engine: str) -> tuple[KvFormat, ...]:
    """The formats an engine has, widest first, one of those that are alike in bytes and width."""
    key = {"llama.cpp": "llamacpp", "llama-cpp": "llamacpp"}.get(engine, engine)
    mine = [f for f in FORMATS.values() if key in f.engines and not f.latent_only and f.name not in ("fp16", "f32")]
    return tuple(sorted(mine, key=lambda f: -f.bytes_of(128, 128)))
