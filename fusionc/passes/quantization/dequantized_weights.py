from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import TensorProto

from fusionc.integer_groups.group_parts import FAR, grade, is_core
from fusionc.integer_groups.packed_weights import takes_packed
from fusionc.integer_groups.wiring import Wiring
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import Array
from fusionc.operators.facts import Trait, names_with
from fusionc.operators.integer_operators import DEQUANTIZE, PASSED, QUANTIZE
from fusionc.passes._shared.constants import COPIED, array_of, dims_of
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Miss, Pattern, Result, Tape, UBFusionPass, refuse

_CAST = frozenset(
    {
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E4M3FNUZ,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT8E5M2FNUZ,
    }
)


def _matches(graph: Graph) -> Iterator[Match | Miss]:
    """A match for each DequantizeLinear of a constant."""
    for node in graph.of_operator("DequantizeLinear"):
        weights = node.inputs[0]
        if weights is not None and weights.is_constant:
            yield Match(graph, (node,), node.outputs, {"W": weights, "dequantize": node})
        else:
            yield Miss(node, "its input is not constant")


def _reason_of_users(dequantized: Edge | None) -> str:
    """Why an operator that reads the weights needs their DequantizeLinear; "" if no operator
    does.
    """
    reached = [] if dequantized is None else [dequantized]
    for _ in range(FAR):
        for value in reached:
            if value.is_output:
                return "an output of the model holds the weights"
            if reason := next(filter(None, (_reason_of_user(u, value) for u in value.outputs)), ""):
                return reason
        moved = (u.outputs[0] for v in reached for u in v.outputs if _moves(u))
        reached = [value for value in moved if value is not None]
    return ""


def _moves(user: Node) -> bool:
    return user.domain == "" and user.op in PASSED


def _reason_of_user(user: Node, value: Edge) -> str:
    if user.is_op("QuantizeLinear"):
        return "the weights are quantized again"
    if user.has_references:
        return "a subgraph reads the weights"
    if is_core(user) and grade(user, Wiring()):
        return f"onnxruntime computes {user.op} in integers"
    if _is_quantized_at_load(user):
        return f"onnxruntime would quantize the float weights of {user.op} with other scales"
    if takes_packed(user, Wiring()) and user.inputs[1] is value:
        return "onnxruntime multiplies by the packed weights"
    if user.op in ("Add", "Sum") and _holds_bias(value):
        return "onnxruntime adds the integers to a product"
    return ""


def _is_quantized_at_load(user: Node) -> bool:
    """Whether onnxruntime would quantize constant float weights of an operator when it loads the
    model, with a single scale for all channels.

    Its optimizer WeightBiasQuantization does so if the data of the operator are dequantized and its
    result is quantized, directly or after an activation.
    """
    data = user.inputs[0] if user.is_op("Conv", "ConvTranspose", "Gemm") else None
    result = user.outputs[0]
    if data is None or result is None or data.producer is None:
        return False
    readers = list(result.outputs)
    activated = [u.outputs[0] for u in readers if u.is_op(*names_with(Trait.ACTIVATION))]
    readers += [reader for value in activated if value is not None for reader in value.outputs]
    return data.producer.operator in DEQUANTIZE and any(r.operator in QUANTIZE for r in readers)


def _holds_bias(value: Edge) -> bool:
    maker = value.producer
    integers = None if maker is None or maker.operator not in DEQUANTIZE else maker.inputs[0]
    return integers is not None and integers.elem_type == TensorProto.INT32


def _spread(values: Edge, dims: tuple[int, ...], axis: int, *, has_blocks: bool) -> tuple[int, ...]:
    """The shape in which the scales or zero points `values` broadcast into weights of these
    dimensions. If the weights have blocks, one more axis counts the elements of a block.
    """
    shape = dims_of(values)
    if math.prod(shape) == 1:
        return ()
    if not has_blocks:
        return tuple(size if at == axis else 1 for at, size in enumerate(dims))
    return (*shape[: axis + 1], 1, *shape[axis + 1 :])


