from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from fusionc.integer_groups.group_parts import reads_integers, takes_scale
from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.operators.integer_operators import DEQUANTIZE
from fusionc.passes._shared.clipping import Interval, interval_of
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Pattern, Result, Tape, UBFusionPass, const, op, refuse, rest, var

_INTEGER_CLIP = 12  # the first opset in which Clip accepts integers
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_LARGEST = 2.0**100  # the largest scale; numbers dequantized by it stay finite


@dataclass(frozen=True)
class _Grid:
    """The single scale and zero point of a quantization. Its integers represent the multiples of
    the scale.
    """

    scale: np.float32
    zero: Array

    def quantized(self, limit: float) -> int:
        """The integer to which QuantizeLinear rounds a number."""
        ends = np.iinfo(self.zero.dtype)
        steps = np.rint(np.float32(limit) / self.scale) + np.float32(self.zero)
        return int(np.clip(steps, ends.min, ends.max))

    def limited(self, value: Edge, low: int, high: int, new: Tape) -> Edge:
        """`value` clipped to these integers. A limit is omitted if it is the lowest or highest
        integer of the type.
        """
        ends = np.iinfo(self.zero.dtype)
        if low == ends.min and high == ends.max:
            return value
        bounds = [
            None if limit == end else new.const(np.asarray(limit, self.zero.dtype))
            for limit, end in ((low, ends.min), (high, ends.max))
        ]
        return new.Clip(value, *bounds)


def _grid_of(scale: Edge | None, zero: Edge | None) -> _Grid:
    """The grid of a quantization. Refuses unless it has a single positive scale in float32 and a
    single zero point in 8 bits, both constant.
    """
    arrays = [None if value is None else value.constant() for value in (scale, zero)]
    if any(array is None or array.size != 1 for array in arrays):
        refuse("the quantization does not have one constant scale and one constant zero point")
    step, point = (array_of(value) for value in (scale, zero) if value is not None)
    if step.dtype != np.float32 or point.dtype not in _BYTES:
        refuse("the elements are not float32 and integers of 8 bits")
    if not 0 < step.item() < _LARGEST:
        refuse("the scale is not a positive number of usual size")
    return _Grid(np.float32(step.item()), point.reshape(()))


def _table(m: Match, new: Tape, interval: Interval, source: Node, grid: _Grid) -> Result:
    """The rewrite if `source` dequantizes the input of the activation. Convert the integers from
    the scale and zero point of `source` to those of `grid`, and clip them.
    """
    before = _grid_of(*([*source.inputs, None][1:3]))
    if before.zero.dtype != grid.zero.dtype:
        refuse("the integers before and after the activation have different types")
    low = grid.quantized(interval.low)
    high = grid.quantized(interval.high)
    if before == grid:
        integers = source.inputs[0]
        assert integers is not None  # DequantizeLinear has no optional first input
        return grid.limited(integers, low, high, new)
    is_rectified = interval.low == 0
    looked_up = new.LeakyRelu(m.x, alpha=0.0 if is_rectified else 1.0)
    quantized = new.QuantizeLinear(looked_up, m.scale, m.zero, like=m.quantize)
    least = np.iinfo(grid.zero.dtype).min
    return grid.limited(quantized, least if is_rectified else low, high, new)


class QuantizedActivationPass(UBFusionPass):
    """A Relu or Clip between integers becomes an operator on integers.

    before   QuantizeLinear(Relu(x), s, z), or the same with Clip. (a) x is the result of a Conv,
             MatMul, Add, … of dequantized integers, and z is above the lowest integer; or (b) x is
             dequantized from integers q
    after    (a) Clip(QuantizeLinear(x, s, z), z), so that onnxruntime computes x in integers; (b)
             Clip(QuantizeLinear(LeakyRelu(x), s, z)) with alpha 0 (1 if the lower limit is not 0),
             which onnxruntime computes by a table of 256 numbers; or Clip(q) if q already has the
             scale s and the zero point z
    refuses  several scales or zero points; a scale that is not positive; types other than float32
             and 8-bit integers; limits at which the quantization saturates anyway, because
             onnxruntime removes such a Relu or Clip; an x that is not computed from integers, or
             that other operators read; opset below 12, in which Clip does not accept integers;
             targets other than onnxruntime
    algebra  quantization with s > 0 is monotonic, so it commutes with min and max; LeakyRelu with
             alpha 1 is x
    source   symmetric models of TensorRT and ModelOpt, and onnxruntime's quantize_static with
             ActivationSymmetric; onnxruntime fuses an activation only if the zero point is the
             lowest integer. The table takes 0.2 to 0.4 of the time
    """

    patterns = (
        Pattern(
            "QuantizedActivation",
            op.QuantizeLinear(
                op["Relu", "Clip"](var("x"), rest("limits"), _as="activation"),
                const("scale"),
                const("zero"),
                _as="quantize",
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        if m.opset < _INTEGER_CLIP:
            refuse("before opset 12, Clip does not accept integers", opset=_INTEGER_CLIP)
        grid = _grid_of(m.scale, m.zero)
        if m.x.elem_type != TensorProto.FLOAT:
            refuse("the elements are not float32 and integers of 8 bits")
        interval = interval_of(m.activation)
        source = m.x.producer
        if source is not None and source.operator in DEQUANTIZE:
            return _table(m, new, interval, source, grid)
        if source is None or m.x.use_count > 1 or not reads_integers(source):
            refuse("the operator before the activation does not compute in integers")
        if not takes_scale(source, m.scale):
            refuse("the scale of an AveragePool is not a scalar")
        low = grid.quantized(interval.low)
        high = grid.quantized(interval.high)
        ends = np.iinfo(grid.zero.dtype)
        if low == ends.min and high == ends.max:
            refuse("the quantization saturates at the limits")
        quantized = new.QuantizeLinear(m.x, m.scale, m.zero, like=m.quantize)
        return grid.limited(quantized, low, high, new)
