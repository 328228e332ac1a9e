"""A model's layers -> one `Page` a cache, with the bytes one card stores.

Sources: vLLM 0.33 layers/attention/attention.py:600, mla_attention.py:1371, layers/mamba/mamba_utils.py and
abstract.py:80, models/deepseek_v4/attention.py:860, compressor.py:176; KV heads: models/llama.py:156.
"""

from __future__ import annotations

from calc.engines.vllm.kv_dtype import KvDtype
from calc.engines.vllm.pages import CHUNK, CROSS, EVERY_BLOCK, GROW, SLOTS, WINDOW, Page
from calc.engines.vllm.versions import Rules
from onboard.layers import (
    CacheSpec,
    ChunkedAttention,
    Compressed,
    CrossAttention,
    Heads,
    Indexer,
    LatentAttention,
    Layer,
    SharedWith,
    WindowAttention,
    WindowLatent,
)
from onboard.states import StateCache
from onboard.states.conv import CompressorOverlap
from onboard.values import Struct, replace

DTYPE_BYTES = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "fp8": 1, "float8_e4m3fn": 1, "uint8": 1}
#: State tensors that hold the columns of a convolution: one more column for each speculative token.
CONV_WITH_DRAFT_COLUMNS = frozenset({"gated_delta_net", "mamba2", "kda", "short_conv"})
#: DeepSeek V4's packed rows and pages: 64 bf16 rope elements, a scale byte for every 64 fp8 elements, pages of 576 n.
V4_ROPE, V4_ALIGNMENT, V4_BLOCK, V4_WINDOW_BLOCK = 64, 576, 256, 64
#: Tokens of a compressor ring's block, by tokens an entry (compressor.py:170).
RING_BLOCK = {4: 4, 128: 8}


class Context(Struct, frozen=True, kw_only=True):
    """What turns a layer into pages, besides the layer. `ssm_dtype` None leaves the layer's own."""

    kv: KvDtype
    rules: Rules
    tp: int
    dcp: int
    block: int
    state_mode: str
    speculative: int
    ssm_dtype: str | None = None
    exempt: frozenset[int] = frozenset()
    checkpoints: frozenset[str] = frozenset()  # state families with a checkpoint block
    compressed: bool = False
    wider: int = 0  # tokens a window has beyond the config's


#: Classes whose window is wider than the config's `sliding_window`, by this many tokens (models/commandr.py:244: the
#: token itself is not counted).
WIDER_WINDOWS = {"Cohere2ForCausalLM": 1, "Cohere2VisionForConditionalGeneration": 1}


def pages_of(layer: Layer, index: int, ctx: Context) -> tuple[Page, ...]:
    """The pages of one layer. Layers that read another's cache, and encoder layers, own none."""
    found: list[Page] = []
    for spec in layer.caches:
        if isinstance(spec, (SharedWith, CompressorOverlap)):
            continue
        found += _pages(spec, index, ctx)
    return tuple(found)


def _pages(spec: CacheSpec, index: int, ctx: Context) -> list[Page]:
    if isinstance(spec, StateCache):
        return [_state_page(spec, ctx)]
    if ctx.compressed and isinstance(spec, (WindowAttention, WindowLatent)):
        return [_v4_window_page(spec)]
    if isinstance(spec, Heads):
        return [_heads_page(spec, index, ctx)]
    if isinstance(spec, WindowLatent):
        return [replace(_latent_page(spec, ctx), demand=WINDOW, reach=spec.window - 1, dcp=1)]
    if isinstance(spec, LatentAttention):
        return [_latent_page(spec, ctx)]
    if isinstance(spec, Compressed):
        return _compressed_pages(spec, ctx)
    if isinstance(spec, Indexer):
        return _indexer_pages(spec, ctx)
    raise TypeError(f"vLLM has no page for {type(spec).__name__}")


