"""The weights term: a variant's groups by the rules of `shard`, or a total without its parts (`totals`)."""

from __future__ import annotations

from calc.in_flight import quantised
from calc.prediction import Resolved, Term
from calc.shard import HALVED, RULES, WORDS, Split, card_bytes, fullest_stage, served, split_of
from calc.totals import total_term
from onboard.errors import WeightsUnknown
from onboard.profile import Profile, TensorGroup, WeightVariant
from onboard.values import replace


def chosen_variant(profile: Profile, name: str | None) -> WeightVariant:
    """The variant the plan names, else the profile's default, else its only one. Raises WeightsUnknown."""
    wanted = name or profile.default_weights
    for variant in profile.weights:
        if wanted is None or variant.name == wanted:
            return variant
    missing = (
        f"{profile.id} has no weights called {wanted!r}" if wanted else f"the weights of {profile.id} are not known"
    )
    hint = "give --weights-gb X (10^9 bytes, the checkpoint's size)"
    hint += "".join(f", or --weights {w.name}" for w in profile.weights)
    raise WeightsUnknown(missing, path="--weights", value=wanted, hint=hint)


def wanted_variant(profile: Profile, name: str | None) -> WeightVariant | None:
    """As `chosen_variant`, None where there is none."""
    try:
        return chosen_variant(profile, name)
    except WeightsUnknown:
        return None


def weights_term(profile: Profile, resolved: Resolved) -> Term:
    """Bytes of weights on the fullest card. Raises WeightsUnknown where nothing gives them."""
    plan, split = resolved.plan, split_of(resolved)
    if plan.weights_gb is not None:
        total = round(plan.weights_gb * 10**9)
        return _even("option", total, split, f"--weights-gb {plan.weights_gb:g}")
    variant = quantised(profile, chosen_variant(profile, plan.weights), plan.quantization)
    return variant_term(profile, variant, split, language_model_only=plan.language_model_only)


def variant_term(profile: Profile, variant: WeightVariant, split: Split, *, language_model_only: bool = False) -> Term:
    """The weights term of one variant under one split."""
    if not variant.groups:
        return total_term(
            profile, variant.num_bytes, split, origin=variant.origin, where=f"{variant.name}: {variant.where}",
            error_ppm=variant.error_ppm, text_only=language_model_only,
        )  # fmt: skip
    groups = tuple(g for g in variant.groups if served(g, language_model_only=language_model_only))
    if variant.quantization == "mxfp4":
        width = profile.fact("moe_intermediate_size") or profile.fact("intermediate_size")
        split = replace(split, expert_width=width if isinstance(width, int) else 0)
    size = fullest_stage(groups, split, len(profile.layers))
    margin = size * variant.error_ppm // 10**6
    return Term(
        name="weights", bytes=size, low_bytes=size - margin, high_bytes=size + margin, origin=variant.origin,
        rule=explain(groups, split, size) + f"{variant.name}, from {variant.where}",
    )  # fmt: skip


def _even(origin: str, total: int, split: Split, where: str) -> Term:
    """A total whose parts are not known, divided by the cards: what is replicated is not counted twice."""
    shares = split.tp * split.pp
    size = -(-total // shares)
    return Term(
        name="weights", bytes=size, low_bytes=size, high_bytes=size if shares == 1 else size + size // 20,
        rule=f"{total:,} B / {shares} card(s); {where}", origin=origin,
    )  # fmt: skip


def explain(groups: tuple[TensorGroup, ...], split: Split, size: int) -> str:
    """The sum by rule, so that it can be redone by hand: what one card holds of what is stored."""
    stored: dict[str, int] = {}
    held: dict[str, int] = {}
    halved = False
    for group in groups:
        word = WORDS[RULES[group.kind]]
        if word == "experts":
            word = f"whole experts over EP {split.ep}, the fullest card" if split.ep > 1 else "experts"
        on_card = card_bytes(group, split) * group.copies
        halved = halved or (on_card > 0 and group.dtype in HALVED)
        stored[word] = stored.get(word, 0) + group.num_bytes * group.copies
        held[word] = held.get(word, 0) + on_card
    parts = " + ".join(_share(word, stored[word], held[word], split) for word in stored if held[word])
    said = f"{split.text}{', 32-bit tensors loaded at 16 bits' if halved else ''}, "
    if split.pp == 1:
        return f"{parts}; {said}"
    return f"{size:,} B on the fullest stage; of {parts} in all stages, {said}"


def _share(word: str, stored: int, held: int, split: Split) -> str:
    """One rule's bytes on a card: the division where it is one, else the figure beside what is stored."""
    if held == stored:
        return f"{held:,} B {_PLAIN.get(word, word)}"
    if split.tp > 1 and held * split.tp == stored:
        return f"{stored:,} B / TP {split.tp}"
    return f"{held:,} B [{word}, of {stored:,} B stored]"


_PLAIN = {"divided by TP": "in all", "vocabulary rows padded to 64, divided by TP": "vocabulary rows"}
