"""DeepSeek V4's groups: pages of several widths packed side by side in one block.

Sources: vLLM 0.33 v1/core/kv_cache_planning.py:914 (_get_packed_kv_cache_groups), :871 (_approximate_gcd); 0.25.1
v1/core/kv_cache_utils.py:1499, :1572, :1277; 0.20.2 the same with one tensor a layer tuple.
"""

from __future__ import annotations

from collections.abc import Sequence

from calc.engines.vllm.groups import Group, LayoutError, Member
from calc.engines.vllm.pages import GROW
from calc.engines.vllm.versions import Rules


def packed_groups(members: Sequence[Member], rules: Rules) -> tuple[Group, ...]:
    """Layers of one block table are a bucket; buckets are cut so that every group covers as many pattern repeats."""
    buckets: dict[tuple[object, ...], list[Member]] = {}
    for member in members:
        buckets.setdefault(member[1].uniform_key, []).append(member)
    ordered = list(buckets.values())
    if rules.compressed_layout != "packed":  # older releases put the growing bucket first, and pad rings to its pages
        ordered.sort(key=lambda b: b[0][1].demand != GROW)
        ordered = _padded_to_first(ordered)
    sized = [_by_page(bucket) for bucket in ordered]
    floor = max(
        (_repeats(s) for s in sized if len(s) > 1 and (_balanced(s) or rules.compressed_layout != "packed")), default=0
    )
    if rules.compressed_layout != "packed":
        floor = _repeats(sized[0])
    cuttable = [_repeats(s) for s in sized if _balanced(s) or rules.compressed_layout != "packed"]
    repeats = _least_padding(cuttable, floor) if floor else 0
    groups: list[Group] = []
    for bucket, sizes in zip(ordered, sized, strict=True):
        count = -(-_repeats(sizes) // repeats) if repeats and _balanced(sizes) else 1
        if count == 1:
            groups.append(Group(tuple(bucket), mixed=True))
            continue
        patterns = list(zip(*sizes.values(), strict=True))
        groups += [Group(tuple(m for p in patterns[i::count] for m in p), mixed=True) for i in range(count)]
    return tuple(groups)


def _by_page(bucket: Sequence[Member]) -> dict[int, list[Member]]:
    sizes: dict[int, list[Member]] = {}
    for member in bucket:
        sizes.setdefault(member[1].page_bytes, []).append(member)
    return sizes


def _repeats(sizes: dict[int, list[Member]]) -> int:
    return max(len(members) for members in sizes.values())


def _balanced(sizes: dict[int, list[Member]]) -> bool:
    return len({len(members) for members in sizes.values()}) == 1


def _least_padding(counts: Sequence[int], floor: int) -> int:
    """The chunk size in [floor, max] that pads `counts` least; of equal ones the largest."""
    top = max(counts)
    if floor > top:
        return floor
    return min(range(floor, top + 1), key=lambda d: (sum(-c % d for c in counts), -d))


def _padded_to_first(buckets: list[list[Member]]) -> list[list[Member]]:
    """Before 0.29 a window's page is padded to the next page size of the growing bucket."""
    pages = sorted({p.page_bytes for _, p in buckets[0]})
    padded = [buckets[0]]
    for bucket in buckets[1:]:
        row = []
        for stage, page in bucket:
            larger = [size for size in pages if size >= page.page_bytes]
            if not larger:
                raise LayoutError(f"a page of {page.page_bytes:,} bytes is larger than every growing page")
            row.append((stage, page.padded_to(larger[0])))
        padded.append(row)
    return padded


def tuple_block_bytes(groups: Sequence[Group]) -> int:
    """Bytes that the fit check of 0.20 to 0.28 charges for one block: the growing pages' sum x the most repeats."""
    first = _by_page(groups[0].members)
    return sum(first) * max(_repeats(_by_page(g.members)) for g in groups)


def slot_block_bytes(groups: Sequence[Group]) -> int:
    """Bytes of a block where groups share slots of equal pages (0.23 to 0.28)."""
    slots: dict[int, int] = {}
    for group in groups:
        for size, members in _by_page(group.members).items():
            slots[size] = max(slots.get(size, 0), len(members))
    return sum(size * count for size, count in slots.items())
