"""A loopback server that speaks the part of the Hub's protocol that huggingface_hub uses to read a model.

    with HubServer() as hub:
        commit = hub.repo("org/name", {"config.json": b"{}"})
        env = hub.env(tmp_path)        # HF_ENDPOINT, HF_HOME, no token: for a subprocess

Routes: /api/models/{repo}[/revision/{rev}] (siblings with sizes), /api/models/{repo}/tree/{rev}, and
/{repo}/resolve/{rev}/{file} with HEAD, GET, ETag, X-Repo-Commit, X-Linked-Size and Range. Faults are switched on
per repository: `gated`, `down` (503), and a second commit by calling `repo` again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


class Sparse:
    """A file of `size` bytes that begins with `head` and is zeros from there on, never held in memory."""

    def __init__(self, head: bytes, size: int) -> None:
        self.head, self.size = head, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self.size)
        return self.head[start:stop].ljust(stop - start, b"\0") if stop - start < 2**26 else b""


def sha1(data: bytes | Sparse) -> Any:
    return hashlib.sha1(data.head + str(data.size).encode() if isinstance(data, Sparse) else data)


@dataclass
class Repo:
    """Commits in order, each a mapping of file to bytes; `main` is the last."""

    commits: dict[str, dict[str, bytes | Sparse]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    down: bool = False
    elsewhere: str = ""  # another host's URL: files are redirected there
    token: str = "hf_right"  # what opens a gated repository

    def commit_of(self, revision: str) -> str | None:
        return self.refs.get(revision) or (revision if revision in self.commits else None)


class HubServer:
    """Serve repositories on 127.0.0.1. `log` holds (method, path, range header) of every request."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.log: list[tuple[str, str, str | None]] = []
        self.sent = 0
        self.tokens: list[str | None] = []
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HubServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def repo(self, name: str, files: Mapping[str, bytes | Sparse], ref: str = "main") -> str:
        """Add a commit holding `files` and point `ref` at it; returns the commit's sha."""
        repo = self.repos.setdefault(name, Repo())
        content = b"".join(k.encode() + sha1(v).digest() for k, v in sorted(files.items()))
        commit = hashlib.sha1(f"{name}{len(repo.commits)}".encode() + content).hexdigest()
        repo.commits[commit] = dict(files)
        repo.refs[ref] = commit
        return commit

    def env(self, home: Path, **extra: str) -> dict[str, str]:
        """A subprocess environment that talks to this server alone, with its own cache under `home`."""
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "ONBOARD"))}
        return {
            **keep,
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "XDG_CACHE_HOME": str(home / "cache"),
            **extra,
        }


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.log.append((self.command, path, self.headers.get("Range")))
        self.hub.tokens.append(self.headers.get("Authorization"))
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) >= 4:
            self._api("/".join(parts[2:4]), parts[4:], body)
        elif len(parts) >= 5 and parts[2] == "resolve":
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]), body)
        else:
            self._error(404, "RepoNotFound", body)

    def _open(self, name: str, body: bool) -> Repo | None:
        repo = self.hub.repos.get(name)
        if repo is None:
            self._error(401, "RepoNotFound", body)
        elif repo.down:
            self._send(503, b"down for maintenance", {}, body)
        else:
            return repo
        return None

    def _api(self, name: str, rest: list[str], body: bool) -> None:
        repo = self._open(name, body)
        if repo is None:
            return
        revision = rest[1] if len(rest) > 1 else "main"
        commit = repo.commit_of(revision)
        if commit is None:
            self._error(404, "RevisionNotFound", body)
            return
        files = repo.commits[commit]
        answer: Any = {
            "_id": "1",
            "id": name,
            "modelId": name,
            "sha": commit,
            "private": False,
            "gated": "auto" if repo.gated else False,
            "siblings": [{"rfilename": k, "size": len(v), "blobId": sha1(v).hexdigest()} for k, v in files.items()],
        }
        if rest[:1] == ["tree"]:
            answer = [{"type": "file", "path": k, "size": len(v), "oid": sha1(v).hexdigest()} for k, v in files.items()]
        self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"}, body)

    def _resolve(self, name: str, revision: str, file: str, body: bool) -> None:
        repo = self._open(name, body)
        if repo is None:
            return
        if repo.gated and self.headers.get("Authorization") != f"Bearer {repo.token}":
            self._error(401, "GatedRepo", body)
            return
        commit = repo.commit_of(revision)
        if commit is None:
            self._error(404, "RevisionNotFound", body)
            return
        if repo.elsewhere:
            linked = repo.commits[commit].get(file, b"")
            headers = {"X-Linked-ETag": f'"{sha1(linked).hexdigest()}"', "X-Linked-Size": str(len(linked))}
            place = {"Location": f"{repo.elsewhere}{self.path}", "X-Repo-Commit": commit}
            self._send(302, b"", {**place, **headers}, body)
            return
        data = repo.commits[commit].get(file)
        if data is None:
            self._error(404, "EntryNotFound", body, {"X-Repo-Commit": commit})
            return
        headers = {
            "ETag": f'"{sha1(data).hexdigest()}"',
            "X-Repo-Commit": commit,
            "X-Linked-Size": str(len(data)),
            "Accept-Ranges": "bytes",
        }
        if isinstance(data, Sparse) and body and not self.headers.get("Range"):
            self._send(413, b"", headers, body)  # nobody may download this whole
            return
        wanted = self.headers.get("Range")
        if wanted and wanted.startswith("bytes="):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) if last else len(data) - 1, len(data) - 1)
            if start >= len(data):
                self._send(416, b"", {**headers, "Content-Range": f"bytes */{len(data)}"}, body)
                return
            part = data[start : end + 1]
            self._send(206, part, {**headers, "Content-Range": f"bytes {start}-{end}/{len(data)}"}, body)
            return
        self._send(200, data, headers, body)

    def _error(self, status: int, code: str, body: bool, extra: dict[str, str] | None = None) -> None:
        self._send(
            status, b'{"error": "refused"}', {"X-Error-Code": code, "X-Error-Message": code, **(extra or {})}, body
        )

    def _send(self, status: int, data: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.hub.sent += len(data)
            self.wfile.write(data)
