"""Match a formula at a node: assign values and nodes of the graph to the parts of the formula.

The search is depth first, with backtracking over operand orders and alternatives. For a formula
with c commutative operators at most 2^c orders are tried. Each order ends at the first operator
that does not fit.

The Search object of a state decides what happens after a misfit. The fast search gives up.
`fusionc why` has another Search, which notes the misfit and continues. Both use this matcher, so
they cannot disagree.
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

_LISTS = (pattern.Rest, pattern.Each, pattern.Among)

Inputs = Sequence[Edge | None]


class NoSolution(tuple[Any, ...]):
    """An empty tuple of solutions. Its identity gives the reason."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


LEFT_OUT = NoSolution()  # the input is left out
NOT_LEFT_OUT = NoSolution()  # the input must be left out, but is present
NOT_CONSTANT = NoSolution()
UNKNOWN_SHAPE = NoSolution()  # the constant must have one element, but its shape is unknown
OTHER_NUMBER = NoSolution()  # the constant is another number
OTHER_VALUE = NoSolution()  # the name is already bound to another value
OTHER_OPERATOR = NoSolution()
OTHER_OUTPUT = NoSolution()  # the operator fits, but the value is another output of the node
OTHER_NODE = NoSolution()  # the sub-formula is already bound to another node
OTHER_GRAPH = NoSolution()  # the node is in an outer graph
ODD_NODE = NoSolution()  # the operator fits, but the node has a form that formulas do not cover
OTHER_ATTRIBUTE = NoSolution()


class Search:
    """The fast search: it gives up at the first misfit."""

    def orders(self, formula: pattern.OpFormula, node: Node) -> list[Inputs]:
        """The operand orders to try. If the list is empty, the node does not match."""
        return possible_orders(formula, node)

    def note_attribute(
        self, state: State, formula: pattern.OpFormula, node: Node, name: str
    ) -> State | None:
        """The state in which the search continues after an attribute that does not fit. `None` if
        the search gives up the node.
        """
        return None

    def solve_inputs(
        self, formula: pattern.OpFormula, node: Node, orders: Sequence[Inputs], state: State
    ) -> Iterable[State]:
        """The solutions for the inputs of a node."""
        return chain.from_iterable(_solve_inputs(formula, node, order, state) for order in orders)

    def solve_item(
        self, inner: pattern.Formula, value: Edge | None, state: State, node: Node, place: int
    ) -> Iterable[State]:
        """The solutions for one of the inputs of an `each`."""
        return solve(inner, value, state)


FAST = Search()


class State(NamedTuple):
    """A partial solution. It is immutable; each step creates a new one."""

    graph: Graph
    captures: dict[str, Any]  # by name
    bound: dict[int, Node]  # the node of each OpFormula, by the id of the OpFormula
    nodes: dict[Node, bool]  # the matched nodes; whether each stays in the graph
    literal_rank: int = 0  # the highest rank of a constant that was matched only by its value
    search: Search = FAST

    def capture(self, name: str, value: Any) -> State:
        """This solution with one more captured value. Unchanged if the name is empty."""
        return State(self.graph, {**self.captures, name: value}, *self[2:]) if name else self


def match(
    formulas: Sequence[pattern.Formula], anchor: Node, absent: Mapping[str, None]
) -> Match | None:
    """The first match in which the node `anchor` computes `formulas[0]`. The other formulas are the
    other outputs of the pattern.

    `absent` has all names that the match must have, with the value None: a name that the solution
    does not capture stays None.
    """
    if isinstance(formulas[0], pattern.OpFormula) and not possible_orders(formulas[0], anchor):
        return None
    for value in [o for o in anchor.outputs if o is not None]:
        for state in solve(formulas[0], value, State(anchor.graph, {}, {}, {})):
            for solution, values in _solve_others(formulas[1:], state, (value,)):
                # outputs are replaced even inside `keep`
                replaced = {value.producer for value in values}
                nodes = [n for n, stays in solution.nodes.items() if not stays or n in replaced]
                captures = {**absent, **solution.captures}
                rank = solution.literal_rank
                return Match(anchor.graph, nodes, values, captures, literal_rank=rank)
    return None


def _solve_others(
    formulas: Sequence[pattern.Formula], state: State, values: tuple[Edge, ...]
) -> Iterator[tuple[State, tuple[Edge, ...]]]:
    """Match the other outputs of a pattern: values of matched nodes, or values downstream."""
    if not formulas:
        yield state, values
        return
    for value in candidates(formulas[0], state):
        if value not in values:
            for solution in solve(formulas[0], value, state):
                yield from _solve_others(formulas[1:], solution, (*values, value))


def candidates(formula: pattern.Formula, state: State) -> list[Edge]:
    """The values that may match `formula`. The search starts from parts of the formula that are
    already bound.
    """
    match formula:
        case pattern.Var(name) | pattern.Const(name):
            value = state.captures.get(name)
            return [] if value is None else [value]
        case pattern.OpFormula():
            return _outputs(_makers(formula, state), 0)
        case pattern.Out(node, index):
            return _outputs((value.producer for value in candidates(node, state)), index)
        case _:
            return _part_candidates(formula, state)


