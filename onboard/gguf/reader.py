"""The header of a GGUF file: metadata and tensor list, from a range reader or a local file; the data is never read.

Layout (ggml gguf.h, version 3, little-endian): magic, version, tensor count, key count, pairs of key and typed
value, then name, shape, type and offset of every tensor. Versions 1 and 2, big-endian files, wrong magic, nested
arrays, repeated keys and files that end early are refused. Memory is bounded whatever the counts in the file say:
a long array (a tokenizer's) is walked and only its length kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from struct import unpack_from
from typing import Any

from onboard.errors import BadGguf
from onboard.gguf.types import GGML_TYPES
from onboard.values import Struct

RangeReader = Callable[[int, int], bytes]  # (start, length) -> at most that many bytes; fewer only at the end

MAGIC = b"GGUF"
VERSION = 3
MAX_HEADER_BYTES = 256 * 2**20
MAX_KEYS = 2**16
MAX_TENSORS = 2**17
MAX_KEY_BYTES = 2**16
MAX_STRING_BYTES = 16 * 2**20
MAX_ARRAY_ENTRIES = 2**26
MAX_KEPT_ENTRIES = 2**14  # longer arrays are a tokenizer's; no per-layer array is near this
MAX_DIMS = 4
FIRST_CHUNK, LARGEST_CHUNK = 2**18, 2**22

_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS: dict[int, tuple[str, int]] = {
    0: ("<B", 1), 1: ("<b", 1), 2: ("<H", 2), 3: ("<h", 2), 4: ("<I", 4), 5: ("<i", 4), 6: ("<f", 4), 7: ("<B", 1),
    10: ("<Q", 8), 11: ("<q", 8), 12: ("<d", 8),
}  # fmt: skip


class LongArray(Struct, frozen=True):
    """An array too long to keep: its number of entries."""

    num_entries: int


class TensorInfo(Struct, frozen=True):
    """One tensor: shape as ggml orders it (row first), ggml type name, bytes as stored, offset in the data part."""

    name: str
    shape: tuple[int, ...]
    ggml_type: str
    num_bytes: int
    offset: int = 0

    @property
    def num_elements(self) -> int:
        return prod(self.shape)


class GgufHeader(Struct, frozen=True):
    """`metadata` holds int, float, bool, str, a tuple of these, or a LongArray."""

    metadata: Mapping[str, Any]
    tensors: tuple[TensorInfo, ...]
    header_bytes: int = 0

    @property
    def tensor_bytes(self) -> int:
        return sum(t.num_bytes for t in self.tensors)


def read_header(source: RangeReader | Path | str) -> GgufHeader:
    """Read the header of one file. Raises BadGguf, naming the field, its value and the place."""
    if not callable(source):
        with Path(source).open("rb") as file:

            def read(start: int, length: int) -> bytes:
                file.seek(start)
                return file.read(length)

            return _Cursor(read).header()
    return _Cursor(source).header()


class _Cursor:
    """A position in the header, with one bounded chunk of it at a time."""

    def __init__(self, read: RangeReader) -> None:
        self._read = read
        self._chunk = b""
        self._start = 0  # file offset of the chunk
        self._at = 0  # offset in the chunk
        self._step = FIRST_CHUNK

    @property
    def position(self) -> int:
        return self._start + self._at

    def header(self) -> GgufHeader:
        num_tensors, num_keys = self._counts()
        metadata: dict[str, Any] = {}
        for _ in range(num_keys):
            key = self._text("key", MAX_KEY_BYTES, strict=True)
            if key in metadata:
                raise BadGguf(f"the key {key!r} stands twice", path=key)
            metadata[key] = self._value(key, self._scalar(4))
        tensors: dict[str, TensorInfo] = {}
        for index in range(num_tensors):
            tensor = self._tensor(index)
            if tensor.name in tensors:
                raise BadGguf(f"the tensor {tensor.name!r} stands twice", path=tensor.name)
            tensors[tensor.name] = tensor
        return GgufHeader(metadata, tuple(tensors.values()), self.position)

    def _counts(self) -> tuple[int, int]:
        magic = self._take(4, "magic")
        if magic != MAGIC:
            raise BadGguf(f"not a GGUF file: it begins with {magic!r}", path="magic", value=magic.hex())
        version = self._scalar(4)
        if version != VERSION and version & 0xFFFF == 0:
            raise BadGguf("this GGUF file is big-endian", path="version", value=version, hint="convert it again")
        if version != VERSION:
            raise BadGguf(
                f"GGUF version {version} is not read, only version {VERSION}",
                path="version",
                value=version,
                hint="convert the model again with a current llama.cpp",
            )
        num_tensors, num_keys = self._scalar(10), self._scalar(10)
        bounds = (("tensor_count", num_tensors, MAX_TENSORS), ("metadata_kv_count", num_keys, MAX_KEYS))
        for name, value, most in bounds:
            if value > most:
                raise BadGguf(f"{name} {value} is beyond {most}, which no real file reaches", path=name, value=value)
        return num_tensors, num_keys

    def _tensor(self, index: int) -> TensorInfo:
        name = self._text(f"tensors[{index}].name", MAX_KEY_BYTES, strict=True)
        num_dims = self._scalar(4)
        if not 1 <= num_dims <= MAX_DIMS:
            raise BadGguf(f"tensor {name} has {num_dims} dimensions, not 1 to {MAX_DIMS}", path=name, value=num_dims)
        shape = tuple(self._scalar(10) for _ in range(num_dims))
        kind = GGML_TYPES.get(code := self._scalar(4))
        offset = self._scalar(10)
        if kind is None:
            raise BadGguf(f"tensor {name} has ggml type {code}, which is not known", path=name, value=code)
        if not all(0 < dim < 2**40 for dim in shape) or prod(shape) >= 2**48:
            raise BadGguf(f"tensor {name} has an impossible shape", path=name, value=shape)
        if shape[0] % kind.block:
            message = f"tensor {name}: rows of {shape[0]} are not whole blocks of {kind.name} ({kind.block})"
            raise BadGguf(message, path=name, value=shape)
        return TensorInfo(name, shape, kind.name, prod(shape) // kind.block * kind.block_bytes, offset)

    def _value(self, key: str, code: int) -> Any:
        if code == _STRING:
            return self._text(key, MAX_STRING_BYTES)
        if code == _ARRAY:
            return self._array(key)
        if code not in _SCALARS:
            raise BadGguf(f"{key} has value type {code}, which GGUF does not have", path=key, value=code)
        value = self._scalar(code)
        return bool(value) if code == _BOOL else value

    def _array(self, key: str) -> tuple[Any, ...] | LongArray:
        code, count = self._scalar(4), self._scalar(10)
        if code == _ARRAY:
            raise BadGguf(f"{key} is an array of arrays, which llama.cpp does not read either", path=key)
        if code != _STRING and code not in _SCALARS:
            raise BadGguf(f"{key} holds value type {code}, which GGUF does not have", path=key, value=code)
        if count > MAX_ARRAY_ENTRIES:
            raise BadGguf(f"{key} claims {count} entries, more than {MAX_ARRAY_ENTRIES}", path=key, value=count)
        if count <= MAX_KEPT_ENTRIES:
            return tuple(self._value(key, code) for _ in range(count))
        if code == _STRING:
            for _ in range(count):
                self._skip(self._length(key, MAX_STRING_BYTES), key)
        else:
            self._skip(count * _SCALARS[code][1], key)
        return LongArray(count)

    def _length(self, where: str, most: int) -> int:
        length: int = self._scalar(10)
        if length > most:
            raise BadGguf(f"{where}: a text of {length} bytes is beyond {most}", path=where, value=length)
        return length

    def _text(self, where: str, most: int, *, strict: bool = False) -> str:
        raw = self._take(self._length(where, most), where)
        try:
            return raw.decode("utf-8", "strict" if strict else "replace")
        except UnicodeDecodeError:
            raise BadGguf(f"{where} is not UTF-8", path=where, value=raw[:40].hex()) from None

    def _scalar(self, code: int) -> Any:
        form, size = _SCALARS[code]
        return unpack_from(form, self._take(size, "value"))[0]

    def _skip(self, length: int, where: str) -> None:
        """Move on without keeping; the last skipped byte must exist."""
        if length > len(self._chunk) - self._at:
            if self.position + length > MAX_HEADER_BYTES:
                raise BadGguf(f"the header is longer than {MAX_HEADER_BYTES} bytes", path=where, value=self.position)
            self._start, self._chunk, self._at = self.position + length - 1, b"", 0
            self._take(1, where)
        else:
            self._at += length

    def _take(self, length: int, where: str) -> bytes:
        if length > len(self._chunk) - self._at:
            self._fill(length, where)
        piece = self._chunk[self._at : self._at + length]
        self._at += length
        return piece

    def _fill(self, length: int, where: str) -> None:
        """Read on until `length` bytes lie ahead."""
        if self.position + length > MAX_HEADER_BYTES:
            raise BadGguf(f"the header is longer than {MAX_HEADER_BYTES} bytes", path=where, value=self.position)
        rest = self._chunk[self._at :]
        self._start, self._at = self.position, 0
        more = self._read(self._start + len(rest), max(self._step, length - len(rest)))
        self._step = min(self._step * 2, LARGEST_CHUNK)
        self._chunk = rest + more
        if len(self._chunk) < length:
            raise BadGguf(
                f"the file ends at byte {self._start + len(self._chunk)}, inside its header",
                path=where,
                value=self._start + len(self._chunk),
                hint="the download is not complete",
            )
