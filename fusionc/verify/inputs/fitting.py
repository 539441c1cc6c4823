"""Values of an input that must fit the other operands of the node that reads it: axes, sizes,
scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from fusionc.model.operators import canonical_domain
from fusionc.operators.facts import Trait, names_with
from fusionc.verify.inputs.dataflow import Dataflow, Use
from fusionc.verify.inputs.formulas import Sizes
from fusionc.verify.interface import Dim

_LARGEST_BLOCK = 5
_Dims = Sequence[int]


@dataclass(frozen=True)
class Fit:
    """An input as an operand of a node, with the known dimensions of the other operands."""

    node: onnx.NodeProto
    operand: int
    dims: tuple[tuple[Dim, ...] | None, ...]

    def values(
        self, shape: tuple[int, ...], sizes: Sizes, rng: np.random.Generator
    ) -> NDArray[Any] | None:
        """Values of this shape, with these sizes of the symbols. None if it is unknown what they
        must fit.
        """
        known = [None if dims is None else _sizes_of(dims, sizes) for dims in self.dims]
        if len(shape) != 1 or known[0] is None:
            return None
        found = _FITTING[self.node.op_type, self.operand](
            _Place(self.node, self.operand, known[0], shape[0], rng)
        )
        return None if found is None or len(found) != shape[0] else np.asarray(found)


@dataclass(frozen=True)
class _Place:
    node: onnx.NodeProto
    operand: int
    data: _Dims  # the dimensions of the first operand
    count: int  # of the values
    rng: np.random.Generator

    def attribute(self, name: str, default: Any) -> Any:
        found = (onnx.helper.get_attribute_value(a) for a in self.node.attribute if a.name == name)
        return next(found, default)


def fit_of(flow: Dataflow, use: Use) -> Fit | None:
    """What the values of an operand must fit. None if any values are valid."""
    node = use.node
    if canonical_domain(node.domain) or (node.op_type, use.operand) not in _FITTING:
        return None
    return Fit(
        node,
        use.operand,
        tuple(flow.dims(use.scope, name) if name else None for name in node.input),
    )


def _sizes_of(dims: Sequence[Dim], sizes: Mapping[str, int]) -> list[int] | None:
    found = [dim if isinstance(dim, int) else sizes.get(dim) for dim in dims]
    return None if None in found else [size for size in found if size is not None]


def _different_axes(place: _Place) -> list[int] | None:
    """Distinct axes: the first ones, or for a Squeeze the axes of size 1."""
    axes = list(range(place.count if place.node.op_type == "Unsqueeze" else len(place.data)))
    if place.node.op_type == "Squeeze":
        axes = [axis for axis in axes if place.data[axis] == 1]
    return axes[: place.count]


def _parts(place: _Place) -> list[int] | None:
    """Sizes of about equal parts that add up to the size of the axis."""
    axis = place.attribute("axis", 0)
    if not -len(place.data) <= axis < len(place.data) or not place.count:
        return None
    size, rest = divmod(place.data[axis], place.count)
    return [size + (number < rest) for number in range(place.count)]


def _scales(place: _Place) -> list[float] | None:
    """Scales that enlarge or shrink images and keep batch and channels."""
    has_axes = bool(place.attribute("axes", ()))
    # From opset 11 on, operand 1 of a Resize is the region (roi), which has another length.
    if not has_axes and place.count != len(place.data):
        return None
    kept = 0 if has_axes else max(0, place.count - 2)
    return [*[1.0] * kept, *place.rng.choice([0.5, 1.5, 2.0], place.count - kept).tolist()]


def _resized(place: _Place) -> list[int] | None:
    if place.attribute("axes", ()) or place.attribute("mode", b"nearest") == b"nearest":
        return None
    kept = max(0, place.count - 2)
    return [*place.data[:kept], *place.rng.integers(2, 8, place.count - kept).tolist()]


def _of_a_grid(place: _Place) -> list[int] | None:
    return [place.data[0], *range(2, place.count + 1)]


def _unpooled(place: _Place) -> list[int] | None:
    """The attributes of the pooling that this operator reverses."""
    spatial = place.data[2:]
    kernel = place.attribute("kernel_shape", [1] * len(spatial))
    strides = place.attribute("strides", [1] * len(spatial))
    pads = place.attribute("pads", [0] * 2 * len(spatial))
    around = [first + last for first, last in zip(pads, pads[len(spatial) :], strict=False)]
    made = [
        (size - 1) * stride + window - pad
        for size, stride, window, pad in zip(spatial, strides, kernel, around, strict=True)
    ]
    return [*place.data[:2], *made]


def _of_blocks(place: _Place) -> list[int] | None:
    """The operand of a Col2Im: the size of the image, or of its blocks. They are chosen together,
    so that the image has as many blocks as the input has columns.
    """
    axes = range(place.count)
    strides, dilations = (
        place.attribute(name, [1] * place.count) for name in ("strides", "dilations")
    )
    pads = place.attribute("pads", [0] * 2 * place.count)
    if len(place.data) != 3:
        return None
    blocks = [
        b
        for b in product(range(1, _LARGEST_BLOCK + 1), repeat=place.count)
        if place.data[1] % math.prod(b) == 0
    ]
    for block in sorted(blocks, key=math.prod, reverse=True):
        for counts in _factors(place.data[2], place.count):
            image = [
                (counts[i] - 1) * strides[i]
                + dilations[i] * (block[i] - 1)
                + 1
                - pads[i]
                - pads[i + place.count]
                for i in axes
            ]
            if min(image) >= 1:
                return image if place.operand == 1 else list(block)
    return None


def _factors(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product."""
    if count == 1:
        yield (number,)
        return
    for first in (size for size in range(1, number + 1) if number % size == 0):
        yield from ((first, *others) for others in _factors(number // first, count - 1))


_FITTING: dict[tuple[str, int], Callable[[_Place], Sequence[float] | None]] = {
    ("AffineGrid", 1): _of_a_grid,
    ("Col2Im", 1): _of_blocks,
    ("Col2Im", 2): _of_blocks,
    ("MaxUnpool", 2): _unpooled,
    ("Pad", 3): _different_axes,
    ("Resize", 1): _scales,
    ("Resize", 2): _scales,
    ("Resize", 3): _resized,
    ("Slice", 3): _different_axes,
    ("Split", 1): _parts,
    ("SplitToSequence", 1): _parts,
    ("Squeeze", 1): _different_axes,
    ("Unsqueeze", 1): _different_axes,
    **{(name, 1): _different_axes for name in names_with(Trait.REDUCES)},
}
