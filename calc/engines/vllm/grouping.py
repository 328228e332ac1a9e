"""Layers -> groups that draw blocks from one pool.

Sources: vLLM 0.33 v1/core/kv_cache_planning.py:327 (pages), :416 (groups), :914 (packed groups); 0.11.0
v1/core/kv_cache_utils.py:977; 0.25.1 :1195, :1499, :1572.
"""

from __future__ import annotations

from collections.abc import Sequence

from calc.engines.vllm.groups import Group, LayoutError, Member
from calc.engines.vllm.packed import packed_groups
from calc.engines.vllm.pages import CHUNK, CROSS, GROW, WINDOW, Page
from calc.engines.vllm.versions import Rules
from onboard.values import replace


def group_layers(members: Sequence[Member], rules: Rules) -> tuple[Group, ...]:
    """The groups of the whole model. Raises LayoutError where the release has no way to lay the pages out."""
    if not members:
        return ()
    pages = [page for _, page in members]
    if len({_identity(p) for p in pages}) == 1:
        return (Group(tuple(members)),)
    if len({p.uniform_key for p in pages}) == 1 and not any(p.demand == CROSS for p in pages):
        return (Group(tuple(members), mixed=True),)
    if any(p.tokens_per_row > 1 for p in pages):
        return packed_groups(members, rules)
    return _equal_groups(_unified(members, rules), rules)


def _identity(page: Page) -> Page:
    """A page without the word for its layer: what grows together shares a group, whatever the model computes."""
    return replace(page, kind="")


def _unified(members: Sequence[Member], rules: Rules) -> list[Member]:
    """Every page made as large as the largest: states are padded, attention gets longer blocks or padding."""
    largest = max(p.page_bytes for _, p in members)
    unified: list[Member] = []
    for stage, page in members:
        if page.page_bytes == largest:
            unified.append((stage, page))
        elif page.is_state:
            unified.append((stage, page.padded_to(largest)))
        elif rules.unify_pages == "none":
            raise LayoutError("layers need pages of different sizes, which this release cannot lay out")
        elif largest % page.page_bytes == 0:
            unified.append((stage, page.scaled(largest // page.page_bytes)))
        elif rules.unify_pages == "pad" and not page.latent:
            unified.append((stage, page.padded_to(largest)))
        else:
            raise LayoutError(
                f"a page of {page.page_bytes:,} bytes does not divide {largest:,}, and this release does not pad it"
            )
    return unified


def _equal_groups(members: Sequence[Member], rules: Rules) -> tuple[Group, ...]:
    """Each kind is cut into groups of the smallest kind's number of layers, or the largest's where they are close."""
    buckets: dict[Page, list[Member]] = {}
    for member in members:
        buckets.setdefault(_identity(member[1]), []).append(member)
    sizes = [len(b) for b in buckets.values()]
    size = max(sizes) if max(sizes) < min(sizes) * rules.group_merge_below else min(sizes)
    groups = []
    for bucket in buckets.values():
        count = -(-len(bucket) // size)
        groups += [Group(tuple(bucket[i::count])) for i in range(count)]
    return tuple(groups)


def promoted(members: Sequence[Member], windows: bool) -> list[Member]:
    """Hybrid manager off: where some layers grow, chunks grow too, and windows (kv_cache_planning.py:853)."""
    if not any(p.demand == GROW for _, p in members):
        return list(members)
    local = (WINDOW, CHUNK) if windows else (CHUNK,)
    return [(s, replace(p, demand=GROW, reach=0) if p.demand in local else p) for s, p in members]


def padded_layers_percent(groups: Sequence[Group]) -> list[tuple[int, float]]:
    """(layers added, percent) of the log line "Add n padding layers", one a kind that is short."""
    size = max((len(g.members) for g in groups), default=0)
    totals: dict[Page, int] = {}
    for group in groups:
        if not group.mixed:
            totals[group.page] = totals.get(group.page, 0) + len(group.members)
    return [(-n % size, 100 * (-n % size) / n) for n in totals.values() if -n % size]
