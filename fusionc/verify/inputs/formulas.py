"""Dimensions whose names are formulas over other dimensions, as exporters write them: "past + seq",
"2*batch".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

from fusionc.operators.polynomials import Polynomial, Quotient, floored, number, symbol

Sizes = Mapping[str, int]

_LARGEST = 1 << 63  # no dimension is larger
_LONGEST = 400  # characters of a formula, and terms of it
_LETTERS = re.compile(r"(?:[^\W\d]\w*+|[0-9]{1,18}+(?!\w)|[\s+\-*/()])*+")
_OPERATORS: dict[type[ast.operator], Callable[[Polynomial, Polynomial], Polynomial]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: floored,
    ast.FloorDiv: floored,
}


class _NoFormulaError(Exception):
    pass


def formula_of(text: str) -> Polynomial | None:
    """A symbol as a formula, such as "past + 1" or "2*s0 - seq"; None if it is not one."""
    if len(text) > _LONGEST or not _LETTERS.fullmatch(text):
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _read(tree) if isinstance(tree, ast.BinOp) else None
    except (SyntaxError, RecursionError, MemoryError, _NoFormulaError):
        return None


def _read(tree: ast.expr) -> Polynomial:
    if isinstance(tree, ast.Name):
        return symbol(tree.id)
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return number(tree.value)
    if not isinstance(tree, ast.BinOp) or type(tree.op) not in _OPERATORS:
        raise _NoFormulaError
    result = _OPERATORS[type(tree.op)](_read(tree.left), _read(tree.right))
    if len(result.terms) > _LONGEST:
        raise _NoFormulaError
    return result


def symbols_of(formula: Polynomial) -> list[str]:
    """The names in a formula."""
    return list(formula.atoms())


def evaluate(formula: Polynomial, sizes: Sizes) -> int | None:
    """The result of the formula for these sizes; None if a size is missing, a divisor is 0, or the
    result is too large for a dimension.
    """
    value = formula.value(sizes)
    return None if value is None or abs(value) > _LARGEST else value


def with_sizes(text: str, sizes: Sizes) -> int | str:
    """The symbol with these sizes inserted: a number, or a formula over the remaining symbols."""
    if text in sizes:
        return sizes[text]
    formula = formula_of(text)
    if formula is None or sizes.keys().isdisjoint(formula.atoms()):
        return text
    rest = formula.replaced(sizes)
    if rest.number is None:
        return _text(rest)
    return rest.number if 0 <= rest.number <= _LARGEST else text


def _text(formula: Polynomial) -> str:
    """A formula as exporters write it."""
    ordered = sorted(formula.terms, key=lambda term: (term[1] < 0, bool(term[0])))
    text = "" if ordered[0][1] > 0 else "0"
    for product, factor in ordered:
        sign = "-" if factor < 0 else "+"
        factors = [str(abs(factor))] if abs(factor) > 1 or not product else []
        part = " * ".join(factors + [_atom_text(atom) for atom in product])
        text = f"{text} {sign} {part}" if text else part
    return text


def _atom_text(atom: str | Quotient) -> str:
    if isinstance(atom, str):
        return atom
    above, below = (t if " " not in t else f"({t})" for t in map(_text, (atom.of, atom.divisor)))
    return f"({above} // {below})"
