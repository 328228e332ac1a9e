"""Which way imports may point, as laws over {module: what it imports}; each law carries a violation it must find."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

Imports = Mapping[str, frozenset[str]]  # module -> absolute names, functions' own imports included
Found = set[tuple[str, str]]  # (module, what it must not import)


def imports_of(source: str, *, lazy: bool = True) -> frozenset[str]:
    """Absolute names that a module imports; without `lazy` only those at import time (TYPE_CHECKING left out)."""

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if not lazy and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            yield child
            yield from walk(child)

    names: set[str] = set()
    for node in walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def within(name: str, *places: str) -> bool:
    """Whether a module is one of `places` or stands below one."""
    return any(name == place or name.startswith(place + ".") for place in places)


def only(what: tuple[str, ...], *may: str) -> Callable[[Imports], Found]:
    """`what` is imported by `may` alone (and by itself)."""
    return lambda house: {
        (m, i) for m, names in house.items() for i in names if within(i, *what) and not within(m, *may, *what)
    }


def never(who: tuple[str, ...], *what: str) -> Callable[[Imports], Found]:
    """`who` never import any of `what`."""
    return lambda house: {(m, i) for m, names in house.items() if within(m, *who) for i in names if within(i, *what)}


def _calc_asks_profiles(house: Imports) -> Found:
    """calc knows profiles, layers and data files; how a config is read is none of its business."""
    return {
        (m, i)
        for m, names in house.items()
        if within(m, "calc")
        for i in names
        if within(i, "onboard") and i != "onboard" and not within(i, *PROFILE_LEVEL) and not _excepted(m, i)
    }


def _excepted(module: str, name: str) -> bool:
    return any(within(name, *what) and within(module, *who) for what, who in READ_BY)


def _engines_apart(house: Imports) -> Found:
    """An engine is reached through the table in `calc.engines`, by nobody by its name, not even by its sibling."""
    found: Found = set()
    for module, names in house.items():
        own = ".".join(module.split(".")[:3]) if within(module, "calc.engines") else ""
        found |= {(module, i) for i in names if within(i, *ENGINES) and not (own and within(i, own))}
    return found


def _no_circles(house: Imports) -> Found:
    """Modules that reach each other. `MAY_REACH_BACK` is left out: a method that the contract fixes."""
    edges = {module: _needs(names, house) - {module} for module, names in house.items()}
    for module, back in MAY_REACH_BACK:
        edges.get(module, set()).discard(back)
    reach: dict[str, set[str]] = {}
    for start in edges:
        seen: set[str] = set()
        stack = list(edges[start])
        while stack:
            module = stack.pop()
            if module not in seen:
                seen.add(module)
                stack.extend(edges[module])
        reach[start] = seen
    return {(a, b) for a, seen in reach.items() for b in seen if a < b and a in reach[b]}


def _needs(names: frozenset[str], house: Imports) -> set[str]:
    """The modules behind the names. `from package import module` needs the module, not what the package hands on."""
    handed = {name for name in names if any(n.rpartition(".")[0] == name for n in names)}
    bare = {name for name in handed if all(n in house for n in names if n.rpartition(".")[0] == name)}
    return {found for name in names - bare if (found := _module(name, house))}


def _module(name: str, house: Imports) -> str:
    while name and name not in house:
        name = name.rpartition(".")[0]
    return name


ENGINES = ("calc.engines.vllm", "calc.engines.llamacpp", "calc.engines.sglang")
PROFILE_LEVEL = (
    "onboard.errors", "onboard.values", "onboard.sourced", "onboard.layers", "onboard.states", "onboard.profile",
    "onboard.tp", "onboard.drafters", "onboard.open", "onboard.anchor_file", "onboard.anchor_checks",
    "onboard.catalog_paths", "onboard.yamlio",
)  # fmt: skip
# What one place of calc asks of onboard beyond profiles.
READ_BY: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("onboard.gguf",), ("calc.engines.llamacpp",)),  # the tables of GGUF's types and of the converter
    (("onboard.weights", "onboard.facts"), ("calc.adapters",)),  # the matrices that a LoRA slot wraps
    (("onboard.catalog",), ("calc.estimates.measured_model",)),  # the source that a shipped id stands for
    (("onboard.console",), ("calc.cli",)),
    (("onboard.text_table",), ("calc.report", "calc.table", "calc.commands")),
)
MAY_REACH_BACK = (("onboard.profile", "onboard.inspection"),)  # Profile.to_json
ARCHITECTURE = (
    "onboard.layers", "onboard.states", "onboard.profile", "onboard.facts", "onboard.fields", "onboard.rules",
)  # fmt: skip
PRINTERS = (
    "onboard.commands", "onboard.console", "onboard.report", "onboard.text_table", "calc.commands", "calc.report",
    "calc.bootlog_report", "calc.calibration_report",
)  # fmt: skip
OPTIONS = ("calc.plan_options", "calc.commandline")  # click's parser; they print nothing
NETWORK = ("huggingface_hub", "httpx", "requests", "urllib", "socket", "http")


class Law(NamedTuple):
    """`planted` is (module, source): a violation that `broken` must find."""

    broken: Callable[[Imports], Found]
    planted: tuple[str, str]


LAWS: dict[str, Law] = {
    "onboard never imports calc": Law(never(("onboard",), "calc"), ("onboard.rules.x", "import calc.plan")),
    "calc asks onboard for profiles": Law(_calc_asks_profiles, ("calc.x", "from onboard.rules import patterns")),
    "only llama.cpp reads GGUF's tables": Law(_calc_asks_profiles, ("calc.shard", "from onboard.gguf import types")),
    "an engine is reached through its table": Law(
        _engines_apart, ("calc.predict", "def f():\n    from calc.engines.vllm import pool")
    ),
    "an engine knows no other": Law(_engines_apart, ("calc.engines.sglang.x", "from calc.engines.vllm import pages")),
    "an engine knows nothing of what asks it": Law(
        never(ENGINES, "calc.predict", "calc.solve", "calc.table", "calc.advice", "calc.report", "calc.bootlog",
              "calc.calibration", "calc.anchors", "calc.fitting"),
        ("calc.engines.vllm.x", "from calc.bootlog import compare"),
    ),
    "estimates know no engine": Law(
        never(("calc.estimates",), "calc.engines"), ("calc.estimates.x", "from calc.engines import engine_of")
    ),
    "nothing imports a command line": Law(
        only(("onboard.cli", "calc.cli")), ("onboard.read", "from onboard.cli import main")
    ),
    "nothing imports a command of onboard": Law(
        only(("onboard.commands",)), ("calc.commands.x", "import onboard.commands.add")
    ),
    "nothing imports a command of calc": Law(only(("calc.commands",)), ("calc.x", "from calc.commands import predict")),
    "only the sources touch the network": Law(
        only(NETWORK, "onboard.sources"), ("onboard.read", "def f():\n    from urllib.request import urlopen")
    ),
    "only yamlio touches YAML": Law(
        only(("ruamel", "yaml"), "onboard.yamlio"), ("calc.cards", "from ruamel.yaml import YAML")
    ),
    "only the class defaults read transformers": Law(
        only(("transformers",), "onboard.class_defaults"), ("onboard.facts", "from transformers import AutoConfig")
    ),
    "nothing knows torch": Law(only(("torch",)), ("calc.estimates.x", "import torch")),
    "only tables import rich": Law(only(("rich",), "onboard.text_table"), ("calc.report", "import rich.table")),
    "architecture knows no reader and no text": Law(
        never(
            ARCHITECTURE, "onboard.sources", "onboard.yamlio", "onboard.catalog", "onboard.onboarding",
            "onboard.report", "onboard.console", "onboard.read",
        ),
        ("onboard.rules.x", "from onboard.yamlio import load"),
    ),
    "only commands, reports and the console print": Law(
        only(("click",), *PRINTERS, *OPTIONS), ("calc.predict", "import click")
    ),
    "no circles": Law(_no_circles, ("onboard.errors", "def f():\n    from onboard.catalog import Catalog")),
}  # fmt: skip
