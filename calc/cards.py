"""The card database: one file a card in `cards/`, nominal and usable memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from calc.units import GIB
from onboard.catalog_paths import shipped
from onboard.errors import UnknownCard, UsageError
from onboard.values import Struct
from onboard.yamlio import load_cached


class Card(Struct, frozen=True):
    """`vram_bytes` is the nominal size, `usable_bytes` what torch reports as total memory; budgets use the latter.

    `compute_capability` is (major, minor) for CUDA cards, (0, 0) where unknown; `kind` is consumer, workstation,
    datacentre or unified; `nvlink` says whether cards of this kind usually sit on NVLink. `nvidia_smi_mib` is
    `memory.total` of nvidia-smi, from which SGLang computes its automatic fraction; None where there is no such tool.
    `usable_source` is measured, estimated (the card's file states the rule) or stated (`--vram`). Cards of kind
    unified share their memory with the operating system, which `note` says.
    """

    name: str
    vram_bytes: int
    usable_bytes: int
    compute_capability: tuple[int, int] = (0, 0)
    kind: str = "unknown"
    nvlink: bool = False
    product: str = ""  # the device name that torch prints
    nvidia_smi_mib: int | None = None
    usable_source: str = "stated"
    note: str = ""


def card_names() -> tuple[str, ...]:
    """Every card of the database, in order."""
    return tuple(sorted(p.stem for p in shipped("cards").glob("*.yaml")))


@lru_cache(maxsize=256)
def load_card(name: str) -> Card:
    """The card of that name, read once a process. Raises UnknownCard with the nearest names."""
    path = shipped("cards") / f"{name}.yaml"
    if "/" in name or not path.is_file():
        from difflib import get_close_matches

        near = get_close_matches(name, card_names(), n=3, cutoff=0.4) or card_names()[:5]
        raise UnknownCard(
            f"no card is called {name!r}",
            path="--card",
            value=name,
            hint=f"did you mean {', '.join(near)}? or give --vram GIB",
        )
    data: dict[str, Any] = load_cached(path)
    major, minor = data.get("compute_capability", [0, 0])
    return Card(
        name=name,
        vram_bytes=data["vram_bytes"],
        usable_bytes=data["usable_bytes"],
        compute_capability=(major, minor),
        kind=data["kind"],
        nvlink=bool(data.get("nvlink", False)),
        product=data["product"],
        nvidia_smi_mib=data.get("nvidia_smi_mib"),
        usable_source=data["usable_source"],
        note=data.get("note", ""),
    )


def card_of(name: str | None, vram_gib: float | None) -> Card:
    """The card a plan names. `--vram 24` alone means 24 GiB, all usable."""
    if name is not None and vram_gib is not None:
        raise UsageError("give --card or --vram, not both", path="--vram", value=vram_gib)
    if name is not None:
        return load_card(name)
    if vram_gib is None:
        raise UsageError("no card given", path="--card", hint="--card rtx-3090, or --vram 24")
    if not 0 < vram_gib < 10_000:
        raise UsageError("--vram is in GiB, from 0 to 10,000", path="--vram", value=vram_gib)
    size = round(vram_gib * GIB)
    return Card(name=f"{vram_gib:g} GiB", vram_bytes=size, usable_bytes=size)
