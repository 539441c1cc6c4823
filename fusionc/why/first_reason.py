"""What does not fit, in words: one look at the value that stands where a part of the pattern would
have to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from fusionc.errors import quote
from fusionc.model.graph import Edge, Node
from fusionc.model.operators import has_legacy_axis, is_known
from fusionc.operators.facts import Trait, names_with
from fusionc.rewrite.matcher import is_attribute, is_number
from fusionc.rewrite.pattern import (
    Among,
    Const,
    Each,
    Either,
    Formula,
    Maybe,
    Omitted,
    OpFormula,
    Out,
    Rest,
    Same,
    Var,
    makers,
)
from fusionc.why.furthest import Furthest, Unfit
from fusionc.why.partial_formula import INPUTS, inside, operators_in

_NAME = re.compile("‹.*?›")
_SAME = "the pattern has the same value in both places"
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_OPERANDS = names_with(Trait.BROADCASTS) | {"MatMul"}


def node_text(node: Node) -> str:
    """A node as the reasons name it: its operator and its name."""
    return f"{node.op} {named(node.label())}"


def named(name: str) -> str:
    """A name as it stands in a reason."""
    return f"‹{name}›"


def without_names(reason: str) -> str:
    """What reasons have in common that differ in names alone."""
    return _NAME.sub("", reason)


def first_reason(furthest: Furthest, anchor: Node) -> str:
    """The first thing that does not fit, and where."""
    unfit = furthest.unfit[0]
    if furthest.found is None:
        return f"{node_text(anchor)}: its {_odd(anchor) or 'operator does not fit'}"
    if unfit.owner is None:
        wanted = _wanted(unfit.formula, furthest)
        return f"{node_text(anchor)}: the pattern's {_ordinal(unfit.condition)} output, {wanted}, is not there"
    one_by_one = _reasons(furthest, unfit, unfit.owner)
    return next(filter(None, one_by_one), "") or next(
        _reasons(furthest, unfit, unfit.owner, together=True)
    )


def value_at(furthest: Furthest, unfit: Unfit) -> list[Edge]:
    """The values that stand where something else would have to."""
    if furthest.found is None or unfit.owner is None or not isinstance(unfit.condition, int):
        return []
    found = furthest.found.captures.get(furthest.part.names[unfit.owner, unfit.condition])
    return [value for value in _flat(found) if isinstance(value, Edge)]


def _flat(found: Any) -> Iterator[Any]:
    for item in found if isinstance(found, list) else [found]:
        yield from _flat(item) if isinstance(item, list) else [item]


def _reasons(
    furthest: Furthest, unfit: Unfit, owner: OpFormula, *, together: bool = False
) -> Iterator[str]:
    """What does not fit, once for each node that the operator stands for: several in an `each`.

    Empty where one look shows nothing; with `together` it is said then that it does not fit
    together with the rest.
    """
    assert furthest.found is not None
    captures = furthest.found.captures
    nodes = captures[furthest.part.labels[owner]]
    for at, node in enumerate(nodes if isinstance(nodes, list) else [nodes]):
        if node is None:  # of an input that may be left out
            continue
        if unfit.condition == INPUTS:
            text = _number_of_inputs(owner, node)
        elif isinstance(unfit.condition, str):
            text = _attribute(owner, node, unfit.condition.removesuffix("="))
        else:
            value = captures.get(furthest.part.names[owner, unfit.condition])
            value = value[at] if isinstance(nodes, list) and isinstance(value, list) else value
            text = _of_value(furthest, unfit, unfit.condition, node, value, together)
        yield text and f"{node_text(node)}: {text}"


def _of_value(
    furthest: Furthest, unfit: Unfit, at: int, node: Node, value: Any, together: bool
) -> str:
    """What is wrong with an input of a node, or with one of those from there on, where the formula
    stands for all.
    """
    formula = unfit.formula
    if isinstance(formula, Among):
        return f"none of its {_kind(node)}s is {_wanted(formula.inner, furthest)}"
    if isinstance(formula, Each):
        return _of_each(furthest, formula, list(node.inputs)[at:], node, at, together)
    what = _mismatch(formula, value, furthest, node)
    if together and not what:
        what = _not_with_the_rest(formula, value, furthest)
    inputs = list(node.inputs)
    if isinstance(value, Edge) and not (at < len(inputs) and inputs[at] is value):
        at = inputs.index(value)  # the operands match in either order
    return what and f"{_input_text(node, at, value)} {what}"


def _of_each(
    furthest: Furthest,
    formula: Each,
    values: Sequence[Edge | None],
    node: Node,
    start: int,
    together: bool,
) -> str:
    """What is wrong with the first of these inputs of a node, all of which would have to be what
    the formula says.
    """
    if not values:
        return f"{_input_text(node, start, None)} is left out"
    for at, value in enumerate(values, start):
        if what := _mismatch(formula.inner, value, furthest, node):
            return f"{_input_text(node, at, value)} {what}"
    if not together:
        return ""
    makers_of = [None if value is None else value.producer for value in values]
    at = next((at for at, maker in enumerate(makers_of) if maker is not makers_of[0]), 0)
    return f"{_input_text(node, start + at, values[at])} {_not_with_the_rest(formula.inner, values[at], furthest)}"


def _kind(node: Node) -> str:
    return "operand" if node.op in _OPERANDS else "input"


def _input_text(node: Node, at: int, value: Any) -> str:
    return (
        f"{_ordinal(at)} {_kind(node)}{f' {named(value.name)}' if isinstance(value, Edge) else ''}"
    )


def _number_of_inputs(owner: OpFormula, node: Node) -> str:
    most = "at most " if any(isinstance(arg, Maybe) for arg in owner.args) else ""
    return (
        ""
        if len(node.inputs) <= len(owner.args)
        else f"has {len(node.inputs)} inputs, not {most}{len(owner.args)}"
    )


def _attribute(owner: OpFormula, node: Node, name: str) -> str:
    actual = node.attr(name)
    wanted = owner.attributes[name]
    if is_attribute(actual, wanted):
        return ""
    if actual is None:
        return f"attribute {name} is not there, and would have to be {_literal(wanted)}"
    return f"attribute {name} is {_literal(actual)}, not {_literal(wanted)}"


def _literal(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    return quote(value) if isinstance(value, str | list | tuple | int) else str(value)


def _ordinal(at: Any) -> str:
    return _ORDINALS[at] if at < len(_ORDINALS) else f"no. {at + 1}"


def _mismatch(formula: Formula | None, value: Any, furthest: Furthest, user: Node) -> str:
    """Why a value is not what the formula stands for, as far as one look shows; empty where it
    could be.
    """
    if value is None:
        return "" if isinstance(formula, Maybe | Omitted) else "is left out"
    if formula is None:
        return ""
    match formula:
        case Omitted():
            return f"is {_origin(value)}, and would have to be left out"
        case Const():
            return _no_constant(formula, value, furthest)
        case Var(name):
            other = _captured(furthest, name)
            return (
                f"is not {named(other.name)}: {_SAME}"
                if isinstance(other, Edge) and other is not value
                else ""
            )
        case Either(alternatives):
            if any(not _mismatch(one, value, furthest, user) for one in alternatives):
                return ""
            return _is_not(_origin(value), _wanted(formula, furthest))
        case OpFormula() | Out():
            return _no_output_of(formula, value, user)
    inner = inside(formula)
    return _mismatch(inner, value, furthest, user) if inner is not None else ""


def _is_not(actual: str, wanted: str) -> str:
    both_made = actual.startswith("made by ") and wanted.startswith("made by ")
    return f"is {actual}, not {wanted.removeprefix('made ') if both_made else wanted}"


def _no_constant(formula: Const, value: Edge, furthest: Furthest) -> str:
    if not (value.is_constant if formula.is_stored else is_known(value)):
        kind = "a constant" if formula.is_stored else "computed from constants alone"
        return f"is not {kind}: it is {_origin(value)}"
    if formula.value is not None and value.rank is None:
        return "is a constant of which the shape is not known here"
    if formula.value is not None and not is_number(value.constant(), formula.value):
        array = value.constant()
        if array is None or array.size != 1:
            return (
                f"has the shape {list(value.shape or ())}, not the one element {formula.value:.9g}"
            )
        return f"is {array.reshape(())[()]!s}, not {formula.value!r}"
    other = _captured(furthest, formula.name)
    if isinstance(other, Edge) and other is not value:
        return f"is not {named(other.name)}: {_SAME}"
    return ""


def _captured(furthest: Furthest, name: str) -> Any:
    return None if furthest.found is None or not name else furthest.found.captures.get(name)


def _no_output_of(formula: OpFormula | Out, value: Edge, user: Node) -> str:
    wanted = makers(formula) or {}
    producer = value.producer
    if producer is None or (producer.domain, producer.op) not in wanted:
        return _is_not(_origin(value), f"made by {_any_of(op for _, op in wanted)}")
    if producer.graph is not user.graph:
        return f"is made outside of this subgraph, by {node_text(producer)}"
    at = producer.outputs.index(value)
    index = formula.index if isinstance(formula, Out) else 0
    if index is not None and at != index:
        return f"is the {_ordinal(at)} output of {node_text(producer)}, not the {_ordinal(index)}"
    odd = _odd(producer)
    return odd and f"is made by {node_text(producer)}, whose {odd}"


def _not_with_the_rest(formula: Formula | None, value: Any, furthest: Furthest) -> str:
    """What to say of a value that could be what the formula stands for, were it not for the other
    values.
    """
    is_same = False
    maker = formula
    while maker is not None and not isinstance(maker, OpFormula):
        is_same = is_same or isinstance(maker, Same)
        maker = inside(maker)
    matched = [
        *furthest.part.labels,
        *(one for f in furthest.part.formulas for one in operators_in(f)),
    ]
    value = value[-1] if isinstance(value, list) else value
    if isinstance(value, Edge) and value.producer is not None and (is_same or maker in matched):
        producer = value.producer
        return f"is made by {node_text(producer)}: the pattern has one and the same {producer.op} in several places"
    return "does not fit together with the rest of the pattern"


def _odd(node: Node) -> str:
    """Why a node of the right operator is none that a formula could mean; empty where it could
    be.
    """
    if node.has_references:
        return "attributes are parameters of the function that holds it"
    return "operands are aligned at an axis, as before opset 7" if has_legacy_axis(node) else ""


def _origin(value: Edge) -> str:
    if value.producer is not None:
        return "a constant" if value.is_constant else f"made by {node_text(value.producer)}"
    if value.is_constant:
        return "a constant"
    return "an input of the graph" if value in value.graph.inputs else "made by no operator"


def _wanted(formula: Formula | None, furthest: Furthest) -> str:
    match formula:
        case Const(value=value) if value is not None:
            return f"{value:.9g}"
        case Const():
            return "a constant"
        case Var(name):
            other = _captured(furthest, name)
            return named(other.name) if isinstance(other, Edge) else "a value"
        case Rest() | None:
            return "a value"
        case Either(alternatives) if makers(formula) is None:
            return _any_of(_wanted(one, furthest) for one in alternatives)
    operators = makers(formula)
    if operators is not None:
        return f"made by {_any_of(op for _, op in operators)}"
    inner = inside(formula)
    return "a value" if inner is None else _wanted(inner, furthest)


def _any_of(words: Any) -> str:
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} or {last}" if others else last
