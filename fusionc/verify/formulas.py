"""Dimensions whose names are formulas over other dimensions, as exporters write them: "past + seq", "2*batch"."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

Sizes = Mapping[str, int]

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


def formula_of(symbol: str) -> ast.expr | None:
    """The parsed formula, where a symbol is one: "past + 1", "2*s0 - seq"."""
    if re.fullmatch(r"[\w\s+\-*/()]+", symbol) is None or not re.search(r"[+\-*/]", symbol):
        return None
    try:
        tree = ast.parse(symbol.strip(), mode="eval").body
    except SyntaxError:
        return None
    allowed = (ast.BinOp, ast.Name, ast.Constant, ast.Load, ast.operator)
    return tree if all(isinstance(node, allowed) for node in ast.walk(tree)) else None


def symbols_of(tree: ast.expr) -> list[str]:
    """The names in a formula."""
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def evaluate(tree: ast.expr, sizes: Sizes) -> int | None:
    """What the formula gives for these sizes; None where one is missing, or the divisor is 0."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return sizes.get(tree.id)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        left, right = evaluate(tree.left, sizes), evaluate(tree.right, sizes)
        if left is None or right is None or (right == 0 and isinstance(tree.op, (ast.Div, ast.FloorDiv))):
            return None
        return _OPERATORS[type(tree.op)](left, right)
    return None


def with_sizes(symbol: str, sizes: Sizes) -> int | str:
    """The symbol once these sizes are known: a number, or the formula over what is still open."""
    if symbol in sizes:
        return sizes[symbol]
    tree = formula_of(symbol)
    if tree is None or not any(name in sizes for name in symbols_of(tree)):
        return symbol
    value = evaluate(tree, sizes)
    if value is not None:
        return value if value >= 0 else symbol
    return ast.unparse(_Known(sizes).visit(tree))


class _Known(ast.NodeTransformer):
    """Puts sizes in the places of their names."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._sizes[node.id]) if node.id in self._sizes else node