def _outputs(nodes: Iterable[Node | None], index: int | None) -> list[Edge]:
    """One output of each node, or all of them."""
    wanted = slice(None) if index is None else slice(index, index + 1)
    return [o for node in nodes if node is not None for o in node.outputs[wanted] if o is not None]


def _part_candidates(formula: pattern.Formula, state: State) -> list[Edge]:
    return list(dict.fromkeys(v for part in formula.parts() for v in candidates(part, state)))


def _makers(formula: pattern.OpFormula, state: State) -> list[Node]:
    """The nodes that may match an operator: the node already bound to the formula, or else the
    consumers of values that may match its arguments.
    """
    if id(formula) in state.bound:
        return [state.bound[id(formula)]]
    users = dict.fromkeys(
        node for value in _part_candidates(formula, state) for node in value.outputs
    )
    return [n for n in users if n.operator in formula.operators and n.graph is state.graph]


def solve(formula: pattern.Formula, value: Edge | None, state: State) -> Iterable[State]:
    """All solutions for a formula at a value. In the usual case, at most one solution, the result
    is a tuple.
    """
    if value is None:
        return (state,) if isinstance(formula, pattern.Maybe | pattern.Omitted) else LEFT_OUT
    solver: _Solver = _SOLVERS.get(type(formula), _refuse_place)
    return solver(formula, value, state)


def _solve_variable(formula: pattern.Var, value: Edge, state: State) -> tuple[State, ...]:
    bound = state.captures.get(formula.name)
    if bound is None:
        return (state.capture(formula.name, value),)
    return (state,) if bound is value else OTHER_VALUE


def _solve_either(formula: pattern.Either, value: Edge, state: State) -> Iterator[State]:
    for alternative in formula.alternatives:
        yield from solve(alternative, value, state)


def _solve_kept(formula: pattern.Keep, value: Edge, state: State) -> Iterable[State]:
    solutions = solve(formula.inner, value, state)
    if isinstance(solutions, NoSolution):
        return solutions
    return (
        each._replace(
            nodes=each.nodes | dict.fromkeys(each.nodes.keys() - state.nodes.keys(), True)
        )
        for each in solutions
    )


def _solve_constant(formula: pattern.Const, value: Edge, state: State) -> tuple[State, ...]:
    if not (value.is_constant if formula.is_stored else is_known(value)):
        return NOT_CONSTANT
    if formula.value is not None:
        rank = value.rank
        if rank is None:
            return UNKNOWN_SHAPE
        if any(d != 1 for d in value.shape or ()) or not is_number(value.constant(), formula.value):
            return OTHER_NUMBER
        state = state._replace(literal_rank=max(state.literal_rank, rank))
    if not formula.name or state.captures.get(formula.name) is value:
        return (state,)
    if formula.name in state.captures:
        return OTHER_VALUE
    return (state.capture(formula.name, value),)


def is_number(array: np.ndarray[Any, Any] | None, number: float) -> bool:
    """Whether a constant has one element that equals this number. If the type of the constant
    cannot represent the number, the last two bits of the element may differ.
    """
    if array is None or array.size != 1 or array.dtype.kind in "OSU":
        return False
    if array.dtype.kind in "iub":
        return bool(array.item() == number)
    expected = np.asarray(number).astype(array.dtype)
    rounded = float(expected)
    near = 0.0 if rounded == number else 2 * abs(rounded) * float(float_info(array.dtype).eps)
    return bool(array.reshape(()) == expected or abs(float(array.item()) - rounded) <= near)


def _refuse_place(formula: pattern.Formula, value: Edge, state: State) -> Iterable[State]:
    raise TypeError(f"{type(formula).__name__} can only be an argument of an operator")


def _solve_node(
    formula: pattern.OpFormula | pattern.Same | pattern.Out, value: Edge, state: State
) -> Iterable[State]:
    index: int | None = 0
    if isinstance(formula, pattern.Out):
        index = formula.index
        formula = formula.node
    if isinstance(formula, pattern.Same):
        formula = formula.inner
    node = value.producer
    if node is None or node.operator not in formula.operators:
        return OTHER_OPERATOR
    if index is not None and node.outputs.index(value) != index:
        return OTHER_OUTPUT
    if id(formula) in state.bound:
        return (state,) if state.bound[id(formula)] is node else OTHER_NODE
    if node.graph is not state.graph:
        return OTHER_GRAPH
    return _solve_operator(formula, node, state)


def _solve_operator(formula: pattern.OpFormula, node: Node, state: State) -> Iterable[State]:
    """The solutions for a node whose operator fits the formula."""
    orders = state.search.orders(formula, node)
    if not orders or node.has_references or has_legacy_axis(node):
        return ODD_NODE
    for name, wanted in formula.attributes.items():
        if not is_attribute(node.attr(name), wanted):
            noted = state.search.note_attribute(state, formula, node, name)
            if noted is None:
                return OTHER_ATTRIBUTE
            state = noted
    captures = {**state.captures, formula.label: node} if formula.label else state.captures
    nodes = {**state.nodes, node: state.nodes.get(node, False)}
    here = State(state.graph, captures, {**state.bound, id(formula): node}, nodes, *state[4:])
    return here.search.solve_inputs(formula, node, orders, here)


