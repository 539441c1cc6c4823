"""Sentences about misfits: the matcher reports what does not fit and why, and this file puts it
into words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fusionc.errors import choice_text, quote
from fusionc.model.graph import Edge, Node
from fusionc.model.operators import has_legacy_axis
from fusionc.operators.facts import Trait, names_with
from fusionc.rewrite import matcher
from fusionc.rewrite.matcher import NoSolution
from fusionc.rewrite.pattern import (
    AROUND,
    Among,
    Const,
    Each,
    Either,
    Formula,
    Maybe,
    OpFormula,
    Out,
    Var,
    makers,
)
from fusionc.why.trace import MORE_INPUTS, NO_ALTERNATIVE, Misfit, Trace

_NAME = re.compile("‹.*?›")
_SAME = "the pattern has the same value in both places"
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_OPERANDS = names_with(Trait.BROADCASTS) | {"MatMul"}


def node_text(node: Node) -> str:
    """A node in a reason: its operator and its name."""
    return f"{node.op} {named(node.label())}"


def named(name: str) -> str:
    """A name in a reason."""
    return f"‹{name}›"


def strip_names(reason: str) -> str:
    """A reason without its names, to group equal reasons."""
    return _NAME.sub("", reason)


def first_reason(furthest: Trace, anchor: Node) -> str:
    """The first thing that does not fit, and where."""
    misfit = furthest.misfits[0]
    if misfit.node is not None:
        return f"{node_text(misfit.node)}: {_node_reason(misfit, misfit.node)}"
    if misfit.place:
        wanted = _wanted(misfit.formula, misfit)
        output = f"the pattern's {_ordinal(misfit.place)} output"
        return f"{node_text(anchor)}: {output}, {wanted}, is missing"
    return f"{node_text(anchor)}: its {_oddity(anchor) or 'operator does not fit'}"


def _node_reason(misfit: Misfit, node: Node) -> str:
    """What does not fit at a node: its number of inputs, an attribute, or one of its inputs."""
    formula = misfit.formula
    if misfit.why in _OF_NODES and isinstance(formula, OpFormula):
        return _OF_NODES[misfit.why](misfit, formula, node)
    while isinstance(formula, Each):
        formula = formula.inner
    if isinstance(formula, Among):
        return f"none of its {_kind(node)}s is {_wanted(formula.inner, misfit)}"
    value = misfit.value
    text = "is left out" if value is None else _WORDS[misfit.why](formula, value, misfit)
    return f"{_input_text(node, misfit.place, value)} {text}"


def _too_many_inputs(_: Misfit, formula: OpFormula, node: Node) -> str:
    most = "at most " if any(isinstance(arg, Maybe) for arg in formula.args) else ""
    return f"has {len(node.inputs)} inputs, not {most}{len(formula.args)}"


def _attribute(misfit: Misfit, formula: OpFormula, node: Node) -> str:
    name = str(misfit.place)
    wanted = _literal(formula.attributes[name])
    actual = node.attr(name)
    if actual is None:
        return f"attribute {name} is missing, and would have to be {wanted}"
    return f"attribute {name} is {_literal(actual)}, not {wanted}"


def _literal(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    return quote(value) if isinstance(value, str | list | tuple | int) else str(value)


def _kind(node: Node) -> str:
    return "operand" if node.op in _OPERANDS else "input"


def _input_text(node: Node, place: int | str, value: Edge | None) -> str:
    inputs = list(node.inputs)
    if value is not None and not (isinstance(place, int) and inputs[place : place + 1] == [value]):
        place = inputs.index(value)  # the operands match in either order
    name = "" if value is None else f" {named(value.name)}"
    return f"{_ordinal(place)} {_kind(node)}{name}"


def _ordinal(place: int | str) -> str:
    number = int(place)
    return _ORDINALS[number] if number < len(_ORDINALS) else f"no. {number + 1}"


def _nonconstant(formula: Formula, value: Edge, _: Misfit) -> str:
    is_stored = not isinstance(formula, Const) or formula.is_stored
    kind = "a constant" if is_stored else "computed from constants alone"
    return f"is not {kind}: it is {_origin(value)}"


def _other_number(formula: Formula, value: Edge, misfit: Misfit) -> str:
    constant = _innermost(formula)
    assert isinstance(constant, Const) and constant.value is not None
    array = value.constant()
    if array is None or array.size != 1:
        return f"has the shape {list(value.shape or ())}, not the one element {constant.value:.9g}"
    return f"is {array.reshape(())[()]!s}, not {constant.value!r}"


def _other_value(formula: Formula, value: Edge, misfit: Misfit) -> str:
    name = getattr(_innermost(formula), "name", "")
    other = misfit.captures.get(name)
    return f"is not {named(other.name) if isinstance(other, Edge) else name}: {_SAME}"


def _other_operator(formula: Formula, value: Edge, misfit: Misfit) -> str:
    actual = _origin(value)
    wanted = _wanted(formula, misfit)
    both_made = actual.startswith("made by ") and wanted.startswith("made by ")
    return f"is {actual}, not {wanted.removeprefix('made ') if both_made else wanted}"


def _other_output(formula: Formula, value: Edge, misfit: Misfit) -> str:
    wanted = _innermost(formula)
    index = wanted.index if isinstance(wanted, Out) else 0
    node = _maker(value)
    place = node.outputs.index(value)
    return f"is the {_ordinal(place)} output of {node_text(node)}, not the {_ordinal(index or 0)}"


def _other_node(formula: Formula, value: Edge, misfit: Misfit) -> str:
    node = _maker(value)
    same = f"the pattern has one and the same {node.op} in several places"
    return f"is made by {node_text(node)}: {same}"


def _odd(formula: Formula, value: Edge, misfit: Misfit) -> str:
    node = _maker(value)
    return f"is made by {node_text(node)}, whose {_oddity(node)}"


_OF_NODES: dict[NoSolution, Callable[[Misfit, OpFormula, Node], str]] = {
    MORE_INPUTS: _too_many_inputs,
    matcher.OTHER_ATTRIBUTE: _attribute,
}
_WORDS: dict[NoSolution, Callable[[Formula, Edge, Misfit], str]] = {
    matcher.NOT_LEFT_OUT: lambda _, value, __: (
        f"is {_origin(value)}, and would have to be left out"
    ),
    matcher.NOT_CONSTANT: _nonconstant,
    matcher.UNKNOWN_SHAPE: lambda *_: "is a constant whose shape is not known here",
    matcher.OTHER_NUMBER: _other_number,
    matcher.OTHER_VALUE: _other_value,
    matcher.OTHER_OPERATOR: _other_operator,
    matcher.OTHER_OUTPUT: _other_output,
    matcher.OTHER_NODE: _other_node,
    matcher.OTHER_GRAPH: lambda _, value, __: (
        f"is made outside of this subgraph, by {node_text(_maker(value))}"
    ),
    matcher.ODD_NODE: _odd,
    NO_ALTERNATIVE: _other_operator,
}


def _innermost(formula: Formula) -> Formula:
    """The formula inside wrappers such as `maybe`."""
    while isinstance(formula, AROUND):
        formula = formula.parts()[0]
    return formula


def _maker(value: Edge) -> Node:
    assert value.producer is not None
    return value.producer


def _oddity(node: Node) -> str:
    """Why formulas never match a node of this form; empty if a formula may match."""
    if node.has_references:
        return "attributes are parameters of the function that holds it"
    return "operands are aligned at an axis, as before opset 7" if has_legacy_axis(node) else ""


def _origin(value: Edge) -> str:
    if value.is_constant:
        return "a constant"
    if value.producer is not None:
        return f"made by {node_text(value.producer)}"
    return "an input of the graph" if value in value.graph.inputs else "made by no operator"


def _wanted(formula: Formula, misfit: Misfit) -> str:
    """What the formula needs at this place."""
    operators = makers(formula)
    if operators is not None:
        return f"made by {choice_text(op for _, op in operators)}"
    match _innermost(formula):
        case Const(value=value):
            return "a constant" if value is None else f"{value:.9g}"
        case Var(name):
            other = misfit.captures.get(name)
            return named(other.name) if isinstance(other, Edge) else "a value"
        case Either(alternatives):
            return choice_text(_wanted(one, misfit) for one in alternatives)
    return "a value"
