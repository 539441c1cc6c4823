from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import to_array
from fusionc.operators.same_everywhere import is_same_everywhere
from fusionc.passes._shared.elementwise_operators import is_broadcasting_elementwise
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape, refuse
from fusionc.shapes.elements import Element, dimension

# Broadcasting is as fast as an Expand if a run (consecutive elements that are repeated together)
# has at least this many bytes, or if there are at most this many runs.
_LONG_RUN = 512
_MAX_RUNS = 32
_SOURCES = ("Expand", "Tile", "ConstantOfShape")


def _find(graph: Graph) -> Iterator[Match | Miss]:
    for source in [node for name in _SOURCES for node in graph.of_operator(name)]:
        (repeated,) = source.outputs
        for user in () if repeated is None or source.has_references else list(repeated.outputs):
            if reason := _reason_of_user(user, source):
                yield Miss(source, reason)
            else:
                yield Match(graph, (user,), user.outputs, {"source": source, "user": user})


def _reason_of_user(user: Node, source: Node) -> str:
    """Why an operator needs the repeated value itself; empty if it may broadcast instead."""
    if user.graph is not source.graph:
        return "a subgraph reads its result"
    if not is_broadcasting_elementwise(user):
        return f"{user.op} reads its result, and does not broadcast it"
    return "" if user.inputs.count(source.outputs[0]) == 1 else f"{user.op} reads its result twice"


def _dims(value: Edge | None) -> list[Element]:
    """The dimensions of a value, last one first. Refuses if the rank is unknown."""
    if value is None or value.rank is None:
        refuse("the rank is unknown")
    return [dimension(value, axis) for axis in reversed(range(value.rank))]


def _require_same_bits(user: Node, expanded: Edge) -> None:
    """Refuse an operator that cannot broadcast the value, or that would round differently."""
    if user.op == "PRelu" and user.inputs[0] is expanded:
        refuse("PRelu broadcasts only its slope")
    result = user.outputs[0]
    if result is not None and not is_same_everywhere(user.op, result.elem_type):
        refuse("the last bit of the result depends on which elements are repeated")


def _require_shape(
    dims_before: list[Element], dims_after: list[Element], others: list[list[Element]]
) -> None:
    """Refuse if no other operand is known to give the result the expanded dimensions."""
    if max([len(dims_before), *map(len, others)]) < len(dims_after):
        refuse("the Expand raises the rank")
    for axis, size in enumerate(dims_after):
        if size != 1 and not any(
            size == dims[axis] for dims in (dims_before, *others) if axis < len(dims)
        ):
            refuse("the Expand may enlarge the result")


def _require_long_runs(
    dims_before: list[Element], dims_after: list[Element], user: Node, itemsize: int
) -> None:
    """Refuse if broadcasting would make the operator too slow: it restarts its loop for each run
    (consecutive elements that are repeated together).

    An Expand that repeats along leading axes copies long runs, which is cheap. An Expand that
    repeats single elements is as slow as the operator.
    """
    pairs = [
        (part == 1, size)
        for part, size in zip_longest(dims_before, dims_after, fillvalue=1)
        if size != 1
    ]
    length = next((index for index, pair in enumerate(pairs) if pair[0] != pairs[0][0]), len(pairs))
    run = pairs[:length]
    outer = pairs[length:]
    repeats_elements = any(is_repeated for is_repeated, _ in run)
    repeats_runs = any(is_repeated for is_repeated, _ in outer)
    is_short = _product(run) * itemsize < _LONG_RUN and _product(outer) > _MAX_RUNS
    if is_short and (not repeats_elements or repeats_runs or user.op == "Where"):
        refuse("the runs of elements are too short for the operator to broadcast them")


def _product(pairs: list[tuple[bool, Element]]) -> float:
    """The product of dimensions; infinity if one of them is unknown before the model runs."""
    return math.prod(size if isinstance(size, int) else math.inf for _, size in pairs)


def _unrepeated(source: Node, new: Tape) -> Edge | None:
    """The value that a node repeats: its input, or the number of a ConstantOfShape."""
    if source.op != "ConstantOfShape":
        return source.inputs[0]
    written = source.attr("value")
    value = np.zeros(1, np.float32) if written is None else to_array(written, "")
    return new.const(value.reshape(()))


class ExpandEliminationPass(Pass):
    """An Expand is removed if the operator after it broadcasts to the same shape.

    before   f(Expand(x, s), y), where f is one of Add, Mul, Where, Equal … and y has the expanded
             dimensions; also with a Tile of dimensions of size 1, and with a ConstantOfShape of a
             number x
    after    f(x, y)
    refuses  Pow, Max, Min and other operators on floating-point numbers whose last bit or sign of
             zero depends on broadcasting; dimensions that no other operand is known to have; an
             Expand that raises the rank; many repeated runs of less than 512 bytes, for which
             broadcasting is slower than the Expand; a Tile that repeats dimensions larger than 1
    never    an operator that reads the expanded value twice, or is in a subgraph
    algebra  broadcasting repeats elements in the same way as Expand
    source   other ONNX optimizers remove an Expand in this way
    """

    patterns = (Pattern("ExpandElementwise", find=_find, operators=_SOURCES),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        (expanded,) = m.source.outputs
        x = _unrepeated(m.source, new)
        _require_same_bits(m.user, expanded)
        dims_before = [] if m.source.op == "ConstantOfShape" else _dims(x)
        dims_after = _dims(expanded)
        if any(part not in (1, size) for part, size in zip(dims_before, dims_after, strict=False)):
            refuse("the node repeats more than single elements")
        others = [_dims(value) for value in m.user.inputs if value is not expanded]
        _require_shape(dims_before, dims_after, others)
        if x is None or x.dtype is None:
            refuse("the element type is unknown")
        _require_long_runs(dims_before, dims_after, m.user, x.dtype.itemsize)
        return new.node(
            m.user.op, [x if value is expanded else value for value in m.user.inputs], like=m.user
        )