@dataclass(frozen=True)
class _Weights:
    """Dequantized weights. The scales and zero points broadcast into the shape `parts`."""

    integers: Array
    # The dimensions of the weights. An axis with blocks is split in two: blocks, and elements of a
    # block.
    parts: tuple[int, ...]
    scale: Array
    zero: Array | None  # None if all zero points are 0

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the weights, without split axes."""
        return tuple(self.integers.shape)

    @property
    def real(self) -> Array:
        """The weights as float32."""
        value = self.integers.astype(np.float32).reshape(self.parts)
        value = value if self.zero is None else value - self.zero
        return (value * self.scale).reshape(self.dims)

    def cast(self, packed: Edge, new: Tape) -> Edge:
        """New operators that compute the float32 weights from the integers `packed`."""
        value: Edge = new.Cast(packed, to=TensorProto.FLOAT)
        has_blocks = self.parts != self.dims
        if has_blocks:
            value = new.Reshape(value, new.const(np.asarray(self.parts, np.int64)))
        if self.zero is not None:
            value = new.Sub(value, new.const(self.zero))
        value = new.Mul(value, new.const(self.scale))
        if has_blocks:
            value = new.Reshape(value, new.const(np.asarray(self.dims, np.int64)))
        return value


def _weights_of(m: Match, scale: Edge, zero: Edge | None) -> _Weights:
    dims = dims_of(m.W)
    axis = int(m.dequantize.attr("axis", 1)) % max(len(dims), 1)
    parts = dims
    size = int(m.dequantize.attr("block_size", 0))
    if size:
        if dims[axis] % size:
            refuse("the block size does not divide the length of its axis")
        parts = (*dims[:axis], dims[axis] // size, size, *dims[axis + 1 :])
    spread = partial(_spread, dims=dims, axis=axis, has_blocks=size > 0)
    factors = array_of(scale).reshape(spread(scale))
    point = None if zero is None else array_of(zero).astype(np.float32)
    if zero is None or point is None or not point.any():
        return _Weights(array_of(m.W), parts, factors, None)
    return _Weights(array_of(m.W), parts, factors, point.reshape(spread(zero)))


class DequantizedWeightsPass(UBFusionPass):
    """Constant weights that a model dequantizes in every run are dequantized when it is loaded.

    before   DequantizeLinear(W, s, z) with constant W in 8 or 4 bits
    after    Mul(Cast(W), s) or Mul(Sub(Cast(W), z), s): onnxruntime folds these nodes when it loads
             the model, but does not fold DequantizeLinear. If the weights are quantized in blocks,
             there is a Reshape before the Sub or Mul and one after the Mul. Biases in 32 bits and
             weights of at most 1,024 elements become constants
    refuses  weights of an operator that onnxruntime computes in integers; weights of a plain MatMul
             or Gemm, because onnxruntime multiplies by the packed integers (MatMulNBits); a 32-bit
             bias that an Add adds; weights that the model quantizes again, or that onnxruntime
             would quantize again when it loads the model, because they are between dequantized
             data and a quantized result; a scale that is not float32; weights of other types; a
             block size that does not divide the length of its axis; scales and zero points that
             are not constants; targets other than onnxruntime
    algebra  DequantizeLinear is (W − z)·s, rounded once; W − z is exact
    source   models with 8-bit, 4-bit or float8 weights before Conv and Gemm. They take 1.3 to 2.9
             times as long as models in float32; in this form, they take as long. The file does not
             grow
    """

    patterns = (Pattern("DequantizedWeights", find=_matches, operators=("DequantizeLinear",)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        dequantize = m.dequantize
        scale, zero = ([*dequantize.inputs, None])[1:3]
        if scale is None or not scale.is_constant or not (zero is None or zero.is_constant):
            refuse("a scale or zero point is not constant")
        if m.W.elem_type not in (*_CAST, TensorProto.INT32):
            refuse("onnxruntime does not unpack weights of this type when it loads a model")
        if array_of(scale).dtype != np.float32:
            refuse("the scale is not float32")
        if reason := _reason_of_users(dequantize.outputs[0]):
            refuse(reason)
        weights = _weights_of(m, scale, zero)
        is_small = math.prod(weights.dims) <= COPIED or m.W.elem_type == TensorProto.INT32
        return new.const(weights.real) if is_small else weights.cast(m.W, new)
