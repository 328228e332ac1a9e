"""What the estimating rules read: the model's widths and the resolved knobs, as one flat frozen value.

It is built from a profile and a resolved plan (`setup_of`), or from what an anchor states (`calc.anchors`), so that a
rule gives the same number for a prediction and for the boot it was learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc.estimates.tables import encoder_family, is_pooling, is_ungated
from calc.plan import Plan
from calc.prediction import Resolved
from onboard.profile import Profile
from onboard.states import GatedDeltaNet
from onboard.values import Struct

QUANTISED_KV = ("fp8", "int8", "turboquant", "nvfp4")


class Setup(Struct, frozen=True, kw_only=True):
    """Widths in elements, sizes in bytes; 0 stands for "the model has none" and never for "unknown"."""

    engine: str
    version: tuple[int, ...]
    # --- the model ---
    hidden: int
    vocab: int
    layers: int
    intermediate: int = 0
    gated: bool = True
    experts: int = 0
    topk: int = 0
    moe_intermediate: int = 0
    latent: bool = False
    sparse: bool = False  # an indexer or compressed cache beside the latent one
    delta: tuple[int, int, int] = (0, 0, 0)  # Gated DeltaNet: value heads, key dim, value dim
    states: bool = False  # any recurrent state
    quantization: str = ""
    encoder: str = ""  # a family of `tables.ENCODERS`; "" for a text model
    pooling: bool = False
    # --- the knobs ---
    tp: int = 1
    pp: int = 1
    max_num_seqs: int = 1
    max_num_batched_tokens: int = 1
    expert_parallel: bool = False
    eager: bool = False
    kv_cache_dtype: str = "auto"
    sampler: str = ""  # "sort" or "flashinfer" where a log says so, "" for the version's own
    num_speculative_tokens: int = 0
    drafter: bool = False  # a separate draft model
    lora_rank: int = 0
    max_loras: int = 0
    v0: bool = False  # vLLM's first engine (0.6 to 0.9)
    chunked: bool = True  # chunked prefill
    graph_capture: int = 0  # the largest captured batch, where it is known
    graph_estimate: bool | None = (
        None  # whether the engine subtracts its own graph estimate; None: the version's default
    )
    # --- the card ---
    link: str = "pcie"  # pcie, nvlink, unified, rocm
    datacentre: bool = False
    compute_capability: tuple[int, int] = (0, 0)

    @property
    def sequences(self) -> int:
        """The sequences that the dummy run can hold: one token each at least."""
        return min(self.max_num_seqs, self.max_num_batched_tokens)

    @property
    def era(self) -> str:
        """The class of versions whose profile run behaves alike (sources: the table in `runtime`)."""
        if self.v0:
            return "v0.6" if self.version < (0, 7) else "v0"
        return "v1" if self.version < (0, 18) else "v1.18"


def setup_of(profile: Profile, resolved: Resolved) -> Setup:
    """The setup of a resolved plan. Raises FieldMissing where the model states no width that a rule needs."""
    plan = resolved.plan
    geometry = geometry_of(profile)
    attends = any(cache.kind != "state" for cache, _ in profile.cache_groups)  # else no kernel reads a KV format
    return Setup(
        engine=resolved.engine,
        version=resolved.version,
        **geometry_fields(geometry),
        quantization=_quantization(profile, plan.weights),
        encoder="" if plan.language_model_only else geometry["encoder"],
        pooling=geometry["pooling"],
        tp=plan.tensor_parallel_size,
        pp=plan.pipeline_parallel_size,
        max_num_seqs=plan.max_num_seqs or 1,
        max_num_batched_tokens=_batched_tokens(plan),
        expert_parallel=plan.enable_expert_parallel,
        eager=plan.enforce_eager,
        kv_cache_dtype=plan.kv_cache_dtype if attends else "auto",
        num_speculative_tokens=plan.num_speculative_tokens or 0,
        drafter=plan.drafter not in (None, "none", "ngram", "mtp"),
        lora_rank=plan.max_lora_rank or (16 if plan.max_loras else 0),
        max_loras=plan.max_loras or 0,
        v0=resolved.engine == "vllm" and resolved.version < (0, 9),
        graph_estimate=plan.cuda_graph_estimate,
        link=link_of(resolved.card.kind, resolved.card.nvlink, resolved.card.product),
        datacentre=resolved.card.kind == "datacentre",
        compute_capability=resolved.card.compute_capability,
    )


def link_of(kind: str, nvlink: bool, product: str = "") -> str:
    """The class of card that runtime memory depends on: unified, rocm, nvlink or pcie."""
    if kind == "unified":
        return "unified"
    if product.startswith(("AMD", "Radeon")):
        return "rocm"
    return "nvlink" if nvlink else "pcie"


def geometry_of(profile: Profile) -> dict[str, Any]:
    """The widths of a model as anchors state them. Raises FieldMissing for one that every rule needs."""
    kinds = {cache.kind for cache, _ in profile.cache_groups}
    hidden = int(profile.require("hidden_size"))
    return {
        "hidden": hidden,
        "vocab": int(profile.require("vocab_size")),
        "layers": len(profile.layers),
        "intermediate": _widest(profile.fact("intermediate_size")) or 4 * hidden,
        "gated": not is_ungated(profile.architectures),
        "experts": _widest(profile.fact("num_experts")),
        "topk": _widest(profile.fact("num_experts_per_token")),
        "moe_intermediate": _moe_width(profile),
        "latent": "latent" in kinds,
        "sparse": bool(kinds & {"indexer", "compressed"}),
        "states": "state" in kinds,
        "delta": list(_state_heads(profile)),
        "encoder": encoder_family(profile),
        "pooling": is_pooling(profile.architectures),
    }


def geometry_fields(geometry: Mapping[str, Any]) -> dict[str, Any]:
    """A geometry as anchors state it (hidden, intermediate, vocab, layers, experts, topk, ...) as Setup's fields."""
    names = (
        "hidden",
        "intermediate",
        "vocab",
        "layers",
        "experts",
        "topk",
        "moe_intermediate",
        "gated",
        "latent",
        "sparse",
        "states",
    )
    given: dict[str, Any] = {name: geometry[name] for name in names if geometry.get(name) is not None}
    if geometry.get("delta") is not None:
        heads, key_dim, value_dim = geometry["delta"]
        given["delta"] = (heads, key_dim, value_dim)
    return given


