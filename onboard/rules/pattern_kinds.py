"""Ways in which layer kinds repeat down a stack. A pattern is data; `labels` gives one label a layer."""

from __future__ import annotations

from onboard.errors import FieldInvalid
from onboard.facts import Facts, whole
from onboard.rules.labels import CHUNKED, FULL, SLIDING
from onboard.values import Struct

LETTERS = {"L": SLIDING, "S": SLIDING, "G": FULL, "F": FULL}


class Pattern:
    """A way to write down which layer is what."""

    def labels(self, facts: Facts, count: int) -> tuple[str, ...] | None:
        """One label a layer, or None where the fields it rests on say nothing."""
        raise NotImplementedError


class Always(Pattern, Struct, frozen=True):
    """One kind for every layer, whatever other fields hint at."""

    label: str = FULL

    def labels(self, facts: Facts, count: int) -> tuple[str, ...]:
        return (self.label,) * count


class Every(Pattern, Struct, frozen=True):
    """Layer i is `full` where (i + offset) mod n is 0, and `other` elsewhere.

    `n` is the constant, and `field` a field that replaces it where it is stated; a string there is one letter a
    layer, repeated. `head` and `tail` leading and trailing layers are `full` as well. `from_end` counts i from the
    last layer. Without a window nothing slides.
    """

    n: int = 0
    field: str = ""
    offset: int = 1
    other: str = SLIDING
    full: str = FULL
    head: int = 0
    tail: int = 0
    from_end: bool = False
    switch: str = ""  # a flag that turns `other` off when it is false

    def labels(self, facts: Facts, count: int) -> tuple[str, ...] | None:
        stated = facts.get(self.field) if self.field else None
        if stated is None and not self.n:
            return None
        if self._off(facts):
            return (self.full,) * count
        if isinstance(stated, str):
            return lettered(stated, count, facts.path(self.field))
        every = self.n if stated is None else whole(stated, facts.path(self.field), 0, 2**24)
        if not every:
            return (self.full,) * count
        return tuple(self._label(i, every, count) for i in range(count))

    def _label(self, index: int, every: int, count: int) -> str:
        position = count - 1 - index if self.from_end else index
        full = (position + self.offset) % every == 0 or index < self.head or index >= count - self.tail
        return self.full if full else self.other

    def _off(self, facts: Facts) -> bool:
        if self.switch and facts.get(self.switch) is False:
            return True
        return self.other == SLIDING and facts.get("sliding_window") is None and facts.stated_null("sliding_window")


class SlidesFrom(Pattern, Struct, frozen=True):
    """Layers from `max_window_layers` on slide, where `switch` (if there is one) is on and a window is stated."""

    switch: str = "use_sliding_window"

    def labels(self, facts: Facts, count: int) -> tuple[str, ...]:
        if (self.switch and not facts.get(self.switch)) or facts.get("sliding_window") is None:
            return (FULL,) * count
        first = facts.get("max_window_layers")
        first = count if first is None else first
        return tuple(SLIDING if i >= first else FULL for i in range(count))


class AlternateBelow(Pattern, Struct, frozen=True):
    """Every other layer below `max_window_layers` slides, from the first on, when `use_sliding_window` is on."""

    def labels(self, facts: Facts, count: int) -> tuple[str, ...]:
        limit = facts.get("max_window_layers")
        limit = count if limit is None else limit
        on = bool(facts.get("use_sliding_window")) and facts.get("sliding_window") is not None
        return tuple(SLIDING if on and i % 2 == 0 and i < limit else FULL for i in range(count))


class AllSlide(Pattern, Struct, frozen=True):
    """Every layer slides when `use_sliding_window` is on; `max_window_layers` is not read."""

    def labels(self, facts: Facts, count: int) -> tuple[str, ...]:
        on = bool(facts.get("use_sliding_window")) and facts.get("sliding_window") is not None
        return (SLIDING if on else FULL,) * count


class ByRope(Pattern, Struct, frozen=True):
    """What a layer is follows from whether it rotates positions (`no_rope_layers`: 1 rotates, 0 does not)."""

    rope: str = FULL
    no_rope: str = FULL
    needs: str = ""  # a field without which every layer is full
    switch: str = ""

    def labels(self, facts: Facts, count: int) -> tuple[str, ...]:
        if (self.needs and facts.get(self.needs) is None) or (self.switch and not facts.get(self.switch)):
            return (FULL,) * count
        return tuple(self.rope if rotates else self.no_rope for rotates in rope_layers(facts, count))


class DensePrefix(Pattern, Struct, frozen=True):
    """`first_k_dense_replace` leading layers follow their own period, the rest count from zero again."""

    def labels(self, facts: Facts, count: int) -> tuple[str, ...]:
        prefix = min(facts.get("first_k_dense_replace") or 0, count)
        first = facts.get("prefix_sliding_window_pattern") or 1
        rest = whole(facts.need("sliding_window_pattern"), facts.path("sliding_window_pattern"), 1, 2**24)
        every = [(i, first) for i in range(prefix)] + [(i, rest) for i in range(count - prefix)]
        return tuple(FULL if (i + 1) % n == 0 else SLIDING for i, n in every)


def rope_layers(facts: Facts, count: int) -> tuple[bool, ...]:
    """Which layers rotate positions: the list where there is one, else all but every `no_rope_layer_interval`-th."""
    stated = facts.get("no_rope_layers")
    if stated:
        if len(stated) < count:
            raise FieldInvalid(
                f"no_rope_layers has {len(stated)} entries for {count} layers",
                path=facts.path("no_rope_layers"), value=len(stated), hint="one entry a layer",
            )  # fmt: skip
        return tuple(bool(x) for x in stated[:count])
    interval = facts.get("no_rope_layer_interval")
    return tuple(interval is None or (i + 1) % interval != 0 for i in range(count))


def lettered(pattern: str, count: int, path: str) -> tuple[str, ...]:
    """One letter a layer, repeated: L or S slides, G or F is full."""
    unknown = sorted(set(pattern) - set(LETTERS))
    if unknown or not pattern:
        raise FieldInvalid(f"{path} has {unknown or 'nothing'}", path=path, value=pattern, hint="letters L, S, G, F")
    return tuple(LETTERS[pattern[i % len(pattern)]] for i in range(count))


CHUNKED_BY_ROPE = ByRope(rope=CHUNKED, no_rope=FULL, needs="attention_chunk_size")
