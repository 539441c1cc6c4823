"""Inputs that lie on ties. A tie is a number whose last bit decides the result of an operator: a
half step of Quantize and Round, or a limit of Floor or of a comparison. All ties of an operator
are its grid.

For some numbers, x / s and x * (1 / s) differ in the last bit. Only ties show that difference, and
random numbers hardly ever hit one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from fusionc.model.operators import canonical_domain
from fusionc.operators.deciding_operators import is_real
from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, holds_at, names_with
from fusionc.verify.inputs.dataflow import Dataflow, ScopedName, Use

_Floats = NDArray[np.float64]
_WHOLE_LIMITS = names_with(Trait.WHOLE_LIMITS)
_COMPARES = names_with(Trait.COMPARES)
# operators that return some numbers unchanged
_SAME = frozenset({"Identity", "Clip", "Relu", "LeakyRelu", "PRelu", "Max", "Min", "Dropout"})
_MOST_GRIDS = 16
_MOST_VALUES = 4096
_FEW_STEPS = 9
_MANY_STEPS = 128
_ONE = np.float64(1)
_NOTHING = np.float64(0)


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid over an input x: x lies on a tie if `factor` · x + `offset` is (n + `shift`) · `step`
    for a whole number n.

    If `is_in_place`, factor, offset and step are arrays that broadcast with x; otherwise any of
    their elements may apply.
    """

    factor: Any
    offset: Any
    step: Any = _ONE
    shift: float = 0.5
    is_constant: bool = False  # `step` itself is the only tie
    is_in_place: bool = True


def grids_of(flow: Dataflow, start: ScopedName, rank: int | None) -> tuple[Grid, ...]:
    """The grids that read an input, directly or after operators that only rearrange elements,
    limit them, or scale by constants.
    """
    grids = list[Grid]()
    queue = deque([(start, Grid(_ONE, _NOTHING))])
    seen = {start}
    while queue and len(grids) < _MOST_GRIDS and len(seen) < _MOST_VALUES:
        value, line = queue.popleft()
        for use in flow.uses(value):
            grids += _met(flow, use, line, rank)
            onward = _line_after(flow, use, line)
            for reached in flow.reached(use, comes_out=True) if onward is not None else ():
                if onward is not None and reached not in seen:
                    seen.add(reached)
                    queue.append((reached, onward))
    return tuple(grids[:_MOST_GRIDS])


def at_ties(
    grids: Sequence[Grid], shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
) -> _Floats:
    """Numbers at ties of these grids, and one unit in the last place away from them."""
    which = rng.integers(0, len(grids), shape)
    values = np.zeros(shape)
    for number, grid in enumerate(grids):
        values = np.where(which == number, _ties(grid, shape, rng), values)
    with np.errstate(all="ignore"):
        rounded = np.where(np.isfinite(values), values, 0.0).astype(dtype)
    if rounded.dtype.kind != "f":  # numpy does not know the neighbours of bfloat16 numbers
        return rounded.astype(np.float64)
    side = rng.choice(np.array([-np.inf, np.inf, np.nan, np.nan], dtype), shape)
    with np.errstate(over="ignore"):  # infinity is next to the largest number
        return np.where(
            np.isnan(side), rounded, np.nextafter(rounded, np.where(np.isnan(side), rounded, side))
        )


def _ties(grid: Grid, shape: tuple[int, ...], rng: np.random.Generator) -> _Floats:
    most = np.where(rng.random(shape) < 0.5, _FEW_STEPS, _MANY_STEPS)
    steps = np.rint(rng.uniform(-1, 1, shape) * most) + grid.shift
    factor, offset, step = (
        _placed(part, shape, grid.is_in_place, rng)
        for part in (grid.factor, grid.offset, grid.step)
    )
    with np.errstate(all="ignore"):
        return np.asarray(((step if grid.is_constant else steps * step) - offset) / factor)


def _placed(
    part: Any, shape: tuple[int, ...], is_in_place: bool, rng: np.random.Generator
) -> _Floats:
    """An array that broadcasts to the shape: the given array, or random elements of it."""
    values = np.asarray(part, np.float64)
    if is_in_place:
        try:
            return np.broadcast_to(values, shape)
        except ValueError:
            pass
    return rng.choice(values.reshape(-1), shape) if values.size else np.ones(shape)


