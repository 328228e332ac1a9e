"""Typed cache specs. A model is a tuple of `Layer`s; a layer holds the caches it owns, most hold one.

Everything here is architecture: what must be remembered, in elements, before any engine rounds, pads, shards
or quantises it. Counts by kind are computed, never stored. Not here: bytes, formats, pages.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

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
