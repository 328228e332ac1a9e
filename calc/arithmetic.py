"""How a rule's line of arithmetic is written, so that it can be redone by hand.

`expression; remark`: numbers with their units or factors named, + - x / ( ) min max ceil (rounded up), GiB = 2^30,
MiB = 2^20, GB = 10^9, B and words being no operation, and notes in [square brackets]. Constants stand in full.
"""

from __future__ import annotations


def num(value: float) -> str:
    """`262,144`, or every digit of a constant that is no whole number."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value!r}"


def over(value: int, shares: int, word: str = "TP") -> str:
    """`17,408 / TP 2`; the number alone where nothing divides it."""
    return f"{value:,} / {word} {shares}" if shares > 1 else f"{value:,}"


def line_of(rule: str, size: int) -> str:
    """The rule with its result behind the arithmetic: `8 x 4 B = 32 B; a remark`."""
    expression, _, remark = rule.partition("; ")
    left = f"{expression} = " if expression else ""
    return f"{left}{size:,} B" + (f"; {remark}" if remark else "")


def remarked(rule: str, remark: str) -> str:
    """The rule with one more remark."""
    return f"{rule}; {remark}" if remark else rule