def kv_heads(num_kv_heads: int, tp: int) -> int:
    """KV heads on one card: divided, or one replicated."""
    return max(1, num_kv_heads // tp)


def _heads_page(spec: Heads, index: int, ctx: Context) -> Page:
    heads = kv_heads(spec.num_kv_heads, ctx.tp)
    exempt = index in ctx.exempt
    row = heads * (2 * (spec.k_dim + spec.v_dim) if exempt else ctx.kv.heads.bytes_of(spec.k_dim, spec.v_dim))
    demand, reach, kind = GROW, 0, spec.kind
    if isinstance(spec, WindowAttention):
        demand, reach = WINDOW, spec.window - 1 + ctx.wider
    elif isinstance(spec, ChunkedAttention):
        demand, reach = CHUNK, spec.chunk
    elif isinstance(spec, CrossAttention):
        demand = CROSS
    return Page(
        kind=kind,
        demand=demand,
        block=ctx.block,
        row_bytes=row,
        page_bytes=row * ctx.block,
        reach=reach,
        shape=(heads, spec.k_dim, spec.v_dim, exempt),
        dcp=ctx.dcp if demand == GROW else 1,
    )


def _latent_page(spec: LatentAttention, ctx: Context) -> Page:
    rule = ctx.kv.latent.latent_of
    row = rule(spec.latent_dim, spec.rope_dim) if rule else 2 * (spec.latent_dim + spec.rope_dim)
    return Page(
        kind=spec.kind,
        demand=GROW,
        block=ctx.block,
        row_bytes=row,
        page_bytes=row * ctx.block,
        shape=("latent", spec.latent_dim, spec.rope_dim),
        dcp=ctx.dcp,
        latent=True,
    )


def _v4_window_page(spec: WindowAttention | WindowLatent) -> Page:
    """The sliding cache beside compressed latents: packed rows, a block of its own."""
    row = _v4_row(spec.elements_per_token())
    return Page(
        kind=spec.kind,
        demand=WINDOW,
        block=V4_WINDOW_BLOCK,
        row_bytes=row,
        page_bytes=_aligned(row * V4_WINDOW_BLOCK),
        reach=spec.window - 1,
        shape=("v4-window",),
        latent=True,
    )


def _compressed_pages(spec: Compressed, ctx: Context) -> list[Page]:
    """The entries, and the fp32 ring in which K and gate of the window in progress wait."""
    row = _v4_row(spec.elements_per_entry)
    entries = Page(
        kind=spec.kind,
        demand=GROW,
        block=V4_BLOCK,
        row_bytes=row,
        tokens_per_row=spec.tokens_per_entry,
        page_bytes=_aligned(row * (V4_BLOCK // spec.tokens_per_entry)),
        shape=("v4", spec.elements_per_entry, spec.tokens_per_entry),
        latent=True,
    )
    return [entries, _ring_page(spec.elements_per_entry, spec.tokens_per_entry)]


def _indexer_pages(spec: Indexer, ctx: Context) -> list[Page]:
    """Index keys: one byte an element and an fp32 scale for every 128, whole on every card."""
    row = spec.elements_per_entry + -(-spec.elements_per_entry // 128) * 4
    block = V4_BLOCK if ctx.compressed else ctx.block
    page = row * (block // spec.tokens_per_entry)
    keys = Page(
        kind=spec.kind,
        demand=GROW,
        block=block,
        row_bytes=row,
        tokens_per_row=spec.tokens_per_entry,
        page_bytes=_aligned(page) if ctx.compressed else page,
        shape=("indexer", spec.elements_per_entry, spec.tokens_per_entry),
        dcp=ctx.dcp,
        latent=True,
    )
    return [keys, _ring_page(spec.elements_per_entry, spec.tokens_per_entry)] if ctx.compressed else [keys]


def _ring_page(elements: int, tokens_per_entry: int) -> Page:
    overlap = 2 if tokens_per_entry == 4 else 1  # compressor.py:145: entries of 4 tokens overlap by one window
    block = RING_BLOCK.get(tokens_per_entry, tokens_per_entry)
    row = 2 * overlap * elements * 4  # K and gate, fp32
    return Page(
        kind="state",
        demand=WINDOW,
        block=block,
        row_bytes=row,
        page_bytes=_aligned(row * block),
        reach=overlap * tokens_per_entry - 1,
        shape=("ring", elements, tokens_per_entry),
        latent=True,
    )


def _v4_row(elements: int) -> int:
    """fp8 without rope, bf16 rope, and a scale byte for every 64 padded to 8: 584 bytes for 512 elements."""
    plain = elements - V4_ROPE
    return plain + 2 * V4_ROPE + -(-(plain // 64) // 8) * 8


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // V4_ALIGNMENT) * V4_ALIGNMENT


def state_bytes(spec: StateCache, ctx: Context) -> int:
    """One state on one card: convolutions are a column longer for each speculative token."""
    total = 0
    columns = ctx.speculative if spec.family in CONV_WITH_DRAFT_COLUMNS else 0
    for tensor in spec.tensors(ctx.tp):
        elements = tensor.elements
        if columns and tensor.name == "conv":
            elements += tensor.shape[0] * columns
        dtype = ctx.ssm_dtype if ctx.ssm_dtype and tensor.name == "ssm" else tensor.dtype
        total += elements * DTYPE_BYTES.get(dtype, 2)
    return total


def _state_page(spec: StateCache, ctx: Context) -> Page:
    """Blocks a sequence: 1 (none), 2 and a checkpoint's (align), one for every block (all); and the drafts' own."""
    size = state_bytes(spec, ctx)
    drafts = ctx.speculative if ctx.rules.speculative_state_blocks else 0
    shape = (spec.family, tuple((t.shape, t.dtype) for t in spec.tensors(ctx.tp)))
    if ctx.state_mode == "all":
        extra = drafts if ctx.rules.all_mode_adds_speculative else 0
        return Page(
            kind="state", demand=EVERY_BLOCK, block=ctx.block, row_bytes=size, page_bytes=size, tokens_per_row=0,
            slots=extra, shape=shape,
        )  # fmt: skip
    slots = 1 + drafts
    if ctx.state_mode == "align":
        slots = 2 + drafts + (1 if spec.family in ctx.checkpoints else 0)
    block = 0 if ctx.state_mode == "none" else ctx.block  # mode none: one block for the whole length
    return Page(
        kind="state", demand=SLOTS, block=block, row_bytes=size, page_bytes=size, tokens_per_row=0, slots=slots,
        shape=shape,
    )  # fmt: skip
