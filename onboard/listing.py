"""Every profile of the catalogue in one line each."""

from __future__ import annotations

from typing import Any

from onboard import catalog as catalogue
from onboard.anchors import Counts, anchors_of, count_anchors
from onboard.errors import Refusal
from onboard.inspection import layer_counts
from onboard.status import status_of
from onboard.values import Struct


class Entry(Struct, frozen=True):
    """One line: `layers` in words; `status` is `unreadable` where the file is refused."""

    id: str
    status: str
    num_anchors: int
    layers: str
    source: str

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": self.status,
            "num_anchors": self.num_anchors,
            "layers": self.layers,
            "source": self.source,
        }


def entries(catalog: str | None = None) -> list[Entry]:
    """A line for every id, sorted."""
    counts = count_anchors(catalog)
    return [_entry(model_id, counts, catalog) for model_id in catalogue.ids(catalog)]


def _entry(model_id: str, counts: Counts, catalog: str | None) -> Entry:
    try:
        loaded = catalogue.load(model_id, catalog)
    except Refusal as refusal:
        return Entry(model_id, "unreadable", 0, refusal.message, "")
    num = anchors_of(loaded.generated, counts)
    kinds = layer_counts(loaded.effective)
    words = ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n and kind != "total")
    return Entry(model_id, status_of(loaded.generated, num).name, num, words, loaded.generated.source.name)
