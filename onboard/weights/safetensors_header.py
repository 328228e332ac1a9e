"""Safetensors headers, bounded: names, dtypes, shapes and byte ranges without the data.

Format: 8 bytes little-endian header length, that much JSON, then the data; offsets are relative to the data, cover it
without gaps or overlaps (safetensors 0.8, `SafeTensors::deserialize` and `Metadata::validate`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from onboard.errors import BadHeader
from onboard.values import Struct

ReadRange = Callable[[str, int, int], bytes]  # path, start, length -> at most that many bytes
Progress = Callable[[int, int], None]  # files done, files in all

MAX_HEADER_BYTES = 32 * 2**20
MAX_DIMS = 16
MAX_FILE_BYTES = 2**53
FIRST_READ = 16 * 2**10
LARGEST_READ = 256 * 2**10
WORKERS = 16

DTYPE_BITS: dict[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip


class Tensor(Struct, frozen=True):
    """One tensor as stored: `elements` are storage elements, which hold several weights where packed."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int

    @property
    def elements(self) -> int:
        return prod(self.shape)


def read_headers(
    files: Sequence[tuple[str, int | None]], read_range: ReadRange, progress: Progress | None = None
) -> dict[str, tuple[Tensor, ...]]:
    """The tensors of each (path, size), read side by side. Raises BadHeader, naming the file.

    The first file is read alone: its header's length sets how much is asked of the others at once, so that most need
    one request and little is fetched in vain.
    """
    from concurrent.futures import ThreadPoolExecutor, as_completed

    found: dict[str, tuple[Tensor, ...]] = {}
    if not files:
        return found
    path, size = files[0]
    found[path], length = _read_one(path, size, read_range, FIRST_READ)
    if progress:
        progress(1, len(files))
    guess = min(LARGEST_READ, (length + 8) * 9 // 8)
    with ThreadPoolExecutor(max_workers=min(WORKERS, len(files))) as pool:
        jobs = {pool.submit(_read_one, p, s, read_range, guess): p for p, s in files[1:]}
        try:
            for done, job in enumerate(as_completed(jobs), start=2):
                found[jobs[job]] = job.result()[0]
                if progress:
                    progress(done, len(files))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def read_header(path: str, size: int | None, read_range: ReadRange) -> tuple[Tensor, ...]:
    """The tensors of one file. Raises BadHeader, naming what cannot be true."""
    return _read_one(path, size, read_range, FIRST_READ)[0]


def _read_one(path: str, size: int | None, read_range: ReadRange, first_read: int) -> tuple[tuple[Tensor, ...], int]:
    wanted = first_read if size is None else min(first_read, size)
    start = read_range(path, 0, wanted)[:wanted] if wanted > 0 else b""
    if len(start) < 8:
        raise BadHeader(
            f"{path} ends before its header's length", path=path, value=len(start), hint="download it again"
        )
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER_BYTES or (size is not None and length > size - 8):
        raise BadHeader(
            f"{path} claims a header of {length} bytes",
            path=path,
            value=length,
            hint=f"a header fits its file and is at most {MAX_HEADER_BYTES} bytes",
        )
    body = start[8 : 8 + length]
    if len(body) < length:
        body += read_range(path, 8 + len(body), length - len(body))[: length - len(body)]
    if len(body) < length:
        raise BadHeader(f"{path} stops inside its header", path=path, value=8 + len(body), hint="download it again")
    return parse_header(body, path, None if size is None else size - 8 - length), length


def parse_header(body: bytes, path: str, data_bytes: int | None) -> tuple[Tensor, ...]:
    """The tensors a header states, in file order. `data_bytes` is the size of what follows, where known."""
    try:
        parsed = json.loads(body.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except BadHeader as error:
        raise BadHeader(f"{path}: {error.message}", path=path, value=error.value, hint=error.hint) from None
    except RecursionError:
        raise BadHeader(f"{path}: the header nests too deeply", path=path, hint="a header nests three levels") from None
    except ValueError as error:
        raise BadHeader(f"{path}: the header is not JSON ({str(error)[:80]})", path=path) from None
    if not isinstance(parsed, dict):
        raise BadHeader(f"{path}: the header is not a mapping", path=path, value=type(parsed).__name__)
    parsed.pop("__metadata__", None)
    entries = sorted((_entry(path, name, value) for name, value in parsed.items()), key=lambda e: e[1:])
    position = 0
    for tensor, begin, end in entries:
        if begin != position:
            how = "overlaps the tensor before it" if begin < position else "leaves a gap before it"
            raise BadHeader(f"{path}: {tensor.name} {how}", path=f"{path}:{tensor.name}", value=begin)
        position = end
    if data_bytes is not None and position != data_bytes:
        raise BadHeader(
            f"{path}: tensors end at byte {position} of the data, the file holds {data_bytes}",
            path=path,
            value=position,
            hint="the file is cut off or was appended to; download it again",
        )
    return tuple(tensor for tensor, _, _ in entries)


def _entry(path: str, name: str, value: Any) -> tuple[Tensor, int, int]:
    where = f"{path}:{name[:200]}"
    if not isinstance(value, dict):
        raise BadHeader(f"{path}: the entry of {name[:200]} is not a mapping", path=where, value=value)
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        hint = "known: " + ", ".join(DTYPE_BITS)
        raise BadHeader(f"{path}: {name[:200]} has an unknown dtype", path=where, value=dtype, hint=hint)
    dims, span = _naturals(shape), _naturals(offsets)
    if dims is None or len(dims) > MAX_DIMS:
        raise BadHeader(f"{path}: {name[:200]} has no valid shape", path=where, value=shape)
    if span is None or len(span) != 2 or span[1] < span[0]:
        raise BadHeader(f"{path}: {name[:200]} has no valid data_offsets", path=where, value=offsets)
    size = span[1] - span[0]
    if -(-prod(dims) * DTYPE_BITS[dtype] // 8) != size:
        raise BadHeader(f"{path}: {name[:200]} is {dtype} {shape} and occupies {size} bytes", path=where, value=size)
    return Tensor(name, dtype, dims, size), span[0], span[1]


def _naturals(values: Any) -> tuple[int, ...] | None:
    if isinstance(values, list) and all(type(v) is int and 0 <= v <= MAX_FILE_BYTES for v in values):
        return tuple(values)
    return None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadHeader(f"the name {key[:200]} stands twice", value=key, hint="each tensor has one entry")
            seen.add(key)
    return mapping


def _no_constant(text: str) -> Any:
    raise BadHeader(f"the header holds {text}, which is not JSON", value=text)
