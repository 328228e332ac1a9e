"""Which files are the weights: every loadable set of a repository, the one that is chosen, what is set aside and why.

An index is the contract: names are free and no arithmetic is done on them. Copies of one model in several formats
or folders are alternatives, never a sum. Order of preference: vLLM 0.33 model_executor/model_loader/default_loader.py
(safetensors before .bin; with an index, only what it names), and the root before any folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from onboard.errors import MissingShard, NotJson, TooLarge, UnsafePath, WeightsUnknown
from onboard.values import Struct, replace

MAX_INDEX_BYTES = 64 * 2**20
MAX_INDEXES = 8  # in one folder; real ones hold one or two
INDEX_SUFFIXES = (".safetensors.index.json", ".bin.index.json")
FORMATS = (".safetensors", ".bin", ".gguf")  # in order of preference
ASIDE: tuple[tuple[str, str], ...] = (  # pattern of the file's own name -> why it is not the model's weights
    (r"adapter_(model|config).*|.*lora.*\.safetensors", "an adapter, not the base model"),
    (r".*\.onnx(_data.*)?|.*\.ort", "an ONNX export"),
    (
        r"tf_model.*|.*\.h5|flax_model.*|.*\.msgpack|rust_model.*|.*\.mlmodel|.*\.tflite|.*\.pb",
        "another framework's copy",
    ),
    (r"(optimizer|scheduler|rng_state|training_args|trainer_state|random_states).*", "a training artefact"),
    (r".*mmproj.*\.gguf", "a multimodal projector, loaded beside a model"),
    (r".*imatrix.*", "an importance matrix for quantising"),
    (r".*\.(pth|pt|ckpt|nemo|npz|pickle|pkl)", "a format no engine here loads"),
)
WEIGHT_FILE = re.compile(
    r".*\.(safetensors|bin|gguf|pth|pt|h5|msgpack|onnx|onnx_data|ort|ckpt|nemo|npz|mlmodel|tflite)", re.I
)


class Index(Struct, frozen=True):
    """`weight_map` (tensor name -> path in the repository) and the total it states, if any."""

    path: str
    weight_map: Mapping[str, str]
    total_size: int | None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.weight_map.values()))


class FileSet(Struct, frozen=True):
    """One loadable set. `name` is what `--weights` takes.

    `missing` are files that its index or its names state and that are not there, `strays` files of the same family
    that its index does not name: either means that the set cannot be trusted.
    """

    name: str
    format: str
    files: tuple[tuple[str, int], ...]
    index: Index | None = None
    missing: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()

    @property
    def num_bytes(self) -> int:
        """The files' sizes together, -1 where the listing does not say one."""
        return -1 if any(size < 0 for _, size in self.files) else sum(size for _, size in self.files)


class Choice(Struct, frozen=True):
    """The chosen set, the other sets, and every weight file that was set aside with the reason."""

    chosen: FileSet
    others: tuple[FileSet, ...]
    set_aside: tuple[tuple[str, str], ...]


def choose(files: Iterable[tuple[str, int]], read_text: Callable[[str], str], name: str | None = None) -> Choice:
    """Choose among the sets of a listing of (path, bytes).

    `name` forces a set. Raises MissingShard where the chosen set is incomplete or its index is stale, WeightsUnknown
    where there is no set or none of that name.
    """
    listing = dict(files)
    sets, aside = weight_sets(listing, read_text)
    if not sets:
        raise WeightsUnknown("no file holds loadable weights", path="files", hint="give --weights-gb X (10^9 bytes)")
    chosen = sets[0] if name is None else next((s for s in sets if s.name == name), None)
    if chosen is None:
        known = ", ".join(s.name for s in sets)
        raise WeightsUnknown(
            f"no set of weights is called {name!r}", path="--weights", value=name, hint=f"known: {known}"
        )
    others = tuple(s for s in sets if s is not chosen)
    copies = [(path, f"belongs to the set {s.name!r}") for s in others for path, _ in s.files]
    taken = {path for path, _ in chosen.files}
    check(chosen)
    return Choice(chosen, others, tuple((p, why) for p, why in (*aside, *copies) if p not in taken))


def check(chosen: FileSet) -> None:
    """Raise MissingShard where files and index disagree, in either direction."""
    index = chosen.index.path if chosen.index else chosen.name
    if chosen.missing:
        raise MissingShard(
            f"{index} names {len(chosen.missing)} file(s) that are not there: {_some(chosen.missing)}",
            path=index,
            value=_some(chosen.missing),
            hint="wait for the upload to finish, or download the rest",
        )
    if chosen.strays:
        raise MissingShard(
            f"{index} does not name {len(chosen.strays)} file(s) of the same kind: {_some(chosen.strays)}; it is stale",
            path=index,
            value=_some(chosen.strays),
            hint="remove what an earlier sharding left behind",
        )


def weight_sets(
    listing: Mapping[str, int], read_text: Callable[[str], str]
) -> tuple[list[FileSet], list[tuple[str, str]]]:
    """Every loadable set, best first, and the weight files that belong to none with the reason."""
    aside: list[tuple[str, str]] = []
    folders: dict[str, list[str]] = {}
    for path in listing:
        base = PurePosixPath(path).name
        reason = next((why for pattern, why in ASIDE if re.fullmatch(pattern, base, re.I)), None)
        if reason is not None and WEIGHT_FILE.fullmatch(base):
            aside.append((path, reason))
        elif path.endswith(FORMATS) or path.endswith(INDEX_SUFFIXES):
            folders.setdefault(_folder(path), []).append(path)
    sets: list[FileSet] = []
    for folder, paths in folders.items():
        sets += _sets_of(folder, paths, listing, read_text, aside)
    named: dict[str, FileSet] = {}
    for one in sorted(sets, key=_preference):
        named.setdefault(one.name if one.name not in named else f"{one.name}{one.format}", one)
    return [replace(one, name=name) for name, one in named.items()], aside


