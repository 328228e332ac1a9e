"""A docker-compose file or a script -> the plan options of the engine command line it holds.

The file is data: nothing in it is run. `${NAME:-default}` and assignments in the same file are filled in; a variable
with no value is refused where an option of ours needs it. Options that no plan has (ports, paths) are passed over.
Not handled: command substitution, loops, several engine commands in one file.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from calc.plan_options import PLAN_OPTIONS
from onboard.errors import UsageError
from onboard.yamlio import load_text, read_text

# Words that start an engine's command, and the engine they start.
STARTERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("vllm", "serve"), "vllm"),
    (("vllm.entrypoints.openai.api_server",), "vllm"),
    (("vllm.entrypoints.api_server",), "vllm"),
    (("llama-server",), "llamacpp"),
    (("llama-cli",), "llamacpp"),
    (("sglang.launch_server",), "sglang"),
)
IMAGES: tuple[tuple[str, str], ...] = (("vllm", "vllm"), ("llama.cpp", "llamacpp"), ("sglang", "sglang"))
SHORT = {
    "-c": "--ctx-size", "-np": "--parallel", "-b": "--batch-size", "-ub": "--ubatch-size", "-ctk": "--cache-type-k",
    "-ctv": "--cache-type-v", "-fa": "--flash-attn", "-ncmoe": "--n-cpu-moe", "--gpu-layers": "--n-gpu-layers",
    "-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size",
    "--tensor-model-parallel-size": "--tensor-parallel-size",
    "--tp-size": "--tensor-parallel-size", "--pp-size": "--pipeline-parallel-size", "--dp-size": "--data-parallel-size",
}  # fmt: skip
# Environment variables of an engine that a plan has a knob for, by value.
ENVIRONMENT: dict[str, dict[str, str]] = {
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": {"0": "--no-cuda-graph-estimate", "1": "--cuda-graph-estimate"},
}
_VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=(\S*|\"[^\"]*\"|'[^']*')\s*$")


def plan_from_file(path: str) -> dict[str, Any]:
    """Plan options by name. Raises UsageError where no engine command, or more than one, is in the file."""
    text = read_text(Path(path))
    found = list(_compose(text, path) if Path(path).suffix in (".yml", ".yaml") else _script(text))
    if len(found) != 1:
        what = "no engine command line" if not found else f"{len(found)} engine command lines"
        raise UsageError(
            f"{path} holds {what}",
            path="--from",
            value=path,
            hint="one vllm serve, llama-server or sglang.launch_server",
        )
    engine, words = found[0]
    return {"engine": engine, **plan_from_words(words)}


def plan_from_words(words: Sequence[str]) -> dict[str, Any]:
    """Plan options among an engine's arguments; unknown options are passed over. Raises UsageError for a bad value."""
    params = [p for option in PLAN_OPTIONS for p in option(lambda: None).__click_params__]
    parser = click.Command(
        "engine",
        params=params,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    arguments = list(_normal(words))
    try:
        context = parser.make_context("engine", [a for a in arguments if not a.startswith("--speculative-config=")])
    except click.UsageError as error:
        raise UsageError(
            error.format_message(), path="--from", hint="write the value out: what a script computes is not run"
        ) from None
    options = {k: v for k, v in context.params.items() if v is not None}
    for argument in arguments:
        if argument.startswith("--speculative-config="):
            options.update(_speculative(argument.partition("=")[2]))
    return options


def _speculative(text: str) -> dict[str, Any]:
    """vLLM's JSON: {"method": "mtp", "num_speculative_tokens": 3, "model": ...}."""
    try:
        given = json.loads(text)
    except ValueError:
        raise UsageError("--speculative-config is not JSON", path="--from", value=text) from None
    if not isinstance(given, Mapping):
        raise UsageError("--speculative-config is not a JSON mapping", path="--from", value=text)
    method, model = str(given.get("method", "")), given.get("model")
    drafter = "mtp" if "mtp" in method or "nextn" in method else "ngram" if "ngram" in method else model
    return {
        k: v
        for k, v in {"drafter": drafter, "num_speculative_tokens": given.get("num_speculative_tokens")}.items()
        if v is not None
    }


def _normal(words: Iterable[str]) -> Iterable[str]:
    """Dashes for underscores in option names, long names for short ones, and values that belong to JSON options."""
    pending = ""
    for word in words:
        if pending:
            yield f"{pending}={word}"
            pending = ""
            continue
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("_", "-")
        name = SHORT.get(name, name)
        if name == "--speculative-config" and not equals:
            pending = name
        else:
            yield name + equals + value


def _compose(text: str, path: str) -> Iterable[tuple[str, list[str]]]:
    data = load_text(text, path, allow_aliases=True)
    services = data.get("services") if isinstance(data, Mapping) else None
    for service in (services or {}).values():
        if not isinstance(service, Mapping):
            continue
        image = _filled(str(service.get("image", "")), {})
        words = [w for key in ("entrypoint", "command") for w in _words(service.get(key))]
        engine, rest = _engine(words)
        if engine is None:
            engine = next((e for mark, e in IMAGES if mark in image.rpartition(":")[0]), None)
            rest = words
        if engine is not None and rest:
            version = re.search(r":v?(\d+\.\d+(?:\.\d+)?)", image)
            rest = [*_of_environment(_environment(service.get("environment"))), *rest]
            yield f"{engine}@{version[1]}" if version else engine, rest


def _environment(given: Any) -> dict[str, str]:
    """A service's environment: a mapping, or a list of NAME=value."""
    if isinstance(given, Mapping):
        return {str(k): _filled(str(v), {}) for k, v in given.items()}
    pairs = (_filled(str(item), {}).partition("=") for item in given or () if isinstance(given, list))
    return {name: value for name, equals, value in pairs if equals}


def _of_environment(values: Mapping[str, str]) -> list[str]:
    """The options that variables of the environment stand for."""
    return [ENVIRONMENT[name][value] for name, value in values.items() if value in ENVIRONMENT.get(name, {})]


def _words(command: Any) -> list[str]:
    if command is None:
        return []
    if isinstance(command, str):
        return _split(_filled(command.replace("\\\n", " "), {}))
    words = [_filled(str(word), {}) for word in command]
    if len(words) >= 2 and words[-2] in ("-c", "-lc") and "sh" in words[0]:
        return _split(words[-1].replace("\\\n", " "))
    return [part for word in words for part in (_split(word) if " -" in word else [word])]


def _script(text: str) -> Iterable[tuple[str, list[str]]]:
    values: dict[str, str] = {}
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        assigned = _ASSIGNMENT.match(line)
        if assigned:
            values[assigned[1]] = _filled(assigned[2].strip("\"'"), values)
            continue
        if line.lstrip().startswith("#"):
            continue
        parts = _split(_filled(line, values))
        engine, words = _engine(parts)
        if engine is not None:
            inline = {w.partition("=")[0]: w.partition("=")[2] for w in parts if not w.startswith("-")}
            yield engine, [*_of_environment(values | inline), *words]


def _engine(words: list[str]) -> tuple[str | None, list[str]]:
    names = [w.rpartition("/")[2] for w in words]
    for starter, engine in STARTERS:
        for i in range(len(names) - len(starter) + 1):
            if tuple(names[i : i + len(starter)]) == starter:
                return engine, words[i + len(starter) :]
    return None, words


def _filled(text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        known = values.get(name, match[2])
        return match[0] if known is None else known

    return _VARIABLE.sub(value, text)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()
