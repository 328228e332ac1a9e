"""GGUF files: the bounded header reader, split files, and metadata -> Profile."""

from __future__ import annotations

from onboard.gguf.derive import derive_gguf
from onboard.gguf.reader import GgufHeader, LongArray, RangeReader, TensorInfo, read_header
from onboard.gguf.source import profile_from_files
from onboard.gguf.split import read_split, split_files

__all__ = [
    "GgufHeader",
    "LongArray",
    "RangeReader",
    "TensorInfo",
    "derive_gguf",
    "profile_from_files",
    "read_header",
    "read_split",
    "split_files",
]
