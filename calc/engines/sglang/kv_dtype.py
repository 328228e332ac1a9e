"""The dtype of the cache and of recurrent state, `auto` included.

Source: mem_cache/kv_cache_dtype.py, arg_groups/overrides.py _dsa_kv_cache_dtype_default and configs/mamba_utils.py
mamba2_state_dtype of the 0.5.23 wheel.
"""

from __future__ import annotations

from calc.cards import Card
from calc.engines.sglang.layout import DTYPE_BYTES, has_indexer, is_compressed, is_latent
from calc.engines.sglang.versions import Rules
from calc.kv_formats import kv_format
from calc.plan import Plan
from onboard.errors import UsageError
from onboard.profile import Profile

BLACKWELL = ("nvfp4", "mxfp8")
MODEL_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp16", "float": "fp16"}


def kv_dtype(profile: Profile, plan: Plan, card: Card, rules: Rules) -> str:
    """The format's name. float32 models are served at float16; a checkpoint that declares FP8 KV gets it."""
    if is_compressed(profile):
        return "fp8_e4m3"
    if plan.kv_cache_dtype != "auto":
        return kv_format(plan.kv_cache_dtype).name
    if is_latent(profile) and has_indexer(profile):
        return "fp8_e4m3" if card.compute_capability[0] >= 10 else "bf16"
    if profile.fact("kv_cache_scheme") == "fp8" and rules.checkpoint_kv:
        return "fp8_e4m3"
    return MODEL_DTYPES.get(str(profile.fact("dtype") or "float16").removeprefix("torch."), "bf16")


def kv_problem(profile: Profile, plan: Plan, card: Card) -> str | None:
    """Why this engine cannot use the plan's format on this card, or None (arg_groups/kv_cache_hook.py)."""
    if plan.kv_cache_dtype == "auto" or is_compressed(profile):
        return None
    form = kv_format(plan.kv_cache_dtype)
    if "sglang" not in form.engines or form.name == "fp16":
        return f"SGLang's --kv-cache-dtype has no {plan.kv_cache_dtype}"
    if form.name in BLACKWELL and (0, 0) < card.compute_capability < (10, 0):
        have = ".".join(map(str, card.compute_capability))
        return f"{form.name} KV needs compute capability 10.0, {card.name} has {have}"
    if is_latent(profile) and has_indexer(profile) and form.name not in ("bf16", "fp8_e4m3"):
        return f"sparse latent attention takes bf16 or fp8_e4m3 KV, not {form.name}"
    return None


def state_dtype(profile: Profile, plan: Plan) -> str:
    """float32 unless `mamba_ssm_dtype` says otherwise; a field of another spelling is not read by SGLang."""
    if plan.mamba_ssm_cache_dtype not in (None, "auto"):
        if plan.mamba_ssm_cache_dtype not in DTYPE_BYTES:
            raise UsageError(
                "recurrent state is kept in float32, bfloat16 or float16",
                path="--mamba-ssm-dtype",
                value=plan.mamba_ssm_cache_dtype,
            )
        return str(plan.mamba_ssm_cache_dtype)
    stated = profile.facts.get("ssm_dtype")
    if stated is not None and stated.where.rpartition(".")[2] == "mamba_ssm_dtype" and stated.value in DTYPE_BYTES:
        return str(stated.value)
    return "float32"
