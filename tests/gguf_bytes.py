"""GGUF files for tests: metadata and tensors -> the bytes of a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

UINT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT32 = 4, 6, 7, 8, 9, 10, 5
_FORMS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?", UINT64: "<Q"}
_CODES = {"UINT32": UINT32, "INT32": INT32, "FLOAT32": FLOAT32, "BOOL": BOOL, "STRING": STRING, "UINT64": UINT64}


def text(value: str) -> bytes:
    raw = value.encode()
    return pack("<Q", len(raw)) + raw


def _code(value: Any) -> int:
    kinds = {bool: BOOL, int: INT32 if isinstance(value, int) and value < 0 else UINT32, float: FLOAT32, str: STRING}
    return kinds[type(value)]


def _scalar(code: int, value: Any) -> bytes:
    return text(value) if code == STRING else pack(_FORMS[code], value)


def pair(key: str, value: Any) -> bytes:
    if isinstance(value, (list, tuple)):
        code = _code(value[0]) if value else UINT32
        return text(key) + pack("<IIQ", ARRAY, code, len(value)) + b"".join(_scalar(code, entry) for entry in value)
    code = _code(value)
    return text(key) + pack("<I", code) + _scalar(code, value)


def tensor(name: str, shape: Sequence[int], code: int, offset: int = 0) -> bytes:
    dims = b"".join(pack("<Q", d) for d in shape)
    return text(name) + pack("<I", len(shape)) + dims + pack("<IQ", code, offset)


def header(
    metadata: Mapping[str, Any],
    tensors: Sequence[tuple[str, Sequence[int], int]] = (),
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_keys: int | None = None,
    num_tensors: int | None = None,
) -> bytes:
    counts = (
        len(tensors) if num_tensors is None else num_tensors,
        len(metadata) if num_keys is None else num_keys,
    )
    body = b"".join(pair(k, v) for k, v in metadata.items()) + b"".join(tensor(*t) for t in tensors)
    return magic + pack("<IQQ", version, *counts) + body


def reader(raw: bytes):
    """A range reader over `raw` that counts what it gave."""

    def read(start: int, length: int) -> bytes:
        read.given += max(0, min(length, len(raw) - start))  # type: ignore[attr-defined]
        return raw[start : start + length]

    read.given = 0  # type: ignore[attr-defined]
    return read
