"""What a user typed -> RepoFiles: a path that exists, else a Hub repository `org/name[@revision]`, its URL, a file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from onboard.errors import ConfigMissing, UnknownModel, UsageError
from onboard.sources.files import RepoFiles
from onboard.values import Struct

_REPO = re.compile(
    r"^(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>[^:\s]+))?(?::(?P<file>[^\s]+\.gguf))?$"
)
_HOSTS = ("huggingface.co", "hf.co", "www.huggingface.co")


class HubSpec(Struct, frozen=True):
    """A repository, and where the user named them a revision and one file of it."""

    repo: str
    revision: str | None = None
    file: str | None = None


def open_source(source: str) -> tuple[RepoFiles, str | None]:
    """The files, and the one .gguf that was named (None where a config is meant). Raises a Refusal."""
    if not source.strip():
        raise UsageError("the name of the model is empty", path="SOURCE", hint="a catalogue id, a path, or org/name")
    path = Path(source).expanduser()
    if _exists(path, source):
        return _local(path)
    spec = hub_spec(source)
    if spec is None:
        raise UnknownModel(
            f"{source[:200]!r} is neither in the catalogue nor on disk, and is not a Hub repository's name",
            path="SOURCE",
            value=source,
            hint="name a catalogue id (`onboard list`), a path, or a Hub repository org/name",
        )
    from onboard.sources.hub import CONFIG_NAMES, from_hub

    files = from_hub(spec.repo, spec.revision, (spec.file,) if spec.file else CONFIG_NAMES)
    if spec.file and not files.has(spec.file):
        raise ConfigMissing(
            f"{spec.repo} has no file {spec.file}",
            path="SOURCE",
            value=source,
            hint=_ggufs(files) or "it holds no .gguf file",
        )
    return files, spec.file


def hub_spec(source: str) -> HubSpec | None:
    """Parse `org/name[@revision][:file.gguf]` or a Hub URL (/tree/, /blob/, /resolve/); None where it is neither."""
    if "://" in source:
        return _url(source)
    found = _REPO.fullmatch(source)
    if found is None or _looks_like_path(source):
        return None
    return HubSpec(found["repo"], found["revision"], found["file"])


def _url(source: str) -> HubSpec | None:
    try:
        parts = urlsplit(source)
        endpoint = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    except ValueError:
        return None
    base = endpoint.path.rstrip("/") if parts.netloc == endpoint.netloc else ""
    if parts.scheme not in ("http", "https") or (parts.netloc not in _HOSTS and parts.netloc != endpoint.netloc):
        raise UnknownModel(
            f"{parts.netloc or source[:80]!r} is not the Hub",
            path="SOURCE",
            value=source[:200],
            hint="name a repository of huggingface.co, or set HF_ENDPOINT",
        )
    pieces = [unquote(p) for p in parts.path.removeprefix(base).split("/") if p]
    if len(pieces) < 2 or not _REPO.fullmatch("/".join(pieces[:2])):
        return None
    revision, file = None, None
    if len(pieces) > 3 and pieces[2] in ("tree", "blob", "resolve"):
        revision = pieces[3]
        rest = "/".join(pieces[4:])
        file = rest if rest.endswith(".gguf") else None
    return HubSpec("/".join(pieces[:2]), revision, file)


def _local(path: Path) -> tuple[RepoFiles, str | None]:
    from onboard.sources.local import from_file, from_folder, split_stem

    if path.is_dir():
        files = from_folder(path)
        only = [f.path for f in files.files if f.path.lower().endswith(".gguf")]
        if files.has("config.json") or files.has("params.json") or not only:
            return files, None
        if len({split_stem(name) for name in only}) > 1:
            raise ConfigMissing(
                f"{path} has no config.json and several .gguf files", path="SOURCE", value=str(path), hint=_ggufs(files)
            )
        return files, only[0]
    if not path.is_file():  # a pipe would be waited for, a device never ends
        raise UnknownModel(
            f"{path} is not a regular file", path="SOURCE", value=str(path), hint="name a file or a folder"
        )
    files = from_file(path)
    return files, path.name if files.kind == "gguf" else None


def _ggufs(files: RepoFiles) -> str:
    names = [f.path for f in files.files if f.path.lower().endswith(".gguf")]
    return "name one: " + ", ".join(names[:8]) if names else ""


def _exists(path: Path, source: str) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        raise UnknownModel(f"{source[:80]!r} cannot be a path or a name", path="SOURCE", value=source[:200]) from None


def _looks_like_path(source: str) -> bool:
    return source.startswith((".", "~")) or (source.endswith((".json", ".gguf")) and ":" not in source)
