"""The cache layout of a model under a plan: pages, groups, the bytes of one block. No length and no memory in it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from calc.engines.vllm.backends import KDA_CHECKPOINTS, Backend, gdn_checkpoints, hybrid_kernel_block
from calc.engines.vllm.grouping import group_layers, promoted
from calc.engines.vllm.groups import Group, Member
from calc.engines.vllm.hybrid import GDN_CHECKPOINT, Raised, raise_block, skip_layer_block
from calc.engines.vllm.kv_dtype import KvDtype
from calc.engines.vllm.packed import slot_block_bytes, tuple_block_bytes
from calc.engines.vllm.pages import GROW, WINDOW, Page
from calc.engines.vllm.shape import Shape
from calc.engines.vllm.specs import WIDER_WINDOWS, Context, pages_of
from calc.engines.vllm.versions import Rules
from onboard.layers import Layer
from onboard.states import GatedDeltaNet, KimiDelta, Mamba2
from onboard.values import Struct, replace

DEFAULT_STATE_CHUNK = 2048  # Mamba 1 has no chunk of its own (config/model.py get_mamba_chunk_size)


class Request(Struct, frozen=True, kw_only=True):
    """Everything the layout depends on."""

    layers: tuple[Layer, ...]
    draft_layers: tuple[Layer, ...]
    shape: Shape
    kv: KvDtype
    rules: Rules
    backend: Backend
    capability: tuple[int, int]
    tp: int
    pp: int
    dcp: int
    block_size: int | None
    state_mode: str
    speculative: int
    ssm_dtype: str | None
    state_chunk: int | None
    hybrid_off: bool
    retained: int = 0  # tokens kept behind a window for several MTP modules


class Demand(Struct, frozen=True, kw_only=True):
    """`groups` groups whose layers need the same blocks."""

    page: Page
    groups: int


class GroupRow(Struct, frozen=True, kw_only=True):
    """What the contract lists of a group. `demand` indexes the layout's demands, `repeats` counts equal neighbours."""

    kinds: tuple[str, ...]
    num_layers: int
    block: int
    page_bytes: int
    demand: int
    repeats: int = 1


class Layout(Struct, frozen=True, kw_only=True):
    """`block_bytes` is what one block of the pool costs the fullest stage; `check_bytes` what the fit check charges.

    `counted_members` are the fullest stage's pages before padding and how many layers have each; `all_pages` what the
    per-layer fit check of old releases counts (states padded, chunks kept); `model_block_bytes` is one block of
    all pipeline stages together.
    """

    groups: tuple[Group, ...]
    rows: tuple[GroupRow, ...]
    counted_members: tuple[tuple[Page, int], ...]
    demands: tuple[Demand, ...]
    all_pages: tuple[tuple[Page, int], ...]
    block_bytes: int
    check_bytes: int
    model_block_bytes: int
    growing_token_bytes: Fraction
    state_bytes: int
    has_states: bool
    raised: Raised | None = None
    attention_block: int = 0
    claims_by_bytes: bool = (
        False  # concurrency divides a request's bytes by the first group's page (mixed, before 0.29)
    )

    def smallest_block(self, length: int) -> int:
        """The smallest group's block; a state of mode none has one block for the whole length."""
        return min([row.block or length for row in self.rows], default=0)


def build_layout(req: Request) -> Layout:
    """Raises LayoutError where the release cannot lay the model's pages out."""
    context, raised = _context(req)
    members, real = _members(req, context, raised)
    unpromoted = members
    if req.hybrid_off or not req.rules.chunked_manager:
        windows = req.hybrid_off
        members, real = promoted(members, windows), promoted(real, windows)
    groups = group_layers(members, req.rules)
    demands = _demands(groups)
    stage, block = _fullest_stage(groups, req)
    inside = [page for s, page in real if s == stage]
    return Layout(
        groups=groups,
        rows=_rows(groups, demands),
        counted_members=_counted(inside),
        demands=demands,
        all_pages=_counted([page for s, page in unpromoted if s == stage]),
        block_bytes=block,
        check_bytes=_check_bytes(groups, block, req),
        model_block_bytes=max((sum(p.page_bytes for _, p in g.members) for g in groups), default=0),
        growing_token_bytes=_growing(inside, req.hybrid_off),
        state_bytes=sum(p.row_bytes for p in inside if p.is_state),
        has_states=any(p.is_state for p in inside),
        raised=raised,
        attention_block=context.block,
        claims_by_bytes=len(groups) > 1 and all(g.mixed for g in groups) and req.rules.claims_by_bytes,
    )


