"""A folder, or a single file, on this machine -> RepoFiles."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from onboard.errors import ConfigMissing, TooLarge, UnknownModel
from onboard.sources.files import FileEntry, RepoFiles

MAX_FILES = 100_000  # that a model may consist of
MAX_SCANNED = 2_000_000  # names that are looked at
_MODEL_FILE = re.compile(
    r"\.(json|safetensors|bin|gguf|pth?|ckpt|h5|msgpack|onnx(_data)?|npz|nemo|txt|model|py)$", re.I
)
MAX_FOLDERS_DEEP = 4
_SNAPSHOT = re.compile(r"^models--(?P<repo>[^/]+)$")
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
_COMMIT = re.compile(r"^[0-9a-f]{40}$")


def from_folder(folder: Path) -> RepoFiles:
    """List a folder. A Hub cache's snapshot keeps its repo id and commit; `org__name` is read as org/name.

    A `source.txt` beside the config (one line: where the copy was read) becomes `read_from`.
    """
    root = folder.resolve()
    name, revision = _repo_of(root)
    return RepoFiles(
        kind="folder",
        name=name,
        revision=revision,
        files=tuple(sorted(_walk(root), key=lambda entry: entry.path)),
        fetch=_reader(root),
        read_from=_note(root),
        location=str(folder),
    )


def from_file(file: Path) -> RepoFiles:
    """A single config.json, params.json or .gguf. Its name is the file's, or the folder's for a config."""
    size = _size(file)
    gguf = file.suffix.lower() == ".gguf"
    whole = file.resolve()
    name, revision = (file.stem, None) if gguf else _repo_of(whole.parent)
    return RepoFiles(
        kind="gguf" if gguf else "file",
        name=name,
        revision=revision,
        files=(FileEntry(file.name, size), *_other_parts(whole.parent, file.name)),
        fetch=_reader(whole.parent),
        read_from="" if gguf else _note(whole.parent),
        location=str(file),
    )


def _other_parts(folder: Path, name: str) -> tuple[FileEntry, ...]:
    """The other files of a split GGUF that lie beside it; () where the name is not a part's."""
    stem = split_stem(name)
    if stem == name:
        return ()
    beside = sorted(p for p in folder.glob("*.gguf") if p.name != name and split_stem(p.name) == stem)
    return tuple(FileEntry(p.name, _size(p)) for p in beside)


def split_stem(name: str) -> str:
    """A part's name without its number (`m-00001-of-00003.gguf` -> `m-of-00003.gguf`); other names as they are."""
    return _PART.sub(r"-of-\1.gguf", name)


def _repo_of(root: Path) -> tuple[str, str | None]:
    if _COMMIT.match(root.name) and root.parent.name == "snapshots":
        found = _SNAPSHOT.match(root.parent.parent.name)
        if found:
            return found["repo"].replace("--", "/", 1), root.name
    org, between, name = root.name.partition("__")
    return (f"{org}/{name}", None) if between and org and name else (root.name or "model", None)


def _walk(root: Path) -> list[FileEntry]:
    """The files that a model can consist of, at most MAX_FILES; what else lies in the folder is not kept."""
    entries: list[FileEntry] = []
    folders, scanned = [(root, 0)], 0
    while folders:
        folder, depth = folders.pop()
        try:
            found = os.scandir(folder)
        except OSError as error:
            if folder == root:
                raise UnknownModel(f"{root} cannot be read: {error.strerror}", path="SOURCE", value=str(root)) from None
            continue
        with found:
            for entry in found:
                scanned += 1
                if entry.is_dir(follow_symlinks=False):
                    if depth < MAX_FOLDERS_DEEP and not entry.name.startswith("."):
                        folders.append((Path(entry.path), depth + 1))
                elif _MODEL_FILE.search(entry.name) and (size := _size_of(entry)) is not None:
                    entries.append(FileEntry(Path(entry.path).relative_to(root).as_posix(), size))
                if len(entries) > MAX_FILES or scanned > MAX_SCANNED:
                    raise TooLarge(
                        f"{root} holds more than {MAX_FILES} files of a model's kinds, or {MAX_SCANNED} in all",
                        path="SOURCE", hint="name the model's own folder",
                    )  # fmt: skip
    return entries


def _size_of(entry: os.DirEntry[str]) -> int | None:
    """Bytes of a regular file, a link's target; None for anything else, a link that leads nowhere or to itself too."""
    try:
        return entry.stat().st_size if entry.is_file() else None
    except OSError:
        return None


def _reader(root: Path) -> Callable[[str, int, int], bytes]:
    def fetch(path: str, start: int, length: int) -> bytes:
        try:
            with (root / path).open("rb") as handle:
                handle.seek(start)
                return handle.read(length)
        except OSError as error:
            raise ConfigMissing(f"{path} cannot be read: {error.strerror}", path=path, value=str(root / path)) from None

    return fetch


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise UnknownModel(f"{file} cannot be read: {error.strerror}", path="SOURCE", value=str(file)) from None


def _note(root: Path) -> str:
    try:
        with (root / "source.txt").open(encoding="utf-8", errors="replace") as handle:
            return " ".join(handle.read(1000).split())
    except OSError:
        return ""
