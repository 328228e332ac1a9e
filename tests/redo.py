"""A rule's line of arithmetic, worked out from its text alone, as its reader would."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable

_UNITS = {"GiB": 2**30, "MiB": 2**20, "GB": 10**9}
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_CALLS: dict[str, Callable[..., float]] = {"min": min, "max": max, "ceil": math.ceil}


def redone(expression: str) -> float:
    """The value in bytes. Raises where the line holds more than numbers, units, words, + - x / ( ), min, max, ceil."""
    text = re.sub(r"\[[^\]]*\]", "", expression)
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    for unit, size in _UNITS.items():
        text = re.sub(rf"(?<=[\d)]) {unit}\b", f" * {size}", text)
    text = re.sub(r"(?<![\w.])x(?!\w)", "*", text)
    text = re.sub(r"\b(?!(?:min|max|ceil)\()[A-Za-z][\w'-]*(?:\(s\))?", " ", text)
    return _value(ast.parse(text.strip(), mode="eval").body)


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _CALLS[node.func.id](*(_value(a) for a in node.args))
    raise AssertionError(f"not arithmetic: {ast.dump(node)}")
