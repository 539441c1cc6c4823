"""Find the values that an input may have, by following it to the operators that use it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx

from fusionc.operators.facts import Trait, holds_at
from fusionc.verify.inputs.dataflow import Dataflow, ScopedName, Use
from fusionc.verify.inputs.fitting import Fit, fit_of
from fusionc.verify.inputs.grid_ties import Grid, grids_of
from fusionc.verify.inputs.operands import (
    DEFAULT_AXIS,
    INDICES,
    ROTARY_INDICES,
)
from fusionc.verify.interface import Dim, Port

_FLOATS = {
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
    onnx.TensorProto.DOUBLE,
}


@dataclass
class ValueRange:
    """The values that the uses of an input allow."""

    limits: set[Dim] = field(default_factory=set)  # sizes or symbols that all values are below
    least: int = 0  # all values are at least this
    whole: bool = False  # an index, a size or a count, whatever its type
    mask: bool = False  # a truth value, or a truth value that is cast to float: 0 and 1
    positive: bool = False  # floats above 0
    shape: bool = False  # the target of a Reshape
    fit: Fit | None = None  # the other operands that the values must fit
    grids: tuple[Grid, ...] = ()  # operators whose result the last bit of a float may decide

    def limit(self, sizes: Mapping[str, int]) -> int | None:
        """The smallest limit for these sizes of the symbols."""
        known = [limit if isinstance(limit, int) else sizes.get(limit) for limit in self.limits]
        return min((size for size in known if size is not None), default=None)


def value_ranges(model: onnx.ModelProto, inputs: Iterable[Port]) -> dict[str, ValueRange]:
    """The range of each input, by name."""
    flow = Dataflow(model)
    return {port.name: _value_range(flow, port) for port in inputs}


def _value_range(flow: Dataflow, port: Port) -> ValueRange:
    allowed = ValueRange()
    start = flow.input(port.name)
    queue = deque([(start, 0, port.element_type not in _FLOATS)])
    seen = {start}
    while queue:
        value, offset, whole = queue.popleft()
        for use in flow.uses(value):
            if value == start and allowed.fit is None:
                allowed.fit = fit_of(flow, use)
            if whole:
                _apply(allowed, flow, use, offset)
            else:
                _apply_to_floats(allowed, use, is_direct=value == start)
            still_whole = _is_whole_after(use, whole)
            if whole and not still_whole:
                allowed.mask = True
                continue
            change = flow.added_constant(use) if use.node.op_type in ("Add", "Sub") else 0
            for reached in _new_values(flow, use, seen):
                queue.append((reached, offset + change, still_whole))
    allowed.grids = _grids(flow, port)
    return allowed


def _holds(trait: Trait, use: Use) -> bool:
    """Whether an operator has a trait (a property in the table of operators) for the operand that
    is the used value.
    """
    return holds_at(trait, ("", use.node.op_type), use.operand)


def _grids(flow: Dataflow, port: Port) -> tuple[Grid, ...]:
    if port.element_type not in _FLOATS or port.kind != "tensor":
        return ()
    rank = None if port.dims is None else len(port.dims)
    return grids_of(flow, flow.input(port.name), rank)


def _new_values(flow: Dataflow, use: Use, seen: set[ScopedName]) -> Iterator[ScopedName]:
    """The values that receive the used value, except those that were seen already."""
    is_passed_on = _holds(Trait.MOVES, use) or _holds(Trait.PASSES_VALUE, use)
    for reached in flow.reached(use, comes_out=is_passed_on):
        if reached not in seen:
            seen.add(reached)
            yield reached


def _apply_to_floats(allowed: ValueRange, use: Use, *, is_direct: bool) -> None:
    """Narrow the range by the requirements of a use for floats. `is_direct` says whether the node
    reads the model's input itself.
    """
    op = use.node.op_type
    if op in ("Resize", "Upsample") and _holds(Trait.COUNTS, use):
        allowed.least = 1
    elif is_direct and _holds(Trait.POSITIVE, use):
        allowed.positive = True


def _is_whole_after(use: Use, whole: bool) -> bool:
    """Whether the value is still an integer after this use. `whole` says whether it was before."""
    if use.node.op_type != "Cast":
        return whole
    target = next((attribute.i for attribute in use.node.attribute if attribute.name == "to"), 0)
    return target not in (*_FLOATS, onnx.TensorProto.BOOL)


def _apply(allowed: ValueRange, flow: Dataflow, use: Use, offset: int) -> None:
    """Narrow the range by the requirements of a use for integers."""
    node, operand, scope = use
    op = node.op_type
    table = ROTARY_INDICES.get(node.domain, {}) if op == "RotaryEmbedding" else INDICES.get(op, {})
    if operand in table:
        allowed.whole = True
        data_operand, axis = table[operand]
        for limit in _sizes(flow, node, scope, data_operand, axis):
            allowed.limits.add(max(1, limit - offset) if isinstance(limit, int) else limit)
    if _holds(Trait.COUNTS, use):
        allowed.whole = True
        allowed.least = 1
    if _holds(Trait.OFFSETS, use):
        allowed.whole = True
        allowed.limits.add(1)
    if op == "Reshape" and operand == 1:
        allowed.whole = allowed.shape = True


def _sizes(
    flow: Dataflow, node: onnx.NodeProto, scope: int, operand: int, axis: int | str
) -> list[Dim]:
    dims = flow.dims(scope, node.input[operand]) if operand < len(node.input) else None
    if not dims:
        return []
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    if axis == "nd":
        return list(dims[attributes.get("batch_dims", 0) :])
    number = (
        attributes.get(axis, DEFAULT_AXIS.get(node.op_type, 0)) if isinstance(axis, str) else axis
    )
    return [dims[number]] if -len(dims) <= number < len(dims) else []
