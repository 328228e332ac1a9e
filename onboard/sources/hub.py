"""A Hub repository -> RepoFiles, through huggingface_hub: its token, cache, endpoint and offline switches apply.

The commit is asked for first and every file is read at that commit. Small files come through the library's cache;
parts of large ones (safetensors headers) by range requests. A failed request is never answered from an older
cached commit: only HF_HUB_OFFLINE reads the cache, and then the listing is what the cache holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onboard.errors import (
    ConfigMissing,
    GatedNeedsToken,
    HubUnavailable,
    OfflineMiss,
    Refusal,
    RepoNotFound,
    RevisionNotFound,
    UnknownModel,
)
from onboard.sources.files import FileEntry, RepoFiles
from onboard.sources.local import from_folder
from onboard.values import replace

TIMEOUT_SECONDS = 30.0
MAX_CACHED_BYTES = 32 * 2**20  # larger files are read in ranges and never downloaded whole
CONFIG_NAMES = ("config.json", "params.json")


def from_hub(repo: str, revision: str | None = None, wanted: tuple[str, ...] = CONFIG_NAMES) -> RepoFiles:
    """List `repo` at `revision` (default: its main branch). `wanted` names the files that offline mode looks for.

    Raises GatedNeedsToken, RepoNotFound, RevisionNotFound, HubUnavailable or OfflineMiss (exit 4).
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    if constants.is_offline_mode():
        return _from_cache(repo, revision, wanted)
    with _errors_of(repo, revision):
        info = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=TIMEOUT_SECONDS)
        commit = info.sha
        files = tuple(
            sorted(
                (FileEntry(s.rfilename, -1 if s.size is None else s.size) for s in info.siblings or ()),
                key=lambda f: f.path,
            )
        )
    if not commit:
        raise HubUnavailable(f"the Hub names no commit for {repo}", path="SOURCE", value=repo)
    return RepoFiles(
        kind="hub",
        name=repo,
        revision=commit,
        files=files,
        fetch=_reader(repo, revision or "main", commit, {f.path: f.size for f in files}),
        read_from="the Hub",
        location=repo,
    )


def _from_cache(repo: str, revision: str | None, wanted: tuple[str, ...]) -> RepoFiles:
    from huggingface_hub import try_to_load_from_cache

    with _errors_of(repo, revision):
        for name in wanted:
            found = try_to_load_from_cache(repo, name, revision=revision)
            if isinstance(found, str):
                folder = Path(found)
                for _ in Path(name).parts:
                    folder = folder.parent
                listed = from_folder(folder)
                return replace(
                    listed,
                    kind="hub",
                    name=repo,
                    revision=folder.name,
                    read_from="the Hub's cache on this machine",
                    location=repo,
                )
    at = f" at {revision}" if revision else ""
    raise OfflineMiss(
        f"HF_HUB_OFFLINE is on and the cache has no config of {repo}{at}",
        path="SOURCE",
        value=repo,
        hint="unset HF_HUB_OFFLINE once, or name a local folder",
    )


def _reader(repo: str, ref: str, commit: str, sizes: dict[str, int]) -> Callable[[str, int, int], bytes]:
    def fetch(path: str, start: int, length: int) -> bytes:
        from huggingface_hub import try_to_load_from_cache

        with _errors_of(repo, commit, path):
            whole = start == 0 and 0 <= sizes[path] <= min(length, MAX_CACHED_BYTES)
            local = _download(repo, path, ref, commit) if whole else try_to_load_from_cache(repo, path, revision=commit)
            if isinstance(local, str):
                with Path(local).open("rb") as handle:
                    handle.seek(start)
                    return handle.read(length)
            return _range(repo, commit, path, start, length)

    return fetch


def _download(repo: str, path: str, ref: str, commit: str) -> str:
    """Through the cache, under the name the user gave (so that offline mode finds it), but only ever at `commit`.

    The library answers a failed request from an older snapshot; the snapshot's folder shows it, and it is refused.
    """
    from huggingface_hub import hf_hub_download

    local = hf_hub_download(repo, path, revision=ref)
    return local if commit in Path(local).parts else hf_hub_download(repo, path, revision=commit)


def _range(repo: str, commit: str, path: str, start: int, length: int) -> bytes:
    """A range request that stops reading at `length`, even where the server ignores the range."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    headers = {**build_hf_headers(), "Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
    with get_session().stream(
        "GET", hf_hub_url(repo, path, revision=commit), headers=headers, timeout=TIMEOUT_SECONDS
    ) as answer:
        if answer.status_code == 416:
            return b""
        hf_raise_for_status(answer)
        skip = start if answer.status_code == 200 else 0
        parts: list[bytes] = []
        have = 0
        for chunk in answer.iter_bytes():
            taken, skip = chunk[skip:], max(0, skip - len(chunk))
            parts.append(taken)
            have += len(taken)
            if have >= length:
                break
            if not taken and start > 64 * 2**20:
                raise HubUnavailable(f"the endpoint ignores ranges of {path}", path=path, value=repo)
        return b"".join(parts)[:length]


@contextmanager
def _errors_of(repo: str, revision: str | None, path: str = "SOURCE") -> Iterator[None]:
    """The library's exception types -> ours. Status numbers are not looked at: a 401 means several things."""
    from huggingface_hub import errors as hub

    try:
        yield
    except Refusal:
        raise
    except (hub.HTTPError, hub.HFValidationError, OSError, ValueError, TypeError) as error:
        raise _translated(error, hub, repo, revision, path) from None


def _translated(error: Exception, hub: Any, repo: str, revision: str | None, path: str) -> Refusal:
    where = {"path": path, "value": repo}
    if isinstance(error, hub.GatedRepoError):
        return GatedNeedsToken(
            f"{repo} is gated",
            **where,
            hint=f"accept its terms on its page, then set HF_TOKEN to a token that may read {repo}",
        )
    if isinstance(error, hub.RepositoryNotFoundError):
        return RepoNotFound(
            f"the Hub has no repository {repo}, or it is private",
            **where,
            hint="check the spelling, or set HF_TOKEN if it is private",
        )
    if isinstance(error, hub.RevisionNotFoundError):
        return RevisionNotFound(
            f"{repo} has no revision {revision!r}", path=path, value=revision, hint="name a branch, tag or commit of it"
        )
    if isinstance(error, hub.OfflineModeIsEnabled):
        return OfflineMiss(
            f"HF_HUB_OFFLINE is on and {path} of {repo} is not in the cache", **where, hint="unset HF_HUB_OFFLINE once"
        )
    if isinstance(error, hub.EntryNotFoundError) and not isinstance(error, hub.LocalEntryNotFoundError):
        return ConfigMissing(f"{repo} has no {path}", **where)
    if isinstance(error, hub.HFValidationError):
        return UnknownModel(f"{repo!r} is not a Hub repository's name", **where, hint="a Hub repository is org/name")
    reason = str(error).strip().splitlines()
    return HubUnavailable(
        f"the Hub did not answer for {repo}: {reason[0][:200] if reason else type(error).__name__}",
        **where,
        hint="try again later; a copy already in the cache is read with HF_HUB_OFFLINE=1",
    )
