"""The contract an engine answers, and the table of engines. Adding one is a folder and a line here."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Protocol

from calc.cards import Card
from calc.plan import Plan
from calc.prediction import CachePlan, Device, Resolved, Term
from onboard.errors import UnknownEngine
from onboard.profile import Profile


class Engine(Protocol):
    """What `predict` asks, in this order. Every answer is a pure function of its arguments."""

    name: str
    knobs: frozenset[str]  # the Plan fields this engine has beyond engine, card, vram_gib, gpus, weights*, drafter*
    cards_knob: str  # the Plan field that says over how many cards one model is spread

    def resolve(self, profile: Profile, plan: Plan, card: Card, version: str | None) -> Resolved:
        """Fill every knob with that version's default for that card. Refuses knobs the engine lacks (UnknownKnob)."""
        ...

    def fixed_terms(self, profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
        """Everything that is not cache: weights, activation, cuda_graphs, runtime, drafter, adapters, encoder."""
        ...

    def budget_bytes(self, profile: Profile, resolved: Resolved) -> int:
        """What the engine may take of the card for its inside terms and its cache together."""
        ...

    def cache(self, profile: Profile, resolved: Resolved, pool_bytes: int) -> CachePlan:
        """The cache for a pool of `pool_bytes` (negative: nothing is left), with every refusal to start."""
        ...

    def devices(
        self, profile: Profile, resolved: Resolved, terms: tuple[Term, ...], cache: CachePlan
    ) -> tuple[Device, ...]:
        """Per-device shares, where devices differ; () where all cards are alike."""
        ...


ENGINES: dict[str, str] = {
    "vllm": "calc.engines.vllm",
    "llamacpp": "calc.engines.llamacpp",
    "sglang": "calc.engines.sglang",
}


@lru_cache(maxsize=256)
def engine_of(spec: str) -> tuple[Engine, str | None]:
    """`vllm` or `vllm@0.24` -> the engine and the version asked for. Raises UnknownEngine."""
    name, at, version = spec.partition("@")
    if at and not version.strip():
        raise UnknownEngine(
            "no version stands behind the @", path="--engine", value=spec, hint=f"{name}@VERSION, or {name}"
        )
    name = {"llama.cpp": "llamacpp", "llama-cpp": "llamacpp"}.get(name.lower(), name.lower())
    if name not in ENGINES:
        raise UnknownEngine(
            f"no rules for an engine called {name!r}", path="--engine", value=spec, hint="one of " + ", ".join(ENGINES)
        )
    engine: Engine = import_module(ENGINES[name]).ENGINE
    return engine, version or None
