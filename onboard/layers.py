"""Typed cache specs. A model is a tuple of `Layer`s; a layer holds the caches it owns, most hold one.

Everything here is architecture: what must be remembered, in elements, before any engine rounds, pads, shards
or quantises it. Counts by kind are computed, never stored. Not here: bytes, formats, pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from onboard.errors import BadProfile
from onboard.values import Struct, fields


class CacheSpec(Struct, frozen=True):
    """One cache of one layer. `kind` is the contract's word for it."""

    kind: ClassVar[str] = ""

    def growing_elements(self) -> int | Fraction:
        """Elements that each further token adds, for as long as the context grows."""
        return 0

    def window_elements(self) -> int:
        """Elements of a full window or chunk: exactly window x elements per token."""
        return 0

    def state_elements(self) -> int:
        """Elements a sequence holds whatever its length."""
        return 0

    def cross_elements(self) -> int:
        """Elements per encoder token."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """The contract's fields of this kind, without `kind` and `indices`."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


class Heads(CacheSpec, frozen=True):
    """K and V rows of `num_kv_heads` heads; one tensor instead of two has `v_dim` 0."""

    num_kv_heads: int
    k_dim: int
    v_dim: int

    def elements_per_token(self) -> int:
        return self.num_kv_heads * (self.k_dim + self.v_dim)


class FullAttention(Heads, frozen=True):
    """Keeps every token. `k_eq_v` reports tied K and V projections; the cache still holds what `v_dim` says."""

    kind: ClassVar[str] = "full"
    k_eq_v: bool = False

    def growing_elements(self) -> int | Fraction:
        return self.elements_per_token()


class WindowAttention(Heads, frozen=True):
    """Keeps the last `window` tokens."""

    kind: ClassVar[str] = "window"
    window: int
    k_eq_v: bool = False

    def window_elements(self) -> int:
        return self.window * self.elements_per_token()


class ChunkedAttention(Heads, frozen=True):
    """Keeps the tokens of the current chunk (Llama 4)."""

    kind: ClassVar[str] = "chunked"
    chunk: int

    def window_elements(self) -> int:
        return self.chunk * self.elements_per_token()


class LatentAttention(CacheSpec, frozen=True):
    """MLA: one latent row and one shared rope key a token, for all heads; K and V both come from it."""

    kind: ClassVar[str] = "latent"
    latent_dim: int
    rope_dim: int

    def elements_per_token(self) -> int:
        return self.latent_dim + self.rope_dim

    def growing_elements(self) -> int | Fraction:
        return self.elements_per_token()


class WindowLatent(LatentAttention, frozen=True):
    """A latent cache that keeps only the last `window` tokens."""

    window: int

    def growing_elements(self) -> int | Fraction:
        return 0

    def window_elements(self) -> int:
        return self.window * self.elements_per_token()


class Compressed(CacheSpec, frozen=True):
    """One entry of `elements_per_entry` for every `tokens_per_entry` tokens (DeepSeek-V4 class)."""

    kind: ClassVar[str] = "compressed"
    elements_per_entry: int
    tokens_per_entry: int

    def growing_elements(self) -> int | Fraction:
        return Fraction(self.elements_per_entry, self.tokens_per_entry)


class Indexer(CacheSpec, frozen=True):
    """Keys of a sparse-attention indexer: `elements_per_entry` for every `tokens_per_entry` tokens."""

    kind: ClassVar[str] = "indexer"
    elements_per_entry: int
    tokens_per_entry: int = 1

    def growing_elements(self) -> int | Fraction:
        return Fraction(self.elements_per_entry, self.tokens_per_entry)

    def to_json(self) -> dict[str, Any]:
        return {
            "elements_per_token": plain(self.growing_elements()),
            "elements_per_entry": self.elements_per_entry,
            "tokens_per_entry": self.tokens_per_entry,
        }


class CrossAttention(Heads, frozen=True):
    """K and V of the encoder's tokens. `num_encoder_tokens` is None where the encoder's length is the input's."""

    kind: ClassVar[str] = "cross"
    num_encoder_tokens: int | None = None

    def cross_elements(self) -> int:
        return self.elements_per_token()


class SharedWith(CacheSpec, frozen=True):
    """Reads another layer's cache and owns none."""

    kind: ClassVar[str] = "shared"
    layer: int


class Layer(Struct, frozen=True):
    """The caches one layer owns. No caches: the layer keeps nothing (kind `none`)."""

    caches: tuple[CacheSpec, ...] = ()

    def kinds(self) -> tuple[str, ...]:
        return tuple(c.kind for c in self.caches) or ("none",)


KINDS = ("full", "window", "chunked", "latent", "compressed", "indexer", "state", "cross", "shared", "none")


def plain(number: int | Fraction) -> int | float:
    """An int where the fraction is whole, else a float, for JSON and text only."""
    whole = Fraction(number)
    return whole.numerator if whole.denominator == 1 else float(whole)


def spec_to_dict(spec: CacheSpec) -> dict[str, Any]:
    """The fields that rebuild `spec`, with its class under `type` (what a profile file holds)."""
    return {"type": type(spec).__name__, **{f.name: getattr(spec, f.name) for f in fields(spec)}}


def spec_from_dict(data: Mapping[str, Any], path: str = "layers") -> CacheSpec:
    """Rebuild a spec. Raises BadProfile, naming the class, field and value, where the mapping is not one."""
    from onboard.states import STATE_CLASSES

    name = data.get("type")
    cls = {**_CLASSES, **STATE_CLASSES}.get(name if isinstance(name, str) else "")
    if cls is None:
        raise BadProfile(
            f"no layer class is called {name!r}",
            path=f"{path}.type",
            value=name,
            hint="one of " + ", ".join(sorted({**_CLASSES, **STATE_CLASSES})),
        )
    known = {f.name: f for f in fields(cls)}
    given = {k: v for k, v in data.items() if k != "type"}
    for key, value in given.items():
        if key not in known:
            raise BadProfile(
                f"{name} has no field {key!r}", path=f"{path}.{key}", value=value, hint=f"it has {', '.join(known)}"
            )
        wants = str(known[key].type)
        if value is None and "None" in wants:
            continue
        if wants.startswith("int") and (
            isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**40
        ):
            raise BadProfile(f"{name}.{key} must be an integer from 0 to 2^40", path=f"{path}.{key}", value=value)
        if wants == "bool" and not isinstance(value, bool):
            raise BadProfile(f"{name}.{key} must be true or false", path=f"{path}.{key}", value=value)
        if wants == "str" and not isinstance(value, str):
            raise BadProfile(f"{name}.{key} must be text", path=f"{path}.{key}", value=value)
    try:
        return cls(**given)
    except TypeError as error:
        raise BadProfile(f"{name}: {error}", path=path, value=dict(data)) from None


_CLASSES: dict[str, type[CacheSpec]] = {
    c.__name__: c
    for c in (
        FullAttention,
        WindowAttention,
        ChunkedAttention,
        LatentAttention,
        WindowLatent,
        Compressed,
        Indexer,
        CrossAttention,
        SharedWith,
    )
}
