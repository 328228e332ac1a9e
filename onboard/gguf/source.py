"""A .gguf file, or all parts of a split one, among a repository's files -> Profile. Only headers are read."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from onboard.gguf.derive import derive_gguf
from onboard.gguf.reader import RangeReader
from onboard.gguf.split import read_split
from onboard.gguf.weights import variant_of
from onboard.profile import Profile, SourceRef
from onboard.values import replace

if TYPE_CHECKING:
    from onboard.sources.files import RepoFiles


def profile_from_files(files: RepoFiles, name: str, *, model_id: str) -> Profile:
    """The profile of `name` in `files`. Raises BadGguf, MissingShard or the derivation's refusals."""

    def open_file(part: str) -> RangeReader | None:
        if not files.has(part):
            return None
        return lambda start, length: files.read_range(part, start, length)

    header = read_split(name, open_file)
    source = SourceRef(
        kind="gguf",
        name=files.name if files.kind == "gguf" else f"{files.name}:{name}",
        revision=files.revision,
        read_from=files.read_from,
        location={"gguf": files.location, "folder": f"{files.location}/{name}"}.get(
            files.kind, f"{files.location}:{name}"
        ),
    )
    profile = derive_gguf(header, model_id=model_id, source=source)
    if not header.tensors:
        return profile
    stem = PurePosixPath(name).name.removesuffix(".gguf")
    hub = files.kind == "hub"
    variant = variant_of(header, name=stem, num_trunk=len(profile.layers), where=name)
    if hub:
        variant = replace(variant, repo=files.name, revision=files.revision)
    return replace(profile, weights=(variant,), default_weights=variant.name)
