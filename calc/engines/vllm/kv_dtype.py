"""Which KV format vLLM really stores for `--kv-cache-dtype`, and which it refuses.

Sources: vLLM 0.33 config/cache.py (names), utils/torch_utils.py:443 (auto from the checkpoint), models/config.py:74,
:89 (V3.2, GLM-DSA), layers/attention/mla_attention.py:358 (packed latents), v1/attention/backends/ flashinfer.py,
triton_attn.py, turboquant_attn.py, flash_attn.py and mla/ (dtypes and capabilities); 0.11.0 models/config.py:403.
"""

from __future__ import annotations

from calc.engines.vllm.shape import Shape
from calc.engines.vllm.versions import Rules, Version
from calc.kv_formats import FORMATS, KvFormat, kv_format
from calc.prediction import Note, Reason
from onboard.values import Struct

#: The release that first took each name; what is not listed was there in 0.10.
SINCE: dict[str, Version] = {
    "fp8_ds_mla": (0, 11, 0),
    "turboquant_k8v4": (0, 20, 0),
    "turboquant_4bit_nc": (0, 20, 0),
    "turboquant_k3v4_nc": (0, 20, 0),
    "turboquant_3bit_nc": (0, 20, 0),
    "int8_per_token_head": (0, 20, 0),
    "fp8_per_token_head": (0, 20, 0),
    "nvfp4": (0, 20, 0),
    "int4_per_token_head": (0, 25, 0),
    "nvfp4_4over6": (0, 28, 0),
    "nvfp4_ds_mla": (0, 30, 0),
}
#: Model classes whose attention is built without the cache config, so no KV dtype reaches it (models/falcon.py).
IGNORES_KV_DTYPE: dict[str, Version] = {"FalconForCausalLM": (0, 12, 0)}
#: Model classes with ALiBi biases, which FlashAttention 3 cannot combine with an fp8 cache (fa_utils.py).
ALIBI = frozenset({"BloomForCausalLM", "MPTForCausalLM", "BaichuanForCausalLM"})
#: Model classes that turn auto into fp8 on SM 10.x (models/config.py:89).
DSA_FP8 = frozenset({"GlmMoeDsaForCausalLM"})
FLASHINFER_HEADS = frozenset({64, 128, 256})
_QUANTISED_FP8 = ("fp8_e4m3", "fp8_e5m2")
_NVFP4_EVERYWHERE: Version = (0, 33, 0)  # FlashInfer's fa2 path on SM 8, 9, 12
_PER_TOKEN_HEAD = ("int8_per_token_head", "fp8_per_token_head", "int4_per_token_head")


class KvDtype(Struct, frozen=True):
    """`heads` and `latent` are what attention rows and MLA rows store; `name` is vLLM's word for it."""

    name: str
    heads: KvFormat
    latent: KvFormat
    notes: tuple[Note, ...] = ()
    reasons: tuple[Reason, ...] = ()

    @property
    def quantised(self) -> bool:
        return self.name not in ("bf16", "fp16")


def resolve_kv_dtype(shape: Shape, asked: str, rules: Rules, version: Version, capability: tuple[int, int]) -> KvDtype:
    """The format stored for `asked` on a card of this capability ((0, 0) where it is not known)."""
    model = FORMATS["fp16" if shape.dtype == "float16" else "bf16"]
    lowered = asked.strip().lower()
    name, notes, reasons = _meaning(shape, lowered, rules, capability, model.name)
    fmt = kv_format(name)
    if "vllm" not in fmt.engines:
        reason = Reason(
            "kv_dtype", f"vLLM has no KV format {fmt.name}; use fp8, int8_per_token_head or turboquant_3bit_nc"
        )
        return KvDtype(fmt.name, fmt, fmt, notes, (reason,))
    reasons += _refusals(shape, fmt, version, capability)
    heads, latent = fmt, fmt
    if shape.sparse or shape.compressed:
        latent = FORMATS["fp8_ds_mla"] if _packs(shape, name, rules, capability) else fmt
        heads = model if latent.latent_only else fmt
    if _kept_wide(shape, fmt, rules, version):
        heads = model
        notes += (
            Note("kv-dtype", f"{shape.architecture} keeps its KV at {model.name} in this release whatever is asked"),
        )
    notes += _cautions(shape, fmt, capability)
    return KvDtype(latent.name if latent.latent_only else fmt.name, heads, latent, notes, reasons)


def _meaning(
    shape: Shape, asked: str, rules: Rules, capability: tuple[int, int], model: str
) -> tuple[str, tuple[Note, ...], tuple[Reason, ...]]:
    """The name behind `auto`: the checkpoint's own scheme, a model class's hook, else the model's dtype."""
    declared = shape.declared_kv_dtype
    if asked != "auto":
        if declared and rules.declared_kv_wins and shape.quantization == "compressed-tensors":
            note = Note("kv-dtype", f"the checkpoint's declared {declared} overrides --kv-cache-dtype in this release")
            return declared, (note,), ()
        return asked, (), ()
    if declared and shape.quantization.startswith(rules.declared_kv):
        note = Note("kv-dtype", f"--kv-cache-dtype auto is {declared}: the checkpoint's quantisation declares it")
        return declared, (note,), ()
    if shape.compressed:
        if rules.compressed_auto_is_fp8:
            return "fp8_ds_mla", (Note("kv-dtype", "--kv-cache-dtype auto is fp8_ds_mla for compressed latents"),), ()
        return "fp8", (), (Reason("kv_dtype", "this release stops with auto here: give --kv-cache-dtype fp8"),)
    if shape.architecture in DSA_FP8 and rules.dsa_fp8_on_blackwell and capability[0] == 10:
        return "fp8_e4m3", (Note("kv-dtype", "--kv-cache-dtype auto is fp8 for this model class on SM 10.x"),), ()
    if shape.sparse and (rules.sparse_auto != "bf16" or (capability[0] == 12 and rules.sparse_auto_packed_on_sm120)):
        return "fp8_ds_mla", (Note("kv-dtype", "--kv-cache-dtype auto is fp8_ds_mla for sparse latents here"),), ()
    return model, (), ()