def _met(flow: Dataflow, use: Use, line: Grid, rank: int | None) -> Iterator[Grid]:
    """The grid of the node that reads an operand. Nothing if it neither rounds nor compares."""
    node = use.node
    operand = use.operand
    op = node.op_type
    if canonical_domain(node.domain) not in ("", MICROSOFT):
        return
    if op == "QuantizeLinear" and operand == 0:
        if (scale := _constant(flow, use, 1)) is not None:
            yield _Line(line).on(step=_along(scale, node, rank))
    elif op in ("DynamicQuantizeLinear", "Round"):
        yield line
    elif op in _WHOLE_LIMITS or (op == "Cast" and not is_real(_target(node))):
        yield _Line(line).on(shift=0.0)
    elif op in _COMPARES:
        if (limit := _constant(flow, use, 1 - operand)) is not None:
            yield _Line(line).on(step=limit, is_constant=True)
    elif op == "Sign":
        yield _Line(line).on(step=_NOTHING, is_constant=True)


def _line_after(flow: Dataflow, use: Use, line: Grid) -> Grid | None:
    """The result of this node as a linear function of the input; None if it is not linear."""
    node = use.node
    operand = use.operand
    op = node.op_type
    if canonical_domain(node.domain):
        return None
    if op in _SAME or (op == "Cast" and is_real(_target(node))):
        return line if operand == 0 or op in ("Max", "Min") else None
    if op == "Neg":
        return _Line(line).times(np.float64(-1))
    if holds_at(Trait.MOVES, ("", op), operand):
        return _Line(line).on(is_in_place=False)
    other = _constant(flow, use, 1 - operand) if op in ("Mul", "Div", "Add", "Sub") else None
    return None if other is None else _scaled(op, operand, line, other)


def _scaled(op: str, operand: int, line: Grid, other: _Floats) -> Grid | None:
    if op == "Mul":
        return _Line(line).times(other)
    if op == "Div":
        with np.errstate(over="ignore"):
            return _Line(line).times(1 / np.where(other == 0, 1, other)) if operand == 0 else None
    if op == "Add":
        return _Line(line).plus(other)
    return (
        _Line(line).plus(-other)
        if operand == 0
        else _Line(_Line(line).times(np.float64(-1))).plus(other)
    )


@dataclass(frozen=True)
class _Line:
    """A linear function of the input. Methods return changed functions."""

    grid: Grid

    def times(self, other: Any) -> Grid:
        # the model's numbers may be arbitrarily large or infinite
        with np.errstate(all="ignore"):
            return self._new(
                *_alike(lambda a, b: a * b, self.grid.factor, other, self.grid.offset, other)
            )

    def plus(self, other: Any) -> Grid:
        with np.errstate(all="ignore"):
            return self._new(self.grid.factor, *_alike(lambda a, b: a + b, self.grid.offset, other))

    def on(self, **changes: Any) -> Grid:
        grid = self.grid
        old = {
            name: getattr(grid, name) for name in ("step", "shift", "is_constant", "is_in_place")
        }
        return Grid(grid.factor, grid.offset, **{**old, **changes})

    def _new(self, factor: Any, offset: Any) -> Grid:
        return Grid(factor, offset, is_in_place=self.grid.is_in_place)


def _alike(combine: Any, *pairs: Any) -> list[Any]:
    """The results of combining each pair of arrays. If two shapes do not fit, a single element
    replaces the second array.
    """
    made = []
    for one, other in zip(pairs[::2], pairs[1::2], strict=True):
        try:
            made.append(combine(one, other))
        except ValueError:
            made.append(combine(one, np.reshape(other, -1)[0]))
    return made


def _along(scale: _Floats, node: onnx.NodeProto, rank: int | None) -> _Floats:
    """A scale for each element along an axis, so that it broadcasts with the input."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    if scale.ndim != 1 or scale.size == 1 or rank is None or not -rank <= axis < rank:
        return scale
    return scale.reshape([-1 if at == axis % rank else 1 for at in range(rank)])


def _constant(flow: Dataflow, use: Use, operand: int) -> _Floats | None:
    """The numbers of a constant operand. None if they are unknown, or if there are none."""
    if operand >= len(use.node.input):
        return None
    tensor = flow.constant(use.scope, use.node.input[operand])
    if tensor is None:
        return None
    values = onnx.numpy_helper.to_array(tensor)
    return None if values.dtype.kind in "OUSb" or not values.size else values.astype(np.float64)


def _target(node: onnx.NodeProto) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)
