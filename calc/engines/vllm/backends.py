"""The block that an attention backend starts from, by card, format and release.

Sources: vLLM 0.33 platforms/cuda.py:60 (priorities), v1/attention/backends/*.py get_supported_kernel_block_sizes and
get_preferred_block_size, layers/mamba/gdn/qwen_gdn_linear_attn.py:148; 0.12.0 models/config.py:349.
"""

from __future__ import annotations

from calc.engines.vllm.kv_dtype import KvDtype
from calc.engines.vllm.shape import Shape
from calc.engines.vllm.versions import Rules
from onboard.values import Struct

DEFAULT_BLOCK = 16
#: Multimodal classes whose image tokens attend both ways; on SM 10.x they get a composite backend of 64-token blocks.
MM_PREFIX = frozenset(
    {
        "Gemma3ForConditionalGeneration",
        "Gemma4ForConditionalGeneration",
        "PaliGemmaForConditionalGeneration",
    }
)


#: Classes whose own KDA kernel exports a state inside a prefill, as Mamba 2's does.
KDA_CHECKPOINTS = frozenset({"KimiK3ForConditionalGeneration"})


class Backend(Struct, frozen=True):
    """`block` is the default block, `kernel_block` the smallest one the kernel takes."""

    block: int
    kernel_block: int


def backend_of(shape: Shape, kv: KvDtype, rules: Rules, capability: tuple[int, int]) -> Backend:
    """The default block of the backend that this card would run."""
    major = capability[0]
    if shape.compressed:
        return Backend(256, 64)
    if shape.sparse:
        return Backend(64, 64)
    if shape.latent:
        return _latent_backend(kv, rules, major)
    if major in (0, 9) and kv.name == "fp8_e4m3" and max(shape.head_dims, default=0) == 512:
        return Backend(rules.hopper_fp8_head_512_block, rules.hopper_fp8_head_512_block)
    if major == 10 and shape.architecture in MM_PREFIX:
        return Backend(rules.mm_prefix_blackwell_block, rules.mm_prefix_blackwell_block)
    return Backend(DEFAULT_BLOCK, DEFAULT_BLOCK)


def _latent_backend(kv: KvDtype, rules: Rules, major: int) -> Backend:
    if major == 9:
        block = 64 if kv.quantised else rules.mla_hopper_auto_block
        return Backend(block, block)
    if major == 10:
        return Backend(rules.mla_blackwell_block, rules.mla_blackwell_block)
    return Backend(DEFAULT_BLOCK, DEFAULT_BLOCK)


def hybrid_kernel_block(shape: Shape, backend: Backend, rules: Rules, capability: tuple[int, int]) -> int:
    """What an enlarged attention block must be a multiple of, before the state's own alignment."""
    if rules.hybrid_kernel_block == "backend":
        return max(backend.kernel_block, rules.mla_hybrid_floor if shape.latent else 0)
    if rules.hybrid_kernel_block == "16":
        return 16
    if shape.latent:
        return 128 if capability[0] == 10 and rules.mla_blackwell_block == 128 else 64
    return 32 if rules.hybrid_kernel_block == "config" and capability[0] == 10 and 256 in shape.head_dims else 16


def gdn_checkpoints(shape: Shape, rules: Rules, capability: tuple[int, int]) -> bool:
    """Whether FlashInfer's GDN prefill runs, which exports states inside a prefill (SM 9.0; SM 10, 12 with k 128)."""
    if not rules.checkpoint_block_gdn or not shape.gated_delta_k_dims:
        return False
    return capability == (9, 0) or (capability[0] in (10, 12) and shape.gated_delta_k_dims == {128})
