"""`op`: operators as Python calls, for search and replace functions.

    op.Add(op.MatMul(x, w), b)      if the arguments are formulas, describes a subgraph;
                                    if they are values of a match, creates nodes

A search function and a replace function may therefore be the same function. A number means a
constant with this one element, a list a constant with these elements, `None` an omitted input, and
a keyword an attribute. In a replacement, `outputs=2` asks for two outputs, and `domain=` names
another operator set.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np
import onnx.defs

from fusionc.errors import nearest
from fusionc.model import operators
from fusionc.model.graph import Edge
from fusionc.model.tensors import type_name
from fusionc.rewrite import Match, Tape
from fusionc.rewrite.pattern import Arithmetic, Const, Formula, OpFormula, operand

_TAPE: ContextVar[Tape | None] = ContextVar("tape", default=None)
_SEARCH: ContextVar[SearchedValues | None] = ContextVar("search", default=None)


class SearchedValues:
    """What a search function may use although a formula cannot express it: arguments of the
    function as attributes of operators, and lists as operands.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {}  # by the name of the constant that must equal it
        # argument → label of each node that has it, and the name of the attribute
        self.attributes: dict[str, list[tuple[str, str]]] = {}

    def operand(self, written: Any) -> Formula:
        """The formula of an operand. A list is a constant with these elements."""
        if not isinstance(written, list | tuple | np.ndarray):
            return operand(written)
        name = f"list {len(self.lists)}"  # not the name of an argument
        self.lists[name] = np.asarray(written).tolist()
        return Const(name)

    def are_equal(self, m: Match) -> bool:
        """Whether the matched constants equal the lists in the search function."""
        values = {name: m.captures.get(name) for name in self.lists}
        return all(
            value is None or np.array_equal(value.constant(), self.lists[name])
            for name, value in values.items()
        )

    def label_for(self, attributes: dict[str, Any]) -> str:
        """Remove those attributes whose values are arguments of the search function. Return the
        label of the node if there were any, or an empty string.
        """
        captured = [name for name, value in attributes.items() if isinstance(value, Const)]
        if not captured:
            return ""
        label = f"node_{sum(map(len, self.attributes.values()))}"
        for name in captured:
            self.attributes.setdefault(attributes.pop(name).name, []).append((label, name))
        return label


class BuiltValue(Arithmetic[Any]):
    """A value in a replacement: an operand of `op` and of + − · / @ **."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge

    @property
    def meta(self) -> dict[str, Any]:
        """A dict as in torch: its key is that of torch.fx, and its value has a shape and a type."""
        return {"val": self}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.edge, name)  # shape, rank, dtype, constant() …

    def _apply(self, operator: str, *operands: Any) -> Any:
        return _call(operator, operands, {})


class _Builder:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *operands, **options: _call(name, operands, options)


op = _Builder()


@contextmanager
def searching() -> Iterator[SearchedValues]:
    """In this context, `op` builds formulas."""
    search = SearchedValues()
    token = _SEARCH.set(search)
    try:
        yield search
    finally:
        _SEARCH.reset(token)


@contextmanager
def building(tape: Tape) -> Iterator[None]:
    """In this context, `op` creates nodes on this tape."""
    token = _TAPE.set(tape)
    try:
        yield
    finally:
        _TAPE.reset(token)


def _call(name: str, operands: tuple[Any, ...], options: dict[str, Any]) -> Any:
    domain = options.pop("domain", "")
    search = _SEARCH.get()
    tape = _TAPE.get()
    _check(name, domain, [option for option in options if option != "outputs"])
    if search is not None:
        options.pop("outputs", None)
        label = search.label_for(options)
        return OpFormula(((domain, name),), tuple(map(search.operand, operands)), options, label)
    if tape is None:
        raise RuntimeError(
            f"op.{name} is for the search and replace functions of register_replacement"
        )
    likes = _likes(operands, operators.schema(name, domain, tape.graph.opset_of(domain)))
    edges = [to_edge(o, like, tape) for o, like in zip(operands, likes, strict=True)]
    outputs = tape.node(name, edges, domain=domain, **options)
    return tuple(map(BuiltValue, outputs)) if isinstance(outputs, tuple) else BuiltValue(outputs)


def _likes(operands: tuple[Any, ...], schema: onnx.defs.OpSchema | None) -> list[Edge | None]:
    """For each operand that is a number, the value whose element type the number gets; `None` for
    other operands.

    If the schema requires the number to have the type of another operand, that operand is the
    value. Otherwise it is the first operand that is a value, if the operator accepts its type for
    the number. An index keeps its own type.
    """
    values = {index: o.edge for index, o in enumerate(operands) if isinstance(o, BuiltValue)}
    first = next(iter(values.values()), None)
    if schema is None or not schema.inputs or first is None:
        return [first] * len(operands)
    parameters = [
        schema.inputs[min(index, len(schema.inputs) - 1)] for index in range(len(operands))
    ]
    first_of_type: dict[str, Edge] = {}
    for index, value in values.items():
        first_of_type.setdefault(parameters[index].type_str, value)
    likes = [first_of_type.get(parameter.type_str, first) for parameter in parameters]
    return [
        like if _accepts(parameter, like) else None
        for parameter, like in zip(parameters, likes, strict=True)
    ]


def _accepts(parameter: onnx.defs.OpSchema.FormalParameter, value: Edge) -> bool:
    """Whether an operator accepts the type of a value for this input. Unknown types are
    accepted.
    """
    return not value.elem_type or f"tensor({type_name(value.elem_type)})" in parameter.types


@cache
def _attribute_names() -> dict[str, set[str]]:
    """For each standard operator, the attributes that it has in any version."""
    names: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            names.setdefault(schema.name, set()).update(schema.attributes)
    return names


def _check(name: str, domain: str, attributes: list[str]) -> None:
    """Raise ValueError for a misspelt operator or attribute, because otherwise the pass would never
    match, or would be refused silently.
    """
    if domain:
        return
    attribute_names = _attribute_names().get(name)
    if attribute_names is None:
        near = nearest(name, (schema.name for schema in onnx.defs.get_all_schemas()))
        raise ValueError(
            f"ONNX has no operator {name}" + (f"; did you mean {near}?" if near else "")
        )
    for attribute in attributes:
        if attribute not in attribute_names:
            choices = ", ".join(sorted(attribute_names)) or "none"
            raise ValueError(f"{name} has no attribute {attribute}; it has {choices}")


def to_edge(operand: Any, like: Edge | None, tape: Tape) -> Edge | None:
    """The edge of a value. For a number: a new constant."""
    if operand is None or isinstance(operand, BuiltValue):
        return None if operand is None else operand.edge
    # a number gets the type of the other operand; an index keeps its own
    if isinstance(operand, bool | int | float):
        return (
            tape.const(np.asarray(operand))
            if like is None
            else tape.const(np.asarray(operand), dtype=like.dtype)
        )
    array = np.asarray(operand)
    if array.dtype.kind in "OSU":
        raise TypeError(f"{operand!r:.60} is neither a value of the model nor a number")
    return tape.const(array)
