"""A repository's files -> the sets of weights a user can choose from, each with its bytes and where they were read.

Order of evidence for a set: headers, the index's total, the listing's sizes. What a config alone gives is
`parameters.variant_from_config`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from onboard.errors import BadHeader, MissingShard, Unreachable
from onboard.profile import Profile, TensorGroup, WeightVariant
from onboard.values import replace
from onboard.weights.choose import Choice, FileSet, check, choose
from onboard.weights.groups import geometry_of, group_tensors
from onboard.weights.quant import scheme_label
from onboard.weights.safetensors_header import Progress, Tensor, read_headers


class RepoFiles(Protocol):
    """What is asked of a repository or folder; `onboard.sources` answers."""

    @property
    def sizes(self) -> Mapping[str, int]: ...  # path -> bytes, -1 where the listing does not say

    def read_text(self, path: str, max_bytes: int = ...) -> str: ...

    def read_range(self, path: str, start: int, length: int) -> bytes: ...


def weight_variants(
    files: RepoFiles,
    profile: Profile,
    *,
    quantization: Mapping[str, Any] | None = None,
    repo: str | None = None,
    revision: str | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[WeightVariant, ...], Choice]:
    """The chosen set first, exact from its headers, then the others by their sizes, and the choice itself.

    `name` forces a set. Raises WeightsUnknown where no file holds weights, MissingShard where the chosen set is
    incomplete, BadHeader where a header cannot be true, WeightsDisagree where shapes contradict the config.
    """
    picked = choose(files.sizes.items(), files.read_text, name)
    chosen = _variant(files, picked.chosen, profile, quantization or {}, progress)
    rest = tuple(by_size(other) for other in picked.others if _whole(other))
    return tuple(replace(v, repo=repo, revision=revision) for v in (chosen, *rest)), picked


def _variant(
    files: RepoFiles,
    chosen: FileSet,
    profile: Profile,
    quantization: Mapping[str, Any],
    progress: Progress | None,
) -> WeightVariant:
    if chosen.format != ".safetensors":
        return by_size(chosen)
    try:
        known = [(path, size if size >= 0 else None) for path, size in chosen.files]
        headers = read_headers(known, files.read_range, progress)
    except Unreachable:  # ranges are refused or the line is down: the index and the listing still say how much
        return by_size(chosen)
    tensors = select(chosen, headers)
    groups = group_tensors(tensors, geometry_of(profile, quantization))
    return WeightVariant(
        name=chosen.name, num_bytes=sum(t.num_bytes for t in tensors), origin="headers",
        where=f"{len(chosen.files)} safetensors header(s)", quantization=scheme_label(tensors, quantization),
        num_parameters=count(groups), groups=groups,
    )  # fmt: skip


def select(chosen: FileSet, headers: Mapping[str, Sequence[Tensor]]) -> list[Tensor]:
    """Each tensor once, with an index from the file it names. Raises BadHeader or MissingShard where the two differ."""
    weight_map = chosen.index.weight_map if chosen.index else {}
    seen: dict[str, Tensor] = {}
    for path, tensors in headers.items():
        for tensor in tensors:
            if weight_map.get(tensor.name, path) != path:
                continue
            if tensor.name in seen:
                raise BadHeader(f"{tensor.name} stands in two files of the set", path=path, value=tensor.name)
            seen[tensor.name] = tensor
    absent = [n for n in weight_map if n not in seen]
    if absent:
        raise MissingShard(
            f"the index names {len(absent)} tensor(s) that no file holds: {', '.join(absent[:5])}",
            path=chosen.index.path if chosen.index else "",
            value=absent[0],
            hint="download the set again",
        )
    return list(seen.values())


def by_size(chosen: FileSet) -> WeightVariant:
    """A set whose headers are not read: the index's total where it states one, else the sizes of its files."""
    index, listed = chosen.index, chosen.num_bytes
    if index is not None and index.total_size is not None and _believable(index.total_size, listed):
        return WeightVariant(name=chosen.name, num_bytes=index.total_size, origin="index", where=index.path)
    where = f"sizes of {len(chosen.files)} file(s)"
    return WeightVariant(name=chosen.name, num_bytes=listed, origin="listing", where=where)


def _believable(total: int, listed: int) -> bool:
    """An index's total counts tensors without headers, so it is a little below the files; some indexes are wrong."""
    return listed <= 0 or 0.97 * listed <= total <= 1.001 * listed


def count(groups: Iterable[TensorGroup]) -> int:
    """Parameters of all groups."""
    return sum(g.num_elements * g.copies for g in groups)


def _whole(one: FileSet) -> bool:
    try:
        check(one)
    except MissingShard:
        return False
    return True
