"""Widths that a config leaves out: the peak then lies between what the least and the most of published models give.

The cache is exact without them, so a fragment of a config is answered; the estimate's interval says how little is
known, and a note names what to state. A width is never taken from here where the config or its class states it.
"""

from __future__ import annotations

from calc.arithmetic import remarked
from calc.prediction import Note, Term
from onboard.profile import Profile
from onboard.sourced import Sourced
from onboard.values import replace

#: Least, usual and largest of published decoder models (the corpus and transformers' class defaults).
HIDDEN = (1024, 5120, 16384)
VOCAB = (32_000, 151_936, 262_144)


def unstated(profile: Profile) -> tuple[str, ...]:
    """The widths that the estimates need and that neither the config nor its class states."""
    return tuple(name for name in ("hidden_size", "vocab_size") if not profile.fact(name))


def completed(profile: Profile) -> tuple[Profile, Profile, Profile]:
    """The profile with the least, the usual and the largest of every width it does not state."""
    missing = unstated(profile)
    known = {"hidden_size": _hidden(profile), "vocab_size": VOCAB}
    low, usual, high = (
        replace(
            profile,
            facts={**profile.facts, **{n: Sourced(known[n][i], "rule", "not stated: a range") for n in missing}},
        )
        for i in range(3)
    )
    return low, usual, high


def widened(low: tuple[Term, ...], usual: tuple[Term, ...], high: tuple[Term, ...], what: str) -> tuple[Term, ...]:
    """The usual terms, each with an interval from the least of the small ones to the most of the large ones."""
    least = {term.name: term for term in low}
    most = {term.name: term for term in high}
    found = []
    for term in usual:
        ends = (least.get(term.name, term), most.get(term.name, term))
        found.append(
            replace(
                term,
                low_bytes=min(term.low, *(end.low for end in ends)),
                high_bytes=max(term.high, *(end.high for end in ends)),
                origin="default",
                rule=remarked(term.rule, what),
            )
        )
    return tuple(found)


def unstated_notes(profile: Profile) -> tuple[Note, ...]:
    """One note that names the widths which are not stated; none where all are."""
    missing = unstated(profile)
    if not missing:
        return ()
    said = (
        f"{words(missing)}: the activation estimate spans what published models have; the cache does not depend on it"
    )
    return (Note("not-stated", f"{said}. State it in the config or in overrides/{profile.id}.yaml"),)


def words(missing: tuple[str, ...]) -> str:
    """ "hidden_size and vocab_size not stated"."""
    return f"{' and '.join(missing)} not stated"


def _hidden(profile: Profile) -> tuple[int, int, int]:
    """Query heads x head size where both are stated, which most models have as their width."""
    heads, head_dim = profile.fact("num_attention_heads"), profile.fact("head_dim")
    if isinstance(heads, int) and isinstance(head_dim, int) and heads * head_dim > 0:
        width = heads * head_dim
        return min(HIDDEN[0], width), width, max(HIDDEN[2], width)
    return HIDDEN
