"""The profile: a model as a tuple of typed layers, with every scalar fact and where it came from.

Frozen. Nothing here reads a file, and nothing that can be computed is stored. YAML is `profile_yaml`'s, the
contract's inspect JSON is `inspection`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from onboard.errors import Caution, FieldMissing
from onboard.layers import CacheSpec, Layer
from onboard.sourced import Sourced
from onboard.values import Struct, field

PROFILE_SCHEMA_VERSION = 1


class SourceRef(Struct, frozen=True, kw_only=True):
    """Where a profile was read: `kind` is hub, folder, file or gguf; `name` a repo id or the file's own name.

    `read_from` says in words how ("the Hub", a copy's own source.txt); `location` is what `refresh` opens again.
    """

    kind: str
    name: str
    revision: str | None = None
    config_sha256: str | None = None
    read_from: str = ""
    location: str = ""

    def same_model_as(self, other: SourceRef) -> bool:
        """Whether both are one repository (case does not count on the Hub) or one config, byte for byte."""
        digest = self.config_sha256
        return self.name.casefold() == other.name.casefold() or (digest is not None and digest == other.config_sha256)


class TensorGroup(Struct, frozen=True, kw_only=True):
    """Equal tensors that an engine treats alike under TP / EP / PP, in each of `layers` (once where there are none).

    `role` is a kind, or `part.kind` where the tensors are not the language model's: parts are `vision`, `audio`, `mtp`
    (the built-in draft head) and `talker`; kinds are `embedding`, `lm_head`, `attention`, `kv_proj`, `kv_tied`, `mlp`,
    `experts`, `shared_expert`, `router`, `norm`, `state`, `replicated` and `other` (`calc.shard` has the rule of each).
    `num_bytes` and `num_elements` are of one layer: bytes as stored, elements as unpacked parameters.
    """

    role: str
    num_bytes: int
    num_elements: int
    dtype: str
    layers: tuple[int, ...] = ()
    num_units: int = 0  # heads, experts or vocabulary rows that the rule divides; 0 where it divides bytes

    @property
    def part(self) -> str:
        """`vision`, `audio`, `mtp`, `talker`, or "" for the language model."""
        return self.role.rpartition(".")[0]

    @property
    def kind(self) -> str:
        return self.role.rpartition(".")[2]

    @property
    def copies(self) -> int:
        return len(self.layers) or 1


class WeightVariant(Struct, frozen=True, kw_only=True):
    """One set of weights a user can load. `origin`: headers, index, listing, parameters, stated or override.

    `num_bytes` is the whole set on disk (or as computed), every part included. `error_ppm` is the honest half width of
    a computed figure in millionths, 0 where the bytes were read.
    """

    name: str
    num_bytes: int
    origin: str
    where: str
    quantization: str | None = None
    repo: str | None = None
    revision: str | None = None
    num_parameters: int | None = None
    groups: tuple[TensorGroup, ...] = ()
    error_ppm: int = 0


def text_parameters(variant: WeightVariant) -> int:
    """Parameters of the language model alone: no tower, no draft head, no stored copy of a tied embedding."""
    return sum(g.num_elements * g.copies for g in variant.groups if not g.part and g.kind != "tied_copy")


# An assistant reads the target's caches (Gemma 4); Medusa and MLP speculators are output heads.
DRAFTS_WITHOUT_CACHES = ("assistant", "mtp", "ngram", "medusa", "mlp_speculator")


class DrafterRef(Struct, frozen=True, kw_only=True):
    """A draft model that goes with this one: `layers` are its own caches, `num_bytes` its weights."""

    name: str
    method: str  # "mtp", "eagle", "eagle3", "dflash", "assistant", "draft_model"
    num_bytes: int | None
    layers: tuple[Layer, ...] = ()
    source: str | None = None

    @property
    def caches_unknown(self) -> bool:
        """Whether it keeps caches of its own that no layer of it describes."""
        return not self.layers and self.method not in DRAFTS_WITHOUT_CACHES


class Deployment(Struct, frozen=True, kw_only=True):
    """A named set of plan options (`--compose NAME`), with where it was seen."""

    name: str
    options: Mapping[str, Any]
    source: str | None = None


class Profile(Struct, frozen=True, kw_only=True, dict=True, weakref=True):
    """One model. `layers` is the whole stack; `mtp_layers` the built-in draft head's, which cost nothing until used."""

    id: str
    source: SourceRef
    model_type: str
    architectures: tuple[str, ...]
    layers: tuple[Layer, ...]
    facts: Mapping[str, Sourced]
    mtp_layers: tuple[Layer, ...] = ()
    weights: tuple[WeightVariant, ...] = ()
    default_weights: str | None = None
    drafters: tuple[DrafterRef, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    warnings: tuple[Caution, ...] = ()
    unknowns: tuple[Caution, ...] = field(default=())

    def fact(self, name: str) -> Any:
        """The value of a fact, or None where it is not known."""
        sourced = self.facts.get(name)
        return None if sourced is None else sourced.value

    def require(self, name: str) -> Any:
        """The value of a fact. Raises FieldMissing, naming it, where it is not known."""
        sourced = self.facts.get(name)
        if sourced is None or sourced.value is None:
            raise FieldMissing(
                f"{self.id} does not state {name}",
                path=name,
                hint=f"state it in overrides/{self.id}.yaml, or in the config",
            )
        return sourced.value

    def to_json(self) -> dict[str, Any]:
        """The dictionary of `onboard inspect --json`."""
        from onboard.inspection import to_json

        return to_json(self)

    @cached_property
    def cache_groups(self) -> tuple[tuple[CacheSpec, tuple[int, ...]], ...]:
        """Every distinct cache spec with the indices of the layers that hold it, in order of first appearance."""
        seen: dict[CacheSpec, list[int]] = {}
        for index, layer in enumerate(self.layers):
            for spec in layer.caches:
                seen.setdefault(spec, []).append(index)
        return tuple((spec, tuple(indices)) for spec, indices in seen.items())

    @cached_property
    def growing_elements_per_token(self) -> Fraction:
        return sum((Fraction(c.growing_elements()) for layer in self.layers for c in layer.caches), Fraction(0))

    @cached_property
    def window_elements(self) -> int:
        return sum(c.window_elements() for layer in self.layers for c in layer.caches)

    @cached_property
    def state_elements_per_sequence(self) -> int:
        return sum(c.state_elements() for layer in self.layers for c in layer.caches)

    @cached_property
    def cross_elements_per_encoder_token(self) -> int:
        return sum(c.cross_elements() for layer in self.layers for c in layer.caches)
