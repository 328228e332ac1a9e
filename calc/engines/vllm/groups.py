"""What shares a block table: a group of layers and their pages."""

from __future__ import annotations

from calc.engines.vllm.pages import Page
from onboard.values import Struct

Member = tuple[int, Page]  # (pipeline stage, page)


class LayoutError(ValueError):
    """vLLM stops: the pages cannot be made equal."""


class Group(Struct, frozen=True):
    """Layers that share block tables. `mixed` ones have pages of several widths side by side (UniformType)."""

    members: tuple[Member, ...]
    mixed: bool = False

    @property
    def page(self) -> Page:
        return self.members[0][1]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.kind for _, p in self.members))

    @property
    def page_bytes(self) -> int:
        """vLLM's page size of the group: the sum where widths are mixed."""
        return sum(p.page_bytes for _, p in self.members) if self.mixed else self.page.page_bytes

    def stage_bytes(self, stage: int) -> int:
        """Bytes of one block in the layers of one pipeline stage."""
        return sum(p.page_bytes for s, p in self.members if s == stage)
