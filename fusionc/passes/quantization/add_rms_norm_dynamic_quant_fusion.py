import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.reduce_axes import trailing_axis
from fusionc.passes._shared.skip_norms import SUM, gamma, rms_norm
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes._shared.written_norms import root_mean_square
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    UBFusionPass,
    const,
    either,
    keep,
    op,
    refuse,
    rest,
    var,
)
from fusionc.rewrite.pattern import Formula

# Only NaN is quantized to this number, because the largest element of a row becomes ±127.
_NONE = -128
_HALF_NORM = either(
    op.Cast(rms_norm(op.Cast(SUM, to=TensorProto.FLOAT))),
    op.Cast(root_mean_square(op.Cast(SUM))) * gamma,
)
_NORM = either(rms_norm(SUM), _HALF_NORM)
_SMOOTH = either(_NORM, _NORM * var("smooth"))
_FLAT = op["Reshape", "Flatten"](_SMOOTH, rest("shape"))


def _lower_bounded(value: Formula) -> Formula:
    return either(op.Max(value, const("least")), op.Clip(value, const("least"), _as="clip"), value)


def _part(value: Formula) -> Formula:
    return either(op.Div(value, 127.0, _as="part"), op.Mul(value, 1 / 127, _as="part"))


def _quantization(x: Formula) -> Formula:
    largest = op.ReduceMax(op.Abs(x), rest("reduced"), _as="largest")
    scale = either(_lower_bounded(_part(largest)), _part(_lower_bounded(largest)))
    rounded = op.Round(op.Div(x, keep(scale), _as="quotient"))
    return op.Cast(
        either(op.Clip(rounded, const("low"), const("high")), rounded), to=TensorProto.INT8
    )


class AddRmsNormDynamicQuantFusionPass(UBFusionPass):
    """The quantization of each row by its largest element becomes QuantizeLinear.

    before   s = ReduceMax(Abs(x)) / 127 over the last axis; Cast(Round(x / s)) to int8. There may
             be a Clip to the range of int8 before the Cast, and a lower bound for s. x is usually
             TorchAir's root mean square normalization of a sum, perhaps scaled, flattened or cast
             to float32, but any x matches
    after    q = QuantizeLinear(x, s), then Where(q = −128, 0, q). From opset 21 on, if all
             dimensions are known, QuantizeLinear quantizes blocks as long as the last axis
             (onnxruntime requires at least one block); otherwise it quantizes the rows of a matrix,
             after a Reshape
    refuses  opset below 14; a last axis that is empty or has an unknown length; rank 1; elements
             other than float32; a Clip whose bounds cut off integers from −127 to 127; a lower
             bound for s that is not a single number; targets other than onnxruntime
    never    the sum and its normalization, which AddRmsNormFusionPass fuses
    algebra  the definition of QuantizeLinear, which divides and rounds as the parts do, bit by bit;
             |x / s| ≤ 127, so −128 can only mean NaN (as in rows of zeros), which Cast turns into
             0. The result differs for rows whose elements are all below 2.3e-41: their s lacks
             precision, and Cast leaves the range of int8, which ONNX does not define. If Clip
             bounds s, the result also differs for rows with an infinity and a number above 1e36:
             Clip makes s finite, but the Max that replaces it does not
    source   TorchAir's npu_add_rms_norm_dynamic_quant; measured: 0.85 to 1.0 of the time if all
             dimensions are known; otherwise 0.92 of the time, but 1.1 for a single row
    """

    numerics = "rounding"
    aliases = ("npu_add_rms_norm_dynamic_quant", "MultiAddRmsNormDynamicQuantFusionPass")
    is_pattern_fusion = True
    patterns = (
        Pattern("AddRmsNormDynamicQuant", _quantization(keep(_SMOOTH))),
        Pattern("AddRmsNormFlattenDynamicQuant", _quantization(keep(_FLAT))),
        Pattern(
            "AddRmsNormCastDynamicQuant",
            _quantization(keep(op.Cast(either(_SMOOTH, _FLAT), to=TensorProto.FLOAT))),
        ),
        Pattern("DynamicQuant", _quantization(var("x"))),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        x: Edge = m.quotient.inputs[0]
        scale = _scale(m, new)
        if m.largest.inputs[0].producer.inputs[0] is not x:
            refuse("the scale is computed from another value")
        m.require_opset(14, "Reshape cannot make an axis of length 0")
        x.require_type(np.float32)
        shape = x.require_shape(least=2)
        if trailing_axis(m.largest, x) != len(shape) - 1:
            refuse("the largest element is not taken over exactly the last axis")
        size = x.require_size(-1, "the length of the last axis")
        if size < 1:
            refuse("the last axis is empty")
        if m.low is not None:
            _require_all_of_int8(m)
        if m.opset >= 21 and all(isinstance(d, int) and d > 0 for d in shape):
            options = {"axis": -1, "block_size": size, "output_dtype": TensorProto.INT8}
            return _zero_for_nan(new, new.QuantizeLinear(x, scale, **options))
        return _quantize_rows(x, scale, size, new)


def _require_all_of_int8(m: Match) -> None:
    """Refuse bounds that cut off numbers of int8."""
    low, high = (bound.require_number("a bound of the result") for bound in (m.low, m.high))
    if not (low <= -127 and high >= 127):
        refuse("the result is clipped to a smaller range than that of int8")


def _scale(m: Match, new: Tape) -> Edge:
    """The divisor of x, with Max in place of Clip. It must be infinite for a row with an infinity,
    so that only NaN leaves the range of int8, but Clip would make it finite.
    """
    scale: Edge = m.quotient.inputs[1]
    if scale.rank != m.largest.outputs[0].rank or (
        m.least is not None and array_of(m.least).size != 1
    ):
        refuse("the scale has another shape than the largest elements")
    if m.clip is None:
        return scale
    kept = new.Max(m.clip.inputs[0], m.least)
    if m.clip.outputs[0] is scale:
        return kept
    return new.node(
        m.part.op, [kept if value is m.clip.outputs[0] else value for value in m.part.inputs]
    )


def _quantize_rows(x: Edge, scale: Edge, size: int, new: Tape) -> Edge:
    """x, quantized as a matrix with rows of this size. Each row has its own scale. The result has
    the shape of x.
    """
    is_matrix = x.rank == 2
    scales = new.Reshape(scale, new.const(np.array([-1], np.int64)))
    rows = x if is_matrix else new.Reshape(x, new.const(np.array([-1, size], np.int64)))
    if new.graph.opset >= 21:
        quantized = new.QuantizeLinear(rows, scales, axis=0, output_dtype=TensorProto.INT8)
    else:
        zero = TensorProto(data_type=TensorProto.INT8, dims=[1], raw_data=b"\0")
        zeros = new.ConstantOfShape(new.Shape(scales), value=zero)
        quantized = new.QuantizeLinear(rows, scales, zeros, axis=0)
    numbers = _zero_for_nan(new, quantized)
    return numbers if is_matrix else new.Reshape(numbers, new.Shape(x), allowzero=1)


def _zero_for_nan(new: Tape, numbers: Edge) -> Edge:
    return new.Where(
        new.Equal(numbers, new.const(np.array(_NONE, np.int8))),
        new.const(np.array(0, np.int8)),
        numbers,
    )