def _context(req: Request) -> tuple[Context, Raised | None]:
    block = req.block_size or req.backend.block
    families = set()
    if req.rules.checkpoint_block_mamba2:
        families.add(Mamba2.family)
    flashinfer_gdn = gdn_checkpoints(req.shape, req.rules, req.capability)
    if flashinfer_gdn:
        families.add(GatedDeltaNet.family)
    if req.rules.checkpoint_block_gdn and req.shape.architecture in KDA_CHECKPOINTS:
        families.add(KimiDelta.family)
    context = Context(
        kv=req.kv,
        rules=req.rules,
        tp=req.tp,
        dcp=req.dcp,
        block=block,
        state_mode=req.state_mode,
        speculative=req.speculative,
        ssm_dtype=req.ssm_dtype,
        exempt=_exempt(req),
        checkpoints=frozenset(families),
        compressed=req.shape.compressed,
        wider=WIDER_WINDOWS.get(req.shape.architecture, 0) if req.rules.wider_windows else 0,
    )
    pages = [p for i, layer in enumerate(req.layers) for p in pages_of(layer, i, context)]
    states = [p for p in pages if p.is_state]
    attention = [p for p in pages if p.demand == GROW] or [p for p in pages if not p.is_state]
    if states and attention:
        raised = raise_block(
            attention,
            states,
            block,
            hybrid_kernel_block(req.shape, req.backend, req.rules, req.capability),
            GDN_CHECKPOINT if flashinfer_gdn and req.state_mode == "align" else 1,
            (req.state_chunk or DEFAULT_STATE_CHUNK) if req.state_mode == "all" else None,
        )
        return replace(context, block=raised.block), raised
    if context.exempt and req.rules.skip_layers_raise_block and req.block_size is None:
        packed = [int(p.token_bytes) for p in attention if not p.shape[-1]]
        wide = [int(p.token_bytes) for p in attention if p.shape[-1]]
        if packed and wide:
            context = replace(context, block=skip_layer_block(max(packed), max(wide), block))
    return context, None


def _exempt(req: Request) -> frozenset[int]:
    """The layers at both ends that a packed format leaves alone, without states (turboquant/config.py:178)."""
    ends, count = req.kv.heads.exempt_ends, len(req.layers)
    if not ends or req.shape.states:
        return frozenset()
    ends = min(ends, count // 2)
    return frozenset((*range(ends), *range(count - ends, count)))


def _members(req: Request, context: Context, raised: Raised | None) -> tuple[list[Member], list[Member]]:
    """(pages as the groups see them, states padded; pages before padding), each with its pipeline stage."""
    sizes = stage_layers(len(req.layers), req.pp)
    real: list[Member] = []
    for index, layer in enumerate(req.layers):
        real += [(_stage_of(index, sizes), page) for page in pages_of(layer, index, context)]
    for layer in req.draft_layers:
        real += [(req.pp - 1, page) for page in pages_of(layer, -1, context)]
    if req.retained:
        real = [(s, replace(p, reach=p.reach + req.retained) if p.demand == WINDOW else p) for s, p in real]
    if raised is None:
        return list(real), real
    padded = [(s, p.padded_to(raised.page_bytes)) if p.is_state else (s, p) for s, p in real]
    return padded, real


def stage_layers(num_layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each pipeline stage: what is left over goes to the stages before the last (distributed/utils.py)."""
    sizes = [num_layers // stages] * stages
    for i in range(2, num_layers % stages + 2):
        sizes[-i] += 1
    return tuple(sizes)


def _stage_of(index: int, sizes: Sequence[int]) -> int:
    for stage, size in enumerate(sizes):
        if index < size:
            return stage
        index -= size
    return len(sizes) - 1


def _fullest_stage(groups: Sequence[Group], req: Request) -> tuple[int, int]:
    """The stage whose block costs most: it decides the number of blocks for all of them."""
    costs = [_stage_block_bytes(groups, stage, req) for stage in range(req.pp)]
    return max(enumerate(costs), key=lambda pair: (pair[1], -pair[0])) if costs else (0, 0)


def _stage_block_bytes(groups: Sequence[Group], stage: int, req: Request) -> int:
    if len(groups) > 1 and all(g.mixed for g in groups):
        if req.rules.compressed_layout == "tuples":
            return tuple_block_bytes(groups)
        if req.rules.compressed_layout == "slots":
            return slot_block_bytes(groups)
    return max((g.stage_bytes(stage) for g in groups), default=0)


def _check_bytes(groups: Sequence[Group], block: int, req: Request) -> int:
    if len(groups) > 1 and all(g.mixed for g in groups) and req.rules.compressed_layout != "packed":
        return tuple_block_bytes(groups)
    return block


def _demands(groups: Sequence[Group]) -> tuple[Demand, ...]:
    counts: dict[tuple[object, ...], tuple[Page, int]] = {}
    for group in groups:
        key = group.page.uniform_key
        counts[key] = (group.page, counts.get(key, (group.page, 0))[1] + 1)
    return tuple(Demand(page=page, groups=n) for page, n in counts.values())


def _rows(groups: Sequence[Group], demands: Sequence[Demand]) -> tuple[GroupRow, ...]:
    index = {d.page.uniform_key: i for i, d in enumerate(demands)}
    rows: list[GroupRow] = []
    for group in groups:
        row = GroupRow(
            kinds=group.kinds,
            num_layers=len(group.members),
            block=group.page.block,
            page_bytes=group.page_bytes,
            demand=index[group.page.uniform_key],
        )
        if rows and replace(rows[-1], repeats=1) == row:
            rows[-1] = replace(rows[-1], repeats=rows[-1].repeats + 1)
        else:
            rows.append(row)
    return tuple(rows)


def _growing(pages: Sequence[Page], hybrid_off: bool) -> Fraction:
    """The plain sum over growing layers; chunked ones count where the user turned the hybrid manager off."""
    grows = [p for p in pages if p.demand == GROW and (hybrid_off or p.kind != "chunked")]
    return sum((p.token_bytes for p in grows), Fraction(0))


def _counted(pages: Sequence[Page]) -> tuple[tuple[Page, int], ...]:
    counts: dict[Page, int] = {}
    for page in pages:
        counts[page] = counts.get(page, 0) + 1
    return tuple(counts.items())
