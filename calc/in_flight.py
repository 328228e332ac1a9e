"""Quantisation while loading (`--quantization` on a checkpoint that is not quantised): linear layers alone shrink.

Sources: vLLM 0.33 model_executor/layers/quantization/{fp8,bitsandbytes,experts_int8}.py and
model_loader/bitsandbytes_loader.py (NF4 in blocks of 64, whose constants are unpacked to float32 after loading).
Embeddings, the head, norms, routers and convolutions keep their dtype; so do towers, where engines differ.
"""

from __future__ import annotations

from fractions import Fraction

from calc.prediction import Reason
from onboard.errors import UsageError
from onboard.profile import Profile, TensorGroup, WeightVariant
from onboard.values import Struct, replace

LINEAR = frozenset(
    {"attention", "kv_proj", "kv_tied", "kv_unused", "latent_up", "mlp", "shared_expert", "experts", "state",
     "state_groups"}
)  # fmt: skip
HONEST_PPM = 30_000  # biases and convolutions share a group with matrices, and which modules join differs by release


class Rule(Struct, frozen=True, kw_only=True):
    """Bytes that one weight takes, scales included, in groups of the kinds named."""

    per_weight: Fraction
    dtype: str
    kinds: frozenset[str] = LINEAR


RULES: dict[str, Rule] = {
    "bitsandbytes": Rule(per_weight=Fraction(1, 2) + Fraction(4, 64), dtype="u8"),
    "fp8": Rule(per_weight=Fraction(1), dtype="f8_e4m3"),
    "fp8_per_tensor": Rule(per_weight=Fraction(1), dtype="f8_e4m3"),
    "fp8_per_block": Rule(per_weight=1 + Fraction(4, 128 * 128), dtype="f8_e4m3"),
    "mxfp8": Rule(per_weight=1 + Fraction(1, 32), dtype="f8_e4m3"),
    "int8_per_channel_weight_only": Rule(per_weight=Fraction(1), dtype="i8"),
    "experts_int8": Rule(per_weight=Fraction(1), dtype="i8", kinds=frozenset({"experts"})),
}
#: Methods of checkpoints that are quantised already: named on a command line, they change nothing.
STORED = frozenset(
    {"awq", "awq_marlin", "gptq", "gptq_marlin", "compressed-tensors", "modelopt", "modelopt_fp4", "modelopt_mixed",
     "mxfp4", "gpt_oss_mxfp4", "auto-round", "auto_round", "inc", "gguf", "quark", "petit_nvfp4", "moe_wna16",
     "fbgemm_fp8", "w8a8_fp8", "w8a8_int8", "torchao", "nvfp4"}
)  # fmt: skip


def quantised(profile: Profile, variant: WeightVariant, method: str | None) -> WeightVariant:
    """The variant as it lies on the cards. Raises UsageError for a method without a rule, or a set without parts."""
    if method is None or method in STORED or _is_quantised(profile, variant):
        return variant
    rule = RULES.get(method)
    if rule is None:
        hint = "while loading: " + ", ".join(RULES)
        raise UsageError(f"no rule for --quantization {method}", path="--quantization", value=method, hint=hint)
    if not variant.groups:
        raise UsageError(
            f"{variant.name} is known by its total alone, so what {method} leaves of it is not",
            path="--quantization", value=method, hint="name a source whose headers can be read, or give --weights-gb",
        )  # fmt: skip
    groups = tuple(_shrunk(group, rule) for group in variant.groups)
    return replace(
        variant, groups=groups, num_bytes=sum(g.num_bytes * g.copies for g in groups), quantization=method,
        where=f"{variant.where}, {method} while loading", error_ppm=max(variant.error_ppm, HONEST_PPM),
    )  # fmt: skip


def quantization_problem(profile: Profile, wanted: WeightVariant | None, method: str | None) -> Reason | None:
    """Why the engine refuses to quantise: the checkpoint is packed in another way already (config/model.py)."""
    if method is None or method not in RULES or wanted is None or not _is_quantised(profile, wanted):
        return None
    stored = wanted.quantization or str(profile.fact("quantization"))
    if method.partition("_")[0] in stored.lower():
        return None
    return Reason("quantization", f"--quantization {method}: the checkpoint is quantised already ({stored})")


def _is_quantised(profile: Profile, variant: WeightVariant) -> bool:
    """As its headers say; without headers, as the config says."""
    return variant.quantization is not None or (variant.origin != "headers" and bool(profile.fact("quantization")))


def _shrunk(group: TensorGroup, rule: Rule) -> TensorGroup:
    if group.part or group.kind not in rule.kinds:
        return group
    size = -(-group.num_elements * rule.per_weight.numerator // rule.per_weight.denominator)
    return replace(group, num_bytes=min(group.num_bytes, size), dtype=rule.dtype)