def _sets_of(
    folder: str,
    paths: list[str],
    listing: Mapping[str, int],
    read_text: Callable[[str], str],
    aside: list[tuple[str, str]],
) -> list[FileSet]:
    """The sets of one folder: one an index, and one a family of names that no index claims."""
    sets: list[FileSet] = []
    claimed: set[str] = set()
    weights = [p for p in paths if not p.endswith(INDEX_SUFFIXES)]
    for index_path in sorted(p for p in paths if p.endswith(INDEX_SUFFIXES))[:MAX_INDEXES]:
        index = read_index(index_path, listing[index_path], read_text)
        if not index.files:
            continue
        present = tuple((f, listing[f]) for f in index.files if f in listing)
        families = {_family(f) for f in index.files}
        named = set(index.files)
        strays = tuple(p for p in weights if p not in named and _family(p) in families)
        claimed |= {f for f, _ in present} | set(strays)
        missing = tuple(f for f in index.files if f not in listing)
        suffix = ".safetensors" if index_path.endswith(INDEX_SUFFIXES[0]) else ".bin"
        name = _name(folder, index_path.removesuffix(".index.json"))
        sets.append(FileSet(name, suffix, present, index, missing, strays))
    families_left: dict[tuple[str, str], list[str]] = {}
    for path in weights:
        if path not in claimed:
            families_left.setdefault((_family(path), PurePosixPath(path).suffix), []).append(path)
    for (_, suffix), members in families_left.items():
        whole = tuple((p, listing[p]) for p in sorted(members))
        if sets and suffix == ".safetensors" and any(s.format == suffix for s in sets) and not _alternative(members[0]):
            aside += [(p, "outside the index") for p, _ in whole]
            continue
        sets.append(FileSet(_name(folder, members[0]), suffix, whole, None, _fewer_than_stated(whole)))
    return sets


def read_index(path: str, size: int, read_text: Callable[[str], str]) -> Index:
    """An index file. Raises NotJson or TooLarge where it is none, UnsafePath where it points out of its folder."""
    if size > MAX_INDEX_BYTES:
        raise TooLarge(f"{path} is larger than {MAX_INDEX_BYTES} bytes", path=path, value=size)
    try:
        data: Any = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise NotJson(f"{path} is not JSON", path=path, hint="download it again") from None
    weight_map = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise NotJson(f"{path} has no weight_map of names to files", path=path)
    metadata = data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    places = {f: _inside(path, f) for f in set(weight_map.values())}
    return Index(
        path=path,
        weight_map={n: places[f] for n, f in weight_map.items()},
        total_size=total if type(total) is int and 0 < total < 2**60 else None,
    )


def _inside(index_path: str, file: str) -> str:
    parts = PurePosixPath(file).parts
    if not file or file.startswith("/") or "\\" in file or ".." in parts or "\0" in file:
        message = f"{index_path} names a file outside its folder"
        raise UnsafePath(message, path=index_path, value=file, hint="do not use this repository")
    folder = _folder(index_path)
    return f"{folder}/{file}" if folder else file


def _preference(one: FileSet) -> tuple[Any, ...]:
    path = one.index.path if one.index else one.files[0][0]
    plain = _stem(path) in ("model", "pytorch_model")
    folder = _folder(path)
    return (folder.count("/") + bool(folder), FORMATS.index(one.format), one.index is None, not plain, folder, one.name)


def _alternative(path: str) -> bool:
    """A whole copy beside an indexed set (consolidated.safetensors, model.safetensors), not a part of it."""
    return _stem(path) in ("consolidated", "model")


def _fewer_than_stated(files: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Without an index, a family whose names say `of N` and that has fewer than N files cannot be whole."""
    stated = re.search(r"-of-(\d{1,6})\.[a-z]+$", files[0][0])
    if stated is None or len(files) >= int(stated[1]):
        return ()
    return (f"{int(stated[1]) - len(files)} of {int(stated[1])} files like {files[0][0]}",)


def _family(path: str) -> str:
    """The path with its shard numbers blanked: what shards of one set share. A trailing `-of-N` or a bare number."""
    folder, base = _folder(path), PurePosixPath(path).name
    if re.search(r"\d+-of-\d+", base):
        return f"{folder}/" + re.sub(r"\d+-of-\d+", "#", base)
    return f"{folder}/" + re.sub(r"[-_.]\d{2,}(?=\.[a-z]+$)", "#", base)


def _stem(path: str) -> str:
    base = PurePosixPath(path).name.removesuffix(".index.json")
    base = re.sub(r"[-_.]?\d+-of-\d+", "", base)
    for suffix in FORMATS:
        base = base.removesuffix(suffix)
    return re.sub(r"[-_.]\d{2,}$", "", base) or "model"


def _name(folder: str, path: str) -> str:
    stem = _stem(path)
    if not folder:
        return stem
    return folder if stem in ("model", "pytorch_model", "consolidated") else f"{folder}/{stem}"


def _folder(path: str) -> str:
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
