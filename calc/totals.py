"""A checkpoint of which only the total is known -> bytes on a card, with the by-rule groups of the model as a guide.

A quantiser leaves norms, routers and towers at 16 bits, and those stay whole on every card where the rules say so; the
rest of the total divides. What cannot be told from a total (is a draft head in it, how wide is a tied K) widens the
interval.
"""

from __future__ import annotations

from collections.abc import Iterable

from calc.prediction import Term
from calc.shard import RULES, Split, card_bytes, is_whole, served
from onboard.profile import Profile, TensorGroup

UNSEEN = 20  # without a guide, a twentieth may be replicated


def total_term(
    profile: Profile, total: int, split: Split, *, origin: str, where: str, error_ppm: int = 0, text_only: bool = False
) -> Term:
    """The weights term of a set of `total` bytes, its low and high ends included."""
    guide = next((v.groups for v in profile.weights if v.groups), ())
    loaded = [g for g in guide if served(g, language_model_only=text_only)]
    dropped = _bytes(g for g in guide if text_only and g.part in ("vision", "audio"))
    whole = _bytes(g for g in loaded if is_whole(g))
    shares = split.tp * split.pp
    if not guide or split.pp > 1 or whole + dropped > total // 2:
        size = -(-total // shares)
        margin = size * error_ppm // 10**6
        high = size + margin + (size // UNSEEN if shares > 1 else 0)
        rule = f"{total:,} B / {shares} card(s); {where}"
        return Term(name="weights", bytes=size, low_bytes=size - margin, high_bytes=high, rule=rule, origin=origin)
    divided = total - dropped - whole
    size = -(-divided // split.tp) + whole
    margin = size * error_ppm // 10**6
    head = _bytes(g for g in guide if g.part == "mtp" and served(g, drafts=True)) // split.tp
    second = sum(
        (card_bytes(g, split) - RULES["kv_proj"](g, g.num_bytes, split)) * g.copies
        for g in loaded
        if g.kind == "kv_tied"
    )
    apart = f"{dropped + whole:,} B {'not loaded or not divided' if dropped else 'not divided'}"
    parts = f"({total:,} B - {apart}) / TP {split.tp} + {whole:,} B whole on every card"
    low = max(size - margin - head // 2, size // 2)
    return Term(
        name="weights", bytes=size, low_bytes=low, high_bytes=size + margin + second,
        rule=f"{parts}; {where}{', towers dropped' if dropped else ''}", origin=origin,
    )  # fmt: skip


def _bytes(groups: Iterable[TensorGroup]) -> int:
    return sum(g.num_bytes * g.copies for g in groups)
