from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import to_array
from fusionc.operators.same_everywhere import is_same_everywhere
from fusionc.passes._shared.elementwise_operators import is_broadcasting_elementwise
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse
from fusionc.shapes.elements import Element, dimension

_LONG = 512  # bytes; runs as long as that cost an elementwise operator no more than a copy of them
_FEW = 32  # runs
_SOURCES = ("Expand", "Tile", "ConstantOfShape")


def _find(graph: Graph) -> Iterator[Match]:
    for source in [node for name in _SOURCES for node in graph.of_operator(name)]:
        (repeated,) = source.outputs
        for user in () if repeated is None or source.has_references else list(repeated.outputs):
            if user.graph is not graph or user.inputs.count(repeated) != 1:
                continue
            if is_broadcasting_elementwise(user):
                yield Match(graph, (user,), user.outputs, {"source": source, "user": user})


def _dims(value: Edge | None) -> list[Element]:
    """The dimensions, last one first. Refuses if the rank is unknown."""
    if value is None or value.rank is None:
        refuse("the rank is unknown")
    return [dimension(value, axis) for axis in reversed(range(value.rank))]


def _require_same_bits(user: Node, expanded: Edge) -> None:
    """Refuse an operator that cannot broadcast the value, or rounds differently if it does."""
    if user.op == "PRelu" and user.inputs[0] is expanded:
        refuse("PRelu broadcasts its slope only")
    result = user.outputs[0]
    if result is not None and not is_same_everywhere(user.op, result.elem_type):
        refuse("the last bit of the result depends on what is repeated")


def _require_shape(small: list[Element], full: list[Element], others: list[list[Element]]) -> None:
    """Refuse unless the other operands are known to give the result the expanded dimensions."""
    if max([len(small), *map(len, others)]) < len(full):
        refuse("the Expand raises the rank")
    for axis, size in enumerate(full):
        if size != 1 and not any(
            size == dims[axis] for dims in (small, *others) if axis < len(dims)
        ):
            refuse("the Expand may enlarge the result")


def _require_long_runs(
    small: list[Element], full: list[Element], user: Node, itemsize: int
) -> None:
    """Refuse if the operator would restart its loop too often: it does at each repeated run.

    An Expand that repeats along the leading axes copies large pieces, which is cheap; one that
    repeats single elements is as slow as the operator.
    """
    pairs = [(part == 1, size) for part, size in zip_longest(small, full, fillvalue=1) if size != 1]
    length = next((at for at, pair in enumerate(pairs) if pair[0] != pairs[0][0]), len(pairs))
    run = pairs[:length]
    outer = pairs[length:]
    repeats_elements = any(is_repeated for is_repeated, _ in run)
    repeats_runs = any(is_repeated for is_repeated, _ in outer)
    is_short = _product(run) * itemsize < _LONG and _product(outer) > _FEW
    if is_short and (not repeats_elements or repeats_runs or user.op == "Where"):
        refuse("the runs of elements are too short to be repeated by the operator itself")


def _product(pairs: list[tuple[bool, Element]]) -> float:
    """The product of dimensions; infinity if one is known only when the model runs."""
    return math.prod(size if isinstance(size, int) else math.inf for _, size in pairs)


def _unrepeated(source: Node, new: Tape) -> Edge | None:
    """The value that a node repeats: its input, or the value of a ConstantOfShape."""
    if source.op != "ConstantOfShape":
        return source.inputs[0]
    written = source.attr("value")
    value = np.zeros(1, np.float32) if written is None else to_array(written, "")
    return new.const(value.reshape(()))


class ExpandEliminationPass(Pass):
    """An Expand is removed if the operator after it broadcasts to the same shape.

    before   f(Expand(x, s), y) with f one of Add, Mul, Where, Equal …, and a y that has the
             dimensions that the Expand makes; also with Tile of dimensions 1, and with
             ConstantOfShape of a number x
    after    f(x, y)
    refuses  Pow, Max, Min and other operators on floating-point numbers whose last bit, or sign of
             zero, depends on what is repeated; dimensions that no other operand is known to have;
             an Expand that raises the rank; many repeated runs of less than 512 bytes, which make
             the operator slower than the Expand was; a Tile that repeats more than single elements
    never    an operator that takes the expanded value twice, or is in a subgraph
    algebra  broadcasting repeats the elements as Expand does
    source   what other optimizers of ONNX models do with Expand
    """

    patterns = (Pattern("ExpandElementwise", find=_find, operators=_SOURCES),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        (expanded,) = m.source.outputs
        x = _unrepeated(m.source, new)
        _require_same_bits(m.user, expanded)
        small = [] if m.source.op == "ConstantOfShape" else _dims(x)
        full = _dims(expanded)
        if any(part not in (1, size) for part, size in zip(small, full, strict=False)):
            refuse("more is repeated than single elements")
        others = [_dims(value) for value in m.user.inputs if value is not expanded]
        _require_shape(small, full, others)
        if x is None or x.dtype is None:
            refuse("the element type is unknown")
        _require_long_runs(small, full, m.user, x.dtype.itemsize)
        return new.node(
            m.user.op, [x if value is expanded else value for value in m.user.inputs], like=m.user
        )
