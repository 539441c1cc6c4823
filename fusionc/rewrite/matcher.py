"""Solve a formula at a node: which values and nodes it stands for, or that it does not stand there.

Solutions are searched depth first with backtracking over operand orders and alternatives. A formula
of k operators with c commutative ones tries at most 2^c orders, and gives up on each at the first
operator that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import has_legacy_axis, is_known
from fusionc.model.tensors import float_info
from fusionc.rewrite import pattern
from fusionc.rewrite.match import Match


class _State(NamedTuple):
    """A partial solution. Never changed; each step makes a new one."""

    graph: Graph
    captures: dict[str, Any]
    bound: dict[int, Node]  # by identity of the OpFormula
    nodes: dict[Node, bool]  # whether it stays in the graph
    literal_rank: int = 0

    def capture(self, name: str, value: Any) -> _State:
        """This solution, with a name for a value; without one as it is."""
        return _State(self.graph, {**self.captures, name: value}, *self[2:]) if name else self


def match(
    formulas: Sequence[pattern.Formula], anchor: Node, absent: Mapping[str, None]
) -> Match | None:
    """The first solution in which `formulas[0]` is made by `anchor`; further formulas are further
    outputs.

    `absent` has the names that the match has in any case: None where the solution captures nothing
    of that name.
    """
    if isinstance(formulas[0], pattern.OpFormula) and not _orders(formulas[0], anchor):
        return None
    for value in [o for o in anchor.outputs if o is not None]:
        for state in _solve(formulas[0], value, _State(anchor.graph, {}, {}, {})):
            for solution, values in _solve_others(formulas[1:], state, (value,)):
                # what is handed out is replaced, wherever it was found
                replaced = {value.producer for value in values}
                nodes = [
                    node for node, stays in solution.nodes.items() if not stays or node in replaced
                ]
                captures = {**absent, **solution.captures}
                return Match(
                    anchor.graph, nodes, values, captures, literal_rank=solution.literal_rank
                )
    return None


def _solve_others(
    formulas: Sequence[pattern.Formula], state: _State, values: tuple[Edge, ...]
) -> Iterator[tuple[_State, tuple[Edge, ...]]]:
    """Find the other outputs of a pattern: among what is matched already, else downstream of it."""
    if not formulas:
        yield state, values
        return
    for value in _candidates(formulas[0], state):
        if value not in values:
            for found in _solve(formulas[0], value, state):
                yield from _solve_others(formulas[1:], found, (*values, value))


def _candidates(formula: pattern.Formula, state: _State) -> list[Edge]:
    """Values that may be `formula`, found from its parts that have a value already."""
    match formula:
        case pattern.Var(name) | pattern.Const(name):
            value = state.captures.get(name)
            return [] if value is None else [value]
        case pattern.OpFormula():
            if id(formula) in state.bound:
                nodes = [state.bound[id(formula)]]
            else:
                below = [value for part in formula.parts() for value in _candidates(part, state)]
                users = dict.fromkeys(node for value in below for node in value.outputs)
                nodes = [
                    n for n in users if n.operator in formula.operators and n.graph is state.graph
                ]
            return [o for node in nodes for o in node.outputs[:1] if o is not None]
        case pattern.Out(node, index):
            producers = [v.producer for v in _candidates(node, state) if v.producer is not None]
            return [
                o
                for p in producers
                for o in (p.outputs if index is None else p.outputs[index : index + 1])
                if o
            ]
        case _:
            return list(
                dict.fromkeys(
                    value for part in formula.parts() for value in _candidates(part, state)
                )
            )


def _solve(formula: pattern.Formula, value: Edge | None, state: _State) -> Iterable[_State]:
    """All solutions; of a formula that has one at most a tuple, as most formulas are of that
    kind.
    """
    if value is None:
        return (state,) if isinstance(formula, pattern.Maybe | pattern.Omitted) else ()
    solver: _Solver = _SOLVERS.get(type(formula), _refuse_place)
    return solver(formula, value, state)


def _solve_variable(formula: pattern.Var, value: Edge, state: _State) -> tuple[_State, ...]:
    bound = state.captures.get(formula.name)
    if bound is None:
        return (state.capture(formula.name, value),)
    return (state,) if bound is value else ()


def _solve_either(formula: pattern.Either, value: Edge, state: _State) -> Iterator[_State]:
    for alternative in formula.alternatives:
        yield from _solve(alternative, value, state)


def _solve_kept(formula: pattern.Keep, value: Edge, state: _State) -> Iterator[_State]:
    for found in _solve(formula.inner, value, state):
        yield found._replace(
            nodes=found.nodes | dict.fromkeys(found.nodes.keys() - state.nodes.keys(), True)
        )


def _solve_constant(formula: pattern.Const, value: Edge, state: _State) -> tuple[_State, ...]:
    if not (value.is_constant if formula.is_stored else is_known(value)):
        return ()
    if formula.value is not None:
        rank = value.rank
        if (
            rank is None
            or any(d != 1 for d in value.shape or ())
            or not is_number(value.constant(), formula.value)
        ):
            return ()
        state = state._replace(literal_rank=max(state.literal_rank, rank))
    if not formula.name or state.captures.get(formula.name) is value:
        return (state,)
    return () if formula.name in state.captures else (state.capture(formula.name, value),)


def is_number(array: np.ndarray[Any, Any] | None, number: float) -> bool:
    """Whether a constant has one element and it is this number; one that its type has not, to the
    last two bits.
    """
    if array is None or array.size != 1 or array.dtype.kind in "OSU":
        return False
    if array.dtype.kind in "iub":
        return bool(array.item() == number)
    expected = np.asarray(number).astype(array.dtype)
    near = (
        0.0
        if float(expected) == number
        else 2 * abs(float(expected)) * float(float_info(array.dtype).eps)
    )
    return bool(array.reshape(()) == expected or abs(float(array.item()) - float(expected)) <= near)


def _refuse_place(formula: pattern.Formula, value: Edge, state: _State) -> Iterable[_State]:
    raise TypeError(f"{type(formula).__name__} can only stand for the inputs of an operator")


def _solve_node(
    formula: pattern.OpFormula | pattern.Same | pattern.Out, value: Edge, state: _State
) -> Iterable[_State]:
    formula, index = (
        (formula.node, formula.index) if isinstance(formula, pattern.Out) else (formula, 0)
    )
    formula = formula.inner if isinstance(formula, pattern.Same) else formula
    node = value.producer
    if node is None or (index is not None and node.outputs.index(value) != index):
        return ()
    if id(formula) in state.bound:
        return (state,) if state.bound[id(formula)] is node else ()
    orders = _orders(formula, node)
    if not orders or node.graph is not state.graph or node.has_references or has_legacy_axis(node):
        return ()
    if not all(
        is_attribute(node.attr(name), wanted) for name, wanted in formula.attributes.items()
    ):
        return ()
    captures = {**state.captures, formula.label: node} if formula.label else state.captures
    nodes = {**state.nodes, node: state.nodes.get(node, False)}
    here = _State(
        state.graph, captures, {**state.bound, id(formula): node}, nodes, state.literal_rank
    )
    return chain.from_iterable(_solve_inputs(formula.args, inputs, here) for inputs in orders)


def _orders(formula: pattern.OpFormula, node: Node) -> list[tuple[Edge | None, ...]]:
    """The orders of the operands in which a node could be this formula. One look at it and at what
    makes its operands is enough to give most nodes up.
    """
    if node.operator not in formula.operators:
        return []
    has_two_orders = formula.is_commutative and len(node.inputs) == 2
    orders = [node.inputs, node.inputs[::-1]] if has_two_orders else [node.inputs]
    for place, makers in formula.demands:
        orders = [
            order
            for order in orders
            if _may_be(order[place] if place < len(order) else None, makers)
        ]
    return orders


def _may_be(value: Edge | None, makers: pattern.Operators | None) -> bool:
    if makers is None:
        return value is not None and value.is_constant
    return value is not None and value.producer is not None and value.producer.operator in makers


def is_attribute(actual: Any, wanted: Any) -> bool:
    """Whether an attribute is what a pattern says; models have its numbers as float32."""
    if isinstance(wanted, list | tuple) and actual:
        return len(actual) == len(wanted) and all(map(is_attribute, actual, wanted))
    return bool(actual == (float(np.float32(wanted)) if isinstance(wanted, float) else wanted))


def _solve_inputs(
    args: Sequence[pattern.Formula], inputs: Sequence[Edge | None], state: _State, place: int = 0
) -> Iterator[_State]:
    """The solutions for the inputs from a place on."""
    while place < len(args):
        match args[place]:
            case pattern.Rest(name):
                yield state.capture(name, list(inputs[place:]))
                return
            case pattern.Each(inner):
                yield from _solve_each(inner, inputs[place:], state)
                return
            case pattern.Among(inner):
                for value in inputs[place:]:
                    yield from _solve(inner, value, state)
                return
        found = _solve(args[place], inputs[place] if place < len(inputs) else None, state)
        place += 1
        if not isinstance(found, tuple):
            for solution in found:
                yield from _solve_inputs(args, inputs, solution, place)
            return
        if not found:
            return
        (state,) = found
    if all(value is None for value in inputs[place:]):
        yield state


def _solve_each(
    inner: pattern.Formula, inputs: Sequence[Edge | None], state: _State
) -> Iterator[_State]:
    if not inputs:
        return
    same = [part for part in pattern.walk(inner) if isinstance(part, pattern.Same)]
    shared = {id(part) for whole in same for part in pattern.walk(whole)}
    once = {name for whole in same for name in pattern.names(whole)}
    lists: dict[str, list[Any]] = {
        n: [] for n in pattern.names(inner) if n not in once and n not in state.captures
    }
    for value in inputs:
        found = next(iter(_solve(inner, value, state)), None)
        if found is None:
            return
        for name, captured in lists.items():
            captured.append(found.captures.get(name))
        state = found._replace(
            captures={n: v for n, v in found.captures.items() if n not in lists},
            bound={k: n for k, n in found.bound.items() if k in shared or k in state.bound},
        )
    yield state._replace(captures={**state.captures, **lists})


_Solver = Callable[[Any, Edge, _State], Iterable[_State]]
_SOLVERS: dict[type, _Solver] = {
    pattern.Var: _solve_variable,
    pattern.Const: _solve_constant,
    pattern.OpFormula: _solve_node,
    pattern.Same: _solve_node,
    pattern.Out: _solve_node,
    pattern.Either: _solve_either,
    pattern.Keep: _solve_kept,
    pattern.Maybe: lambda formula, value, state: _solve(formula.inner, value, state),
    pattern.Omitted: lambda formula, value, state: (),
}
