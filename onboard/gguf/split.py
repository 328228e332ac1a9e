"""Models split over several files: `<name>-00001-of-0000N.gguf` (llama.cpp's gguf-split)."""

from __future__ import annotations

import re
from collections.abc import Callable

from onboard.errors import BadGguf, MissingShard
from onboard.gguf.reader import GgufHeader, RangeReader, read_header

MAX_SPLITS = 10_000
_SPLIT = re.compile(r"^(?P<stem>.*)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf$")


def split_files(name: str) -> tuple[str, ...]:
    """Every file of the model that `name` belongs to, in order; just `name` where it is not split."""
    match = _SPLIT.match(name)
    if match is None:
        return (name,)
    count = int(match["count"])
    if not 1 <= int(match["no"]) <= count <= MAX_SPLITS:
        raise BadGguf(f"{name} is not a possible part of a split model", path=name, value=name)
    return tuple(f"{match['stem']}-{i:05d}-of-{count:05d}.gguf" for i in range(1, count + 1))


def read_split(name: str, open_file: Callable[[str], RangeReader | None]) -> GgufHeader:
    """The header of the whole model: metadata of the first file, tensors of all.

    `open_file` gives a range reader for a file name, or None where there is no such file. Raises MissingShard for a
    part that is not there, BadGguf where the parts do not belong together.
    """
    names = split_files(name)
    headers: list[GgufHeader] = []
    for index, part in enumerate(names):
        reader = open_file(part)
        if reader is None:
            raise MissingShard(f"{part} is missing, one of {len(names)} parts", path=part, hint="download every part")
        header = read_header(reader)
        stated = header.metadata.get("split.count", 1)
        if stated not in (len(names), 0) or (len(names) > 1 and header.metadata.get("split.no", index) != index):
            raise BadGguf(
                f"{part} says it is one of {stated} parts, its name says number {index + 1} of {len(names)}",
                path="split.count",
                value=stated,
                hint="give the first file of the split model, under its own name",
            )
        headers.append(header)
    tensors = tuple(t for h in headers for t in h.tensors)
    if len({t.name for t in tensors}) != len(tensors):
        raise BadGguf("a tensor stands in two parts of the split model", path=name)
    expected = headers[0].metadata.get("split.tensors.count", len(tensors))
    if expected != len(tensors):
        message = f"{len(tensors)} tensors, where the file says {expected}"
        raise BadGguf(message, path="split.tensors.count", value=expected)
    return GgufHeader(headers[0].metadata, tensors, sum(h.header_bytes for h in headers))
