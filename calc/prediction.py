"""What a prediction is made of. Frozen values, integer bytes; text and units are `report`'s."""

from __future__ import annotations

from typing import Any

from calc.cards import Card
from calc.plan import Plan
from onboard.values import Struct, asdict, field


class Term(Struct, frozen=True, kw_only=True):
    """One line of the sum, in bytes per card. `rule` is the line of arithmetic that gives it, redone by hand.

    An exact term has low = bytes = high. `origin`: header, config, rule, anchor, override, default, option.
    """

    name: str
    bytes: int
    rule: str
    origin: str = "rule"
    inside_budget: bool = True
    low_bytes: int | None = None
    high_bytes: int | None = None

    @property
    def low(self) -> int:
        return self.bytes if self.low_bytes is None else self.low_bytes

    @property
    def high(self) -> int:
        return self.bytes if self.high_bytes is None else self.high_bytes

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "bytes": self.bytes, "low_bytes": self.low, "high_bytes": self.high,
            "inside_budget": self.inside_budget, "origin": self.origin, "rule": self.rule,
        }  # fmt: skip


class Reason(Struct, frozen=True):
    """Why an engine would not start, or would not hold what was asked. `kind` is the contract's word."""

    kind: str
    message: str


class Note(Struct, frozen=True):
    """What a reader must know: a default that was used, a rule that stands in, advice."""

    kind: str
    message: str


class Parts(Struct, frozen=True, kw_only=True):
    """A cache split by what makes it grow. The four add up to the whole."""

    growing: int = 0
    window: int = 0
    state: int = 0
    padding: int = 0

    @property
    def total(self) -> int:
        return self.growing + self.window + self.state + self.padding

    def __mul__(self, n: int) -> Parts:
        return Parts(growing=self.growing * n, window=self.window * n, state=self.state * n, padding=self.padding * n)


class PoolGroup(Struct, frozen=True, kw_only=True):
    """Layers that share page tables (vLLM)."""

    kinds: tuple[str, ...]
    num_layers: int
    block_size: int
    page_bytes: int
    num_blocks_per_request: int


class PoolCache(Struct, frozen=True, kw_only=True):
    """One separate cache (llama.cpp, SGLang) as its log line prints it."""

    name: str
    num_layers: int = 0
    num_cells: int = 0
    k_bytes: int = 0
    v_bytes: int = 0
    num_slots: int = 0
    bytes: int = 0


class Pool(Struct, frozen=True, kw_only=True):
    """The cache pool once the engine is up, in the words its log uses."""

    bytes: int = 0
    num_blocks: int = 0
    block_size: int = 0
    num_groups: int = 0
    tokens: int = 0
    max_concurrency: float = 0.0
    groups: tuple[PoolGroup, ...] = ()
    caches: tuple[PoolCache, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


class CachePlan(Struct, frozen=True, kw_only=True):
    """An engine's answer about the cache, for the pool it was given.

    `one` is what one request of max_model_len reserves (its total is `request_bytes`), `asked` the same for every
    sequence asked for. `fixed` are bytes the pool keeps back whatever is asked (vLLM's null block).
    `allocated_at_start` are the cache bytes an engine takes before it serves anything, where that is more than one
    request (llama.cpp makes every slot). `max_model_len_that_fits` is the engine's own estimate for one request (0
    where nothing fits).
    """

    growing_bytes_per_token: int | float
    one: Parts
    asked: Parts
    pool: Pool
    max_model_len_that_fits: int
    fixed: tuple[Term, ...] = ()
    allocated_at_start: int = 0
    state_bytes_per_sequence: int = 0
    window_bytes_per_sequence: int = 0
    reasons: tuple[Reason, ...] = ()
    tight: tuple[Reason, ...] | None = (
        None  # why it holds less than asked, from pools that cannot trade; None: bytes decide
    )
    notes: tuple[Note, ...] = ()
    explain: tuple[tuple[str, str], ...] = ()  # (part name, line of arithmetic)


class Device(Struct, frozen=True, kw_only=True):
    """One device's share, where devices differ (llama.cpp) or the host takes part."""

    name: str
    weights_bytes: int = 0
    context_bytes: int = 0
    compute_bytes: int = 0


class Resolved(Struct, frozen=True, kw_only=True):
    """A plan with every knob filled in as that engine version would, and the notes that say so.

    `derived` holds what the engine computes from knobs (max_in_flight_tokens, mamba mode ...), by name.
    """

    plan: Plan
    engine: str
    version: tuple[int, ...]
    version_text: str
    card: Card
    derived: dict[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    reasons: tuple[Reason, ...] = ()


class Prediction(Struct, frozen=True, kw_only=True):
    """Bytes per card, term by term, and the verdict."""

    model: str
    resolved: Resolved
    terms: tuple[Term, ...]
    cache: CachePlan
    minimum_bytes: int
    needed_bytes: int
    reserved_bytes: int
    budget_bytes: int
    headroom_bytes: int
    verdict: str
    reasons: tuple[Reason, ...]
    notes: tuple[Note, ...]
    calibration: dict[str, Any]
    devices: tuple[Device, ...] = ()

    @property
    def outside_bytes(self) -> int:
        """What the card holds beside the engine's budget: `minimum` and `needed` contain it, the budget does not."""
        return sum(t.bytes for t in self.terms if not t.inside_budget)

    @property
    def headroom_inside_bytes(self) -> int:
        """Budget less what one request needs inside it: the figure the engine's own check rests on."""
        return self.headroom_bytes + self.outside_bytes

    def to_json(self) -> dict[str, Any]:
        """`calc predict --json`."""
        resolved, cache, pool = self.resolved, self.cache, self.cache.pool
        return {
            "schema_version": 1,
            "model": self.model,
            "engine": {"name": resolved.engine, "version": resolved.version_text},
            "card": {**asdict(resolved.card), "compute_capability": list(resolved.card.compute_capability)},
            "plan": {**resolved.plan.to_json(), **resolved.derived},
            "terms": [t.to_json() for t in self.terms],
            "cache": {
                "growing_bytes_per_token": cache.growing_bytes_per_token,
                "request_bytes": cache.one.total,
                "state_bytes_per_sequence": cache.state_bytes_per_sequence,
                "window_bytes_per_sequence": cache.window_bytes_per_sequence,
            },
            "kv_pool": {
                **pool.extra,
                "bytes": pool.bytes, "num_blocks": pool.num_blocks, "block_size": pool.block_size,
                "num_groups": pool.num_groups, "tokens": pool.tokens, "max_concurrency": pool.max_concurrency,
                "groups": [{**asdict(g), "kinds": list(g.kinds)} for g in pool.groups],
                "caches": [asdict(c) for c in pool.caches],
            },
            "devices": [asdict(d) for d in self.devices],
            "minimum_bytes": self.minimum_bytes, "needed_bytes": self.needed_bytes,
            "reserved_bytes": self.reserved_bytes,
            "budget_bytes": self.budget_bytes, "headroom_bytes": self.headroom_bytes,
            "outside_bytes": self.outside_bytes, "headroom_inside_bytes": self.headroom_inside_bytes,
            "max_model_len_that_fits": cache.max_model_len_that_fits,
            "verdict": self.verdict,
            "reasons": [asdict(r) for r in self.reasons],
            "calibration": self.calibration,
            "notes": [asdict(n) for n in self.notes],
        }  # fmt: skip