def operand_orders(formula: pattern.OpFormula, node: Node) -> list[Inputs]:
    """The operand orders in which a formula is tried: the order of the node's inputs, and for a
    commutative operator also the reverse order.
    """
    has_two_orders = formula.is_commutative and len(node.inputs) == 2
    return [node.inputs, node.inputs[::-1]] if has_two_orders else [node.inputs]


def possible_orders(formula: pattern.OpFormula, node: Node) -> list[Inputs]:
    """The operand orders in which a node might fit this formula. This quick test of the node and
    the producers of its operands rules out most nodes.
    """
    if node.operator not in formula.operators:
        return []
    orders = operand_orders(formula, node)
    for place, makers in formula.demands:
        orders = [o for o in orders if _may_be(o[place] if place < len(o) else None, makers)]
    return orders


def _may_be(value: Edge | None, makers: pattern.Operators | None) -> bool:
    if makers is None:
        return value is not None and value.is_constant
    return value is not None and value.producer is not None and value.producer.operator in makers


def is_attribute(actual: Any, wanted: Any) -> bool:
    """Whether an attribute has the value in a pattern. Numbers are compared as float32, because
    models store float32.
    """
    if isinstance(wanted, list | tuple) and actual:
        return len(actual) == len(wanted) and all(map(is_attribute, actual, wanted))
    return bool(actual == (float(np.float32(wanted)) if isinstance(wanted, float) else wanted))


def _solve_inputs(
    formula: pattern.OpFormula, node: Node, inputs: Inputs, state: State, place: int = 0
) -> Iterator[State]:
    """The solutions for the inputs from index `place` on."""
    args = formula.args
    while place < len(args):
        solutions = solve_argument(args[place], node, inputs, place, state)
        place += 1
        if not isinstance(solutions, tuple):
            for solution in solutions:
                yield from _solve_inputs(formula, node, inputs, solution, place)
            return
        if not solutions:
            return
        (state,) = solutions
    if formula.takes_all or all(value is None for value in inputs[place:]):
        yield state


def solve_argument(
    arg: pattern.Formula, node: Node, inputs: Inputs, place: int, state: State
) -> Iterable[State]:
    """The solutions for one argument of a formula: for the input at index `place`, or for all
    inputs from there on.
    """
    if isinstance(arg, _LISTS):
        match arg:
            case pattern.Rest(name):
                return (state.capture(name, list(inputs[place:])),)
            case pattern.Each(inner):
                return _solve_each(inner, node, inputs, place, state)
            case pattern.Among(inner):
                return chain.from_iterable(solve(inner, v, state) for v in inputs[place:])
    return solve(arg, inputs[place] if place < len(inputs) else None, state)


def _solve_each(
    inner: pattern.Formula, node: Node, inputs: Inputs, start: int, state: State
) -> Iterator[State]:
    """The solution in which all inputs from index `start` on fit the formula `inner`."""
    if start >= len(inputs):
        return
    shared, lists = _shared_and_listed(inner, state)
    for place, value in enumerate(inputs[start:], start):
        solutions = state.search.solve_item(inner, value, state, node, place)
        solution = next(iter(solutions), None)
        if solution is None:
            return
        for name, captured in lists.items():
            captured.append(solution.captures.get(name))
        state = solution._replace(
            captures={n: v for n, v in solution.captures.items() if n not in lists},
            bound={k: n for k, n in solution.bound.items() if k in shared or k in state.bound},
        )
    yield state._replace(captures={**state.captures, **lists})


def _shared_and_listed(
    inner: pattern.Formula, state: State
) -> tuple[set[int], dict[str, list[Any]]]:
    """For the formula `inner` of an `each`: the ids of the operators that are the same node for all
    inputs, and an empty list for each name that is captured once per input.
    """
    same = [part for part in pattern.walk(inner) if isinstance(part, pattern.Same)]
    once = {name for whole in same for name in pattern.names(whole)}
    shared = {id(part) for whole in same for part in pattern.walk(whole)}
    anew = [n for n in pattern.names(inner) if n not in once and n not in state.captures]
    return shared, {name: [] for name in anew}


_Solver = Callable[[Any, Edge, State], Iterable[State]]
_SOLVERS: dict[type, _Solver] = {
    pattern.Var: _solve_variable,
    pattern.Const: _solve_constant,
    pattern.OpFormula: _solve_node,
    pattern.Same: _solve_node,
    pattern.Out: _solve_node,
    pattern.Either: _solve_either,
    pattern.Keep: _solve_kept,
    pattern.Maybe: lambda formula, value, state: solve(formula.inner, value, state),
    pattern.Omitted: lambda formula, value, state: NOT_LEFT_OUT,
}