def _packs(shape: Shape, name: str, rules: Rules, capability: tuple[int, int]) -> bool:
    """Whether a sparse latent asked for as fp8 is stored in DeepSeek's packed rows."""
    if name == "fp8_ds_mla" or (shape.compressed and name.startswith("fp8")):
        return True
    if not shape.sparse or not name.startswith("fp8"):
        return False
    if capability[0] == 10:
        return not rules.sparse_fp8_plain_on_blackwell
    if capability[0] in (9, 0) and name == "fp8_e4m3":
        return not rules.sparse_fp8_e4m3_plain_on_hopper
    return True


def _kept_wide(shape: Shape, fmt: KvFormat, rules: Rules, version: Version) -> bool:
    ignores = shape.architecture in IGNORES_KV_DTYPE and version >= IGNORES_KV_DTYPE[shape.architecture]
    uneven = shape.uneven_heads and fmt.name in _QUANTISED_FP8 and not rules.diffkv_fp8
    return fmt.element_bits < 16 and (ignores or uneven)


def _refusals(shape: Shape, fmt: KvFormat, version: Version, capability: tuple[int, int]) -> tuple[Reason, ...]:
    found: list[str] = []
    since = SINCE.get(fmt.name)
    if since and version < since:
        found.append(f"vLLM has {fmt.name} since {since[0]}.{since[1]}; this is an older release")
    if shape.compressed and fmt.element_bits == 16:
        found.append("compressed latents are stored as fp8_ds_mla only; use --kv-cache-dtype fp8")
    elif shape.latent and not shape.compressed:
        if fmt.latent_only and not shape.sparse:
            found.append(f"{fmt.name} is for sparse latents; dense MLA has no backend for it, use fp8")
        elif fmt.latent_of is None or fmt.name in _PER_TOKEN_HEAD or fmt.name == "fp8_e5m2":
            found.append(f"no MLA backend stores {fmt.name}; use fp8 or auto")
    elif not shape.latent and fmt.latent_only:
        found.append(f"{fmt.name} is for MLA latents; use fp8")
    found += _capability_refusals(shape, fmt, version, capability)
    return tuple(Reason("kv_dtype", text) for text in found)


def _capability_refusals(shape: Shape, fmt: KvFormat, version: Version, capability: tuple[int, int]) -> list[str]:
    """What the card's kernels lack. Neither an unknown card is refused nor a model that has no attention."""
    if capability == (0, 0) or not shape.attention:
        return []
    sm = f"SM {capability[0]}.{capability[1]}"
    if fmt.name.startswith("nvfp4") and capability[0] != 10:
        everywhere = fmt.name == "nvfp4" and version >= _NVFP4_EVERYWHERE and capability >= (8, 0)
        if not everywhere or 64 in shape.head_dims:
            return [f"{fmt.name} needs SM 10.x (Blackwell data-centre); this card is {sm}: use fp8"]
    if fmt.name == "fp8_e4m3" and capability < (8, 9) and not _flashinfer_serves(shape):
        return [f"fp8_e4m3 needs SM 8.9 in the Triton kernel; this card is {sm}: use fp8_e5m2 or int8_per_token_head"]
    if fmt.name == "fp8_per_token_head" and capability < (8, 9):
        return [f"fp8_per_token_head needs SM 8.9; this card is {sm}: use int8_per_token_head"]
    if fmt.element_bits < 16 and capability < (8, 0):
        return [f"{fmt.name} needs SM 8.0; this card is {sm}: use auto"]
    if fmt.name in _QUANTISED_FP8 and capability[0] == 9 and shape.architecture in ALIBI:
        return [f"FlashAttention does not combine ALiBi with {fmt.name}; use auto"]
    return []


def _flashinfer_serves(shape: Shape) -> bool:
    """FlashInfer's kernels read fp8_e4m3 below SM 8.9 too; they serve one head width, and no MLA there."""
    return not shape.latent and len(shape.head_dims) == 1 and shape.head_dims <= FLASHINFER_HEADS


def _cautions(shape: Shape, fmt: KvFormat, capability: tuple[int, int]) -> tuple[Note, ...]:
    notes = []
    if not shape.attention:
        if fmt.element_bits < 16:
            notes.append(Note("kv-dtype", f"no layer has attention: --kv-cache-dtype {fmt.name} changes nothing"))
        return tuple(notes)
    if fmt.name == "fp8_e4m3" and (0, 0) < capability < (8, 9) and _flashinfer_serves(shape):
        notes.append(
            Note("kv-dtype", "fp8_e4m3 on this card needs FlashInfer: Triton's kernel has it from SM 8.9 on; "
                 "fp8_e5m2 and int8_per_token_head work with either")
        )  # fmt: skip
    if fmt.element_bits < 16 and shape.states:
        notes.append(Note("kv-dtype", "recurrent states keep their own dtype: only attention KV gets smaller"))
    return tuple(notes)
