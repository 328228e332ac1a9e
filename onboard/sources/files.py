"""RepoFiles: one repository's listing and bounded reads, the same for a folder and for the Hub."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from onboard.errors import ConfigMissing, TooLarge
from onboard.values import Struct

MAX_TEXT_BYTES = 64 * 2**20  # the largest index.json of a real repository is about 15 MB
MAX_RANGE_BYTES = 128 * 2**20  # safetensors' own limit on a header is 100 MB


class FileEntry(NamedTuple):
    """A file of the repository: path with forward slashes, size in bytes (-1 where the listing does not say)."""

    path: str
    size: int


class RepoFiles(Struct, frozen=True, kw_only=True, dict=True):
    """What a repository holds. `kind` is hub, folder, file or gguf; `revision` the commit, where there is one.

    `fetch(path, start, length)` returns at most `length` bytes of a listed file. Reads name listed files only, so
    a path inside an index or a config can never leave the repository.
    """

    kind: str
    name: str
    revision: str | None
    files: tuple[FileEntry, ...]
    fetch: Callable[[str, int, int], bytes]
    read_from: str = ""
    location: str = ""

    @cached_property
    def sizes(self) -> dict[str, int]:
        return {entry.path: entry.size for entry in self.files}

    def has(self, path: str) -> bool:
        return path in self.sizes

    def read_bytes(self, path: str, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
        """The whole file. Raises ConfigMissing where it is not listed, TooLarge beyond `max_bytes`."""
        self._listed(path)
        if self.sizes[path] > max_bytes:
            raise TooLarge(f"{path} is larger than {max_bytes} bytes", path=path, value=self.sizes[path])
        data = self.fetch(path, 0, max_bytes + 1)
        if len(data) > max_bytes:
            raise TooLarge(f"{path} is larger than {max_bytes} bytes", path=path, value=len(data))
        return data

    def read_text(self, path: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
        """The whole file as text (UTF-8, mark allowed). Raises NotJson, naming the byte, where it is not UTF-8."""
        from onboard.rawjson import decode

        return decode(self.read_bytes(path, max_bytes), path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`; fewer only where the file ends. Raises TooLarge beyond MAX_RANGE_BYTES."""
        self._listed(path)
        if start < 0 or not 0 <= length <= MAX_RANGE_BYTES:
            raise TooLarge(f"a read of {length} bytes of {path} is refused", path=path, value=length)
        return self.fetch(path, start, length) if length else b""

    def _listed(self, path: str) -> None:
        if path not in self.sizes:
            raise ConfigMissing(f"{self.name} has no file {path!r}", path=path, value=self.name)
