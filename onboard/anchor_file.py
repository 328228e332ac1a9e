"""Anchors: what an engine printed (or nvidia-smi showed), with the flags it ran with.

    anchors:
    - id: v01
      thread: vllm-project/vllm#10517
      engine: vllm
      version: "0.6.4"
      model: meta-llama/Llama-3.1-8B-Instruct
      flags: {"tensor_parallel_size": 1, "gpu_memory_utilization": 0.9, ...}
      printed: {"available_gib": 3.81, "kv_tokens": 31232}
      source: https://...

`printed` holds figures as printed, in the unit the name ends with; nothing derived. `how` says of a flag or figure
how it
is known where the log does not print it ("defaulted", "compose file", "not printed"). `link` is the class of card that
runtime memory depends on. `thread` groups anchors of one origin: cross-validation leaves out whole threads. Reading
and writing here; whether an anchor can be true is `anchor_checks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from onboard.anchor_values import check_values
from onboard.anchors import anchor_files
from onboard.catalog_schemas import keep_schemas
from onboard.errors import BadAnchor
from onboard.values import Struct, field, fields
from onboard.yamlio import load_cached, write_atomic

ENGINES = ("vllm", "llamacpp", "sglang")
SETS = ("boots", "specification")
LINKS = ("pcie", "nvlink", "unified", "rocm")
HEADER = "# yaml-language-server: $schema=../../schema/anchor.schema.json\n"


class Anchor(Struct, frozen=True, kw_only=True):
    """One measured boot. Fields that only some logs give are in `flags`, `printed` and `geometry`, absent where
    unknown.
    """

    id: str
    set: str
    engine: str
    version: str
    model: str
    flags: Mapping[str, Any]
    printed: Mapping[str, Any]
    source: str
    thread: str
    version_text: str = ""
    model_text: str = ""
    v0: bool = False
    card: str = ""
    product: str = ""
    link: str = "pcie"
    weights: str = ""
    geometry: Mapping[str, Any] = field(default_factory=dict)
    multimodal: bool = False
    how: Mapping[str, str] = field(default_factory=dict)
    log_form: str = ""
    compose: str = ""
    booted: bool = True
    note: str = ""

    def known(self, *flags: str) -> bool:
        """Whether each flag is stated, by the log or by the version's default, and not merely assumed."""
        return all(f in self.flags and self.how.get(f) not in ("assumed", "not printed") for f in flags)


_FIELDS = {f.name: f for f in fields(Anchor)}
_REQUIRED = ("id", "thread", "engine", "model", "flags", "printed", "source")


def anchor_of(data: Mapping[str, Any], where: str = "anchor") -> Anchor:
    """Build an anchor from its mapping. Raises BadAnchor, naming the field, where the mapping is not one."""
    if not isinstance(data, Mapping):
        raise BadAnchor(f"{where} is not a mapping", path=where, value=data)
    for name in data:
        if name not in _FIELDS:
            raise BadAnchor(
                f"an anchor has no field {name!r}", path=f"{where}.{name}", hint="it has " + ", ".join(_FIELDS)
            )
    for name in _REQUIRED:
        if not data.get(name):
            raise BadAnchor(f"{where} states no {name}", path=f"{where}.{name}", hint=f"add {name}")
    for name, value in data.items():
        wants = str(_FIELDS[name].type)
        expected: type = bool if wants == "bool" else Mapping if wants.startswith("Mapping") else str
        if not isinstance(value, expected):
            raise BadAnchor(
                f"{where}.{name} must be a {expected.__name__.lower()}", path=f"{where}.{name}", value=value
            )
    check_values(data, where)
    return Anchor(**{"set": "boots", "version": "", **data})


def read_anchors(path: Path) -> tuple[Anchor, ...]:
    """The anchors of one file. Raises BadAnchor or what the YAML loader raises."""
    data = load_cached(path)
    if not isinstance(data, Mapping) or not isinstance(data.get("anchors"), list):
        raise BadAnchor(f"{path.name} needs a list of `anchors`", path=path.name)
    return tuple(anchor_of(a, f"{path.name}[{i}]") for i, a in enumerate(data["anchors"]))


def load_anchors(catalog: str | None = None) -> tuple[Anchor, ...]:
    """Every anchor of the shipped and the user's catalogue; the user's wins where an id stands in both."""
    found: dict[str, Anchor] = {}
    for path in anchor_files(catalog):
        found.update((a.id, a) for a in read_anchors(path))
    return tuple(found.values())


def dump_anchors(path: Path, anchors: Iterable[Mapping[str, Any]]) -> None:
    """Write anchors: a block an anchor, its mappings in flow style, so a line is a field."""
    lines = [HEADER + "anchors:"]
    for anchor in anchors:
        for i, (name, value) in enumerate(anchor.items()):
            lines.append(f"{'- ' if i == 0 else '  '}{name}: {json.dumps(value, ensure_ascii=False)}")
    write_atomic(path, "\n".join(lines) + "\n")


def append_anchor(catalog: Path, data: Mapping[str, Any]) -> Path:
    """Add one anchor to the user's catalogue, in the file of its thread, and return that file. Raises BadAnchor if it
    is not one.
    """
    from re import sub

    anchor = anchor_of(data)
    name = sub(r"[^a-z0-9.]+", "-", anchor.thread.lower()).strip("-.") or "local"
    path = catalog / "calibration" / anchor.engine / f"{name[:80]}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept: list[Mapping[str, Any]] = []
    if path.is_file():
        kept = [a for a in load_cached(path)["anchors"] if a.get("id") != anchor.id]
    keep_schemas(catalog)
    dump_anchors(path, [*kept, data])
    return path