def _batched_tokens(plan: Plan) -> int:
    """Tokens of one forward pass. SGLang without chunked prefill (-1) takes its max_prefill_tokens, 16384."""
    chunk = plan.chunked_prefill_size
    if chunk is not None and chunk < 0:
        return 16384
    return plan.max_num_batched_tokens or chunk or plan.ubatch_size or 2048


def _widest(value: Any) -> int:
    """The largest where layers differ: its buffer is the one at the peak. 0 where none is stated (GPT-2's class,
    BLOOM and Falcon then take four times the hidden size).
    """
    if value is None:
        return 0
    return max((v for v in value if v), default=0) if isinstance(value, (tuple, list)) else int(value)


def _moe_width(profile: Profile) -> int:
    width = profile.fact("moe_intermediate_size")
    if width is None and profile.fact("num_experts"):
        width = profile.fact("intermediate_size")  # Mixtral, gpt-oss: one width for every expert
    return _widest(width)


def _state_heads(profile: Profile) -> tuple[int, int, int]:
    for cache, _ in profile.cache_groups:
        if isinstance(cache, GatedDeltaNet):
            state = next(t for t in cache.tensors() if len(t.shape) == 3)
            return state.shape[0], state.shape[1], state.shape[2]
    return (0, 0, 0)


def _quantization(profile: Profile, chosen: str | None) -> str:
    name = chosen or profile.default_weights
    variant = next((w for w in profile.weights if w.name == name), None)
    variant = variant or (profile.weights[0] if profile.weights else None)
    return (variant.quantization if variant else None) or ""
