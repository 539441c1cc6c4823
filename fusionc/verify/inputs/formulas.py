"""Dimensions whose names are formulas over other dimensions, as exporters write them: "past + seq",
"2*batch".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

Sizes = Mapping[str, int]
# names, numbers and operators in postfix order, so that one of any length is one loop
Formula = tuple[str, ...]

_LARGEST = 1 << 63  # what a dimension can be
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "/": operator.floordiv,
}
_TOKEN = re.compile(r"[^\W\d]\w*|[0-9]{1,18}|//|[+\-*/()]")
_OPERAND = 3  # binds more than any operator


def formula_of(symbol: str) -> Formula | None:
    """The formula, where a symbol is one: "past + 1", "2*s0 - seq"."""
    tokens = _TOKEN.findall(symbol)
    if not any(token in _OPERATORS for token in tokens) or _TOKEN.sub("", symbol).strip():
        return None
    result: list[str] = []
    waiting: list[str] = []  # operators and open parentheses
    is_operand_next = True
    for token in tokens:
        if is_operand_next != (token not in _OPERATORS and token != ")"):
            return None
        if token == "(":
            waiting.append(token)
        elif is_operand_next:
            result.append(token)
            is_operand_next = False
        elif token == ")":
            while waiting and waiting[-1] != "(":
                result.append(waiting.pop())
            if not waiting:
                return None
            waiting.pop()
        else:
            while waiting and waiting[-1] != "(" and _binds(waiting[-1]) >= _binds(token):
                result.append(waiting.pop())
            waiting.append(token)
            is_operand_next = True
    result += reversed(waiting)
    return None if is_operand_next or "(" in waiting else tuple(result)


def symbols_of(formula: Formula) -> list[str]:
    """The names in a formula."""
    return [token for token in formula if token not in _OPERATORS and not token.isdecimal()]


def evaluate(formula: Formula, sizes: Sizes) -> int | None:
    """What the formula gives for these sizes; None where one is missing, the divisor is 0, or no
    dimension is as large.
    """
    stack: list[int] = []
    for token in formula:
        if token in _OPERATORS:
            right = stack.pop()
            left = stack.pop()
            if right == 0 and token in ("/", "//"):
                return None
            value: int | None = _OPERATORS[token](left, right)
        else:
            value = int(token) if token.isdecimal() else sizes.get(token)
        if value is None or abs(value) > _LARGEST:
            return None
        stack.append(value)
    return stack.pop()


def with_sizes(symbol: str, sizes: Sizes) -> int | str:
    """The symbol once these sizes are known: a number, or the formula over what is still open."""
    if symbol in sizes:
        return sizes[symbol]
    formula = formula_of(symbol)
    if formula is None or not any(name in sizes for name in symbols_of(formula)):
        return symbol
    value = evaluate(formula, sizes)
    if value is not None:
        return value if value >= 0 else symbol
    return _text(tuple(str(sizes.get(token, token)) for token in formula))


def _text(formula: Formula) -> str:
    stack: list[tuple[str, int]] = []
    for token in formula:
        if token not in _OPERATORS:
            stack.append((token, _OPERAND))
            continue
        (right, below) = stack.pop()
        (left, above) = stack.pop()
        own = _binds(token)
        left = left if above >= own else f"({left})"
        right = right if below > own else f"({right})"
        stack.append((f"{left} {token} {right}", own))
    return stack.pop()[0]


def _binds(operator_: str) -> int:
    return 1 if operator_ in "+-" else 2
