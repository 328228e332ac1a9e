"""The plan options, once, for every command that takes a plan: long form is the engine's own flag.

Two names for one idea (`--max-model-len`, `--ctx-size`, `--context-length`) set the same field.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from calc.plan import Plan
from onboard.errors import UsageError
from onboard.values import replace

if TYPE_CHECKING:  # generic from click 8.2 on, and only for the type checker
    _TokenType = click.ParamType[int]
    _SharesType = click.ParamType[tuple[float, ...]]
else:
    _TokenType = _SharesType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])


class Tokens(_TokenType):
    """A token count: 200000, 200,000, 200_000, 128k (x 1000) or 128Ki (x 1024)."""

    name = "tokens"
    _suffix: ClassVar[dict[str, int]] = {"k": 1000, "m": 10**6, "ki": 1024, "mi": 2**20}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip().lower().replace(",", "").replace("_", "")
        for suffix in ("ki", "mi", "k", "m"):
            if text.endswith(suffix) and text[: -len(suffix)].isdigit():
                return self._positive(int(text[: -len(suffix)]) * self._suffix[suffix], value)
        if text.isdigit() and len(text) < 19:
            return self._positive(int(text), value)
        return self.fail(f"{value!r} is not a count of tokens (200000, 200,000, 128k, 128Ki)", param, ctx)

    def _positive(self, number: int, value: Any) -> int:
        if not 0 < number < 2**40:
            self.fail(f"{value!r} must be between 1 and 2^40")
        return number


class Floats(_SharesType):
    """Comma-separated shares: 3,1."""

    name = "shares"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            shares = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of shares (3,1)", param, ctx)
        if not shares or any(not 0 <= s < 1e6 for s in shares) or sum(shares) == 0:
            self.fail(f"{value!r}: shares are 0 or more, and one is above 0", param, ctx)
        return shares


_COUNT = click.IntRange(1, 2**31)
_ZERO = click.IntRange(0, 2**31)
_FRACTION = click.FloatRange(0, 1, min_open=True)
_SIZE = click.FloatRange(0, 1e7, min_open=True)
_TOKENS = Tokens()


def _option(*names: str, **kwargs: Any) -> Callable[[F], F]:
    kwargs.setdefault("default", None)
    return click.option(*names, **kwargs)


def _flag(*names: str, help: str = "") -> Callable[[F], F]:
    return click.option(*names, is_flag=True, default=None, help=help)


PLAN_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    _option("--engine", help="vllm, llamacpp or sglang, with an optional @VERSION."),
    _option("--card", help="A card of the database, such as rtx-3090."),
    _option("--vram", "vram_gib", type=_SIZE, help="Memory of one card in GiB, all usable."),
    _option("--gpus", type=_COUNT, help="Physical cards in the rig; TP controls sharding, llama.cpp splits over them."),
    _option("--tensor-parallel-size", "--tp", "tensor_parallel_size", type=_COUNT, help="Tensor-parallel degree."),
    _option("--pipeline-parallel-size", "--pp", "pipeline_parallel_size", type=_COUNT, help="Pipeline stages."),
    _option("--decode-context-parallel-size", "--dcp", "decode_context_parallel_size", type=_COUNT, help="Decode context parallelism."),
    _option("--data-parallel-size", "--dp", "data_parallel_size", type=_COUNT, help="Data-parallel attention ranks (SGLang)."),
    _flag("--enable-expert-parallel", help="Split experts over the TP group."),
    _option("--max-model-len", "--max-ctx", "--ctx-size", "--context-length", "max_model_len", type=_TOKENS, help="Context length in tokens."),
    _option("--max-num-seqs", "--sequences", "--parallel", "--max-running-requests", "max_num_seqs", type=_COUNT, help="Concurrent sequences."),
    _option("--max-num-batched-tokens", type=_COUNT, help="Tokens of one forward pass."),
    _option("--gpu-memory-utilization", "--mem-util", "gpu_memory_utilization", type=_FRACTION, help="Share of the card vLLM may take."),
    _option("--kv-cache-dtype", "--kv-format", "kv_cache_dtype", help="auto, bf16, fp8, fp8_e5m2, int8_per_token_head, nvfp4, k8v4 ..."),
    _option("--block-size", type=_COUNT, help="Tokens in one KV block."),
    click.option("--enable-prefix-caching/--no-enable-prefix-caching", default=None, help="Prefix caching."),
    _flag("--enforce-eager", help="No CUDA graphs."),
    _option("--kv-cache-memory-bytes", type=click.IntRange(0, 2**50), help="Fix the KV pool at this many bytes."),
    _flag("--disable-hybrid-kv-cache-manager", help="One group; every layer grows."),
    _flag("--language-model-only", help="Load no vision or audio towers."),
    _option("--mamba-cache-mode", type=click.Choice(["none", "align", "all"]), help="How vLLM keeps recurrent state."),
    _option("--mamba-ssm-cache-dtype", "--mamba-ssm-dtype", "mamba_ssm_cache_dtype", help="Dtype of recurrent state."),
    _option("--mamba-block-size", type=_COUNT, help="Tokens between state checkpoints."),
    click.option("--async-scheduling/--no-async-scheduling", default=None, help="Async scheduling (two batches in flight)."),
    click.option("--cuda-graph-estimate/--no-cuda-graph-estimate", default=None, help="vLLM takes CUDA graphs from the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS)."),
    _option("--num-speculative-tokens", "--speculative-num-draft-tokens", "num_speculative_tokens", type=_ZERO, help="Draft tokens a step."),
    _option("--drafter", help="none, ngram, mtp, a drafter of the profile, or a SOURCE."),
    _option("--drafter-gb", type=_SIZE, help="The drafter's weights in GB (10^9)."),
    _option("--max-loras", type=_COUNT, help="LoRA slots."),
    _option("--max-lora-rank", type=_COUNT, help="Rank the slots are sized for."),
    _option("--weights", help="A weights variant of the profile."),
    _option("--weights-gb", type=_SIZE, help="The checkpoint's size in GB (10^9), where it is not known."),
    _option("--quantization", "-q", "quantization", help="Quantise while loading: bitsandbytes (4 bit), fp8, fp8_per_block, experts_int8 ..."),
    _option("--activation-model", help="A named activation model (`specification` for the document's coefficients)."),
    click.option("--kv-unified/--no-kv-unified", default=None, help="llama.cpp: one cache for all slots."),
    _option("--batch-size", type=_COUNT, help="llama.cpp: logical batch."),
    _option("--ubatch-size", type=_COUNT, help="llama.cpp: physical batch."),
    _option("--cache-type-k", help="llama.cpp: type of K."),
    _option("--cache-type-v", help="llama.cpp: type of V."),
    _option("--flash-attn", type=click.Choice(["on", "off", "auto"]), help="llama.cpp: flash attention."),
    _flag("--swa-full", help="llama.cpp: keep windowed layers whole."),
    _option("--n-gpu-layers", "-ngl", "n_gpu_layers", type=_ZERO, help="llama.cpp: layers on the cards."),
    _option("--tensor-split", "-ts", "tensor_split", type=Floats(), help="llama.cpp: shares of the cards."),
    _option("--n-cpu-moe", type=_ZERO, help="llama.cpp: layers whose experts stay on the host."),
    _flag("--cpu-moe", help="llama.cpp: all experts stay on the host."),
    _flag("--no-kv-offload", help="llama.cpp: caches stay on the host."),
    _option("--fit-target-mib", "--fit-target", "fit_target_mib", type=_ZERO, help="llama.cpp: MiB that --fit keeps free on each card."),
    _option("--mem-fraction-static", type=_FRACTION, help="SGLang: share for weights and pools."),
    _option("--page-size", type=_COUNT, help="SGLang: tokens in one page."),
    _option("--swa-full-tokens-ratio", type=click.FloatRange(0, 1), help="SGLang: window pool by full pool."),
    _option("--mamba-full-memory-ratio", type=click.FloatRange(0, 100), help="SGLang: state pool by KV pool."),
    _option("--chunked-prefill-size", type=click.IntRange(-1, 2**31), help="SGLang: tokens of one prefill chunk."),
    _option("--max-total-tokens", type=_COUNT, help="SGLang: cap on the pool's tokens."),
    _option("--max-mamba-cache-size", type=_COUNT, help="SGLang: state slots of a hybrid model."),
    _flag("--disable-radix-cache", help="SGLang: no prefix reuse."),
    _flag("--include-draft-kv", help="Add --draft-kv-gb to the breakdown."),
    _option("--draft-kv-gb", type=click.FloatRange(0, 1e6), help="Draft KV per card in GB (10^9), for the breakdown."),
    _option("--compressed-layers", type=_ZERO, help="Breakdown: layers with a compressed cache."),
    _option("--compression-ratio", type=click.FloatRange(1, 1e6), help="Breakdown: tokens in one compressed entry."),
    _option("--compressed-head-dim", type=_COUNT, help="Breakdown: elements of one compressed entry."),
    _option("--indexer-ratio-layers", type=_ZERO, help="Breakdown: layers with an indexer cache."),
    _option("--indexer-compress-ratio", type=click.FloatRange(1, 1e6), help="Breakdown: tokens in one indexer entry."),
    _option("--indexer-head-dim", type=_COUNT, help="Breakdown: elements of one indexer entry."),
    _option("--indexer-format", help="Breakdown: KV format of the indexer (default fp4)."),
    _option("--compose", help="A deployment named in the profile; options given here win over its own."),
    _option("--from", "from_file", type=click.Path(exists=True, dir_okay=False), help="A docker-compose file or script holding an engine's command line."),
    _option("--catalog", help="A user catalogue over the shipped one."),
)  # fmt: skip


def plan_options(command: F) -> F:
    """Add every plan option to a click command."""
    for option in reversed(PLAN_OPTIONS):
        command = option(command)
    return command


def plan_of(options: dict[str, Any], base: Plan | None = None) -> Plan:
    """The plan that the given options make; options not given keep `base`'s value. Raises UsageError on NaN."""
    named = {k: v for k, v in options.items() if v is not None and k in Plan.__struct_fields__}
    for name, value in named.items():
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(
                f"{value} is not an amount", path=f"--{name.replace('_', '-')}", value=value, hint="give a number"
            )
    base = base or Plan()
    if "card" in named:
        base = replace(base, vram_gib=None)
    if "vram_gib" in named:
        base = replace(base, card=None)
    return replace(base, **named)
