"""A source -> a Profile derived in memory: find the config, derive the layers, then read the weights' headers.

The one place where sources, derivation and weights meet. Nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onboard import rawjson
from onboard.errors import Caution, ConfigMissing, MissingShard, WeightsUnknown
from onboard.profile import Profile, SourceRef, WeightVariant, text_parameters
from onboard.progress import WATCHER
from onboard.quantization import SIDE_FILE
from onboard.sourced import Sourced
from onboard.sources.files import RepoFiles
from onboard.unknowns import unknowns
from onboard.values import replace

if TYPE_CHECKING:
    from onboard.weights.choose import Choice

DISAGREE = 20  # more than a twentieth apart
LARGEST_CONTEXT = 2**40  # tokenizers write about 1e30 for "no limit"


def read_source(source: str, model_id: str | None = None) -> Profile:
    """Derive the profile of `source` (a path, a Hub repository or its URL). Raises a Refusal."""
    from onboard.sources.spec import open_source

    files, gguf = open_source(source)
    return read_files(files, gguf=gguf, model_id=model_id)


def read_files(files: RepoFiles, *, gguf: str | None = None, model_id: str | None = None) -> Profile:
    """Derive the profile of a repository's files; `gguf` names the one .gguf that is meant, None a config."""
    if gguf is not None:
        from onboard.gguf import profile_from_files

        profile = profile_from_files(files, gguf, model_id=model_id or proposed_id(files.name))
        return replace(profile, unknowns=unknowns(profile))
    config, ref = _config(files)
    from onboard.derive import derive

    side = None if config.get("quantization_config") else _side(files)
    profile = derive(config, model_id=model_id or proposed_id(files.name), source=ref, side=side)
    profile = _with_tokenizer(profile, files)
    profile = _with_weights(profile, files, config.get("quantization_config") or side)
    return replace(profile, unknowns=unknowns(profile))


def proposed_id(name: str) -> str:
    """A catalogue id from a repository's name: its last part in lower case, with other characters as dashes."""
    last = name.rsplit("/", 1)[-1].lower()
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in last).strip("-._")
    return kept[:100] or "model"


def _config(files: RepoFiles) -> tuple[dict[str, Any], SourceRef]:
    name = _config_name(files)
    data = files.read_bytes(name, rawjson.MAX_BYTES)
    config = rawjson.load_mapping(data, name)
    if "num_hidden_layers" not in config and "n_layers" in config and "dim" in config:
        from onboard.params_json import to_config

        config = to_config(config)
    ref = SourceRef(
        kind=files.kind,
        name=files.name,
        revision=files.revision,
        config_sha256=hashlib.sha256(data).hexdigest(),
        read_from=files.read_from,
        location=files.location,
    )
    return config, ref


def _side(files: RepoFiles) -> dict[str, Any] | None:
    """ModelOpt up to 0.29 kept its quantization block in a file of its own; vLLM 0.33 and SGLang read it there too."""
    if not files.has(SIDE_FILE):
        return None
    return rawjson.load_mapping(files.read_bytes(SIDE_FILE), SIDE_FILE)


def _config_name(files: RepoFiles) -> str:
    names = [f.path for f in files.files]
    if files.kind == "file":
        return names[0]
    for name in ("config.json", "params.json"):
        if files.has(name):
            return name
    ggufs = [n for n in names if n.lower().endswith(".gguf")]
    hint = (
        "name one of its files: " + ", ".join(f"{files.name}:{n}" for n in ggufs[:5])
        if ggufs
        else ("name a repository or folder that holds the model itself")
    )
    raise ConfigMissing(
        f"{files.name} has neither config.json nor params.json", path="SOURCE", value=files.name, hint=hint
    )


def _with_tokenizer(profile: Profile, files: RepoFiles) -> Profile:
    """The tokenizer's limit bounds nothing; it stands in only where the config states no context length."""
    if profile.fact("max_model_len") is not None or not files.has("tokenizer_config.json"):
        return profile
    stated = rawjson.load_mapping(files.read_bytes("tokenizer_config.json"), "tokenizer_config.json").get(
        "model_max_length"
    )
    if isinstance(stated, bool) or not isinstance(stated, int) or not 1 <= stated <= LARGEST_CONTEXT:
        return profile
    facts = {**profile.facts, "max_model_len": Sourced(stated, "config", "tokenizer_config.json: model_max_length")}
    return replace(profile, facts=facts)


def _with_weights(profile: Profile, files: RepoFiles, quantization: Any) -> Profile:
    """Headers, index or listing where files hold weights, else what the derivation computed by rule, else none."""
    from onboard.weights.variants import weight_variants

    hub = files.kind == "hub"
    try:
        variants, choice = weight_variants(
            files,
            profile,
            quantization=quantization if isinstance(quantization, Mapping) else None,
            repo=files.name if hub else None,
            revision=files.revision if hub else None,
            progress=WATCHER.get(),
        )
    except WeightsUnknown:
        return profile  # the derivation's parameter count by rule stands, where there is one
    except MissingShard as missing:
        if not _only_cached(files):
            raise
        told = Caution("weights-not-cached", missing.path, "offline: the cache does not hold the weights' headers")
        return replace(profile, warnings=(*profile.warnings, told))
    warnings = (*profile.warnings, *_set_aside(choice), *_disagreement(profile, variants[0]))
    return replace(profile, weights=variants, default_weights=variants[0].name, warnings=warnings)


def _disagreement(profile: Profile, read: WeightVariant) -> tuple[Caution, ...]:
    """Where headers and the rules for a known family count the language model's parameters differently."""
    ruled = next((v for v in profile.weights if v.origin == "parameters" and v.name == "config"), None)
    if ruled is None or read.origin != "headers" or "by the rule for a Llama" in ruled.where:
        return ()
    counted, expected = text_parameters(read), text_parameters(ruled)
    if abs(counted - expected) * DISAGREE <= expected:
        return ()
    message = (
        f"the headers hold {counted:,} parameters of the language model, the config's geometry gives {expected:,}; "
        "the config may belong to another checkpoint, or the packing is not understood"
    )
    return (Caution("weights-disagree", "weights", message),)


def _set_aside(choice: Choice) -> tuple[Caution, ...]:
    """Weight files that are not part of the chosen set, by reason."""
    reasons: dict[str, list[str]] = {}
    for path, reason in choice.set_aside:
        reasons.setdefault(reason, []).append(path)
    return tuple(
        Caution(
            "weights-set-aside",
            "weights",
            f"{len(paths)} file(s) not counted ({paths[0]}, ...): {reason}"
            if len(paths) > 1
            else f"{paths[0]} not counted: {reason}",
        )
        for reason, paths in reasons.items()
    )


def _only_cached(files: RepoFiles) -> bool:
    return files.kind == "hub" and files.read_from != "the Hub"
