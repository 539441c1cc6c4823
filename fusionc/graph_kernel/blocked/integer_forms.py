"""Rewrites operators on integers, such as QLinearConv, as the groups of operators that they
compute: DequantizeLinear, an operator in floating point and, unless the result is float32,
QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import MICROSOFT


@dataclass
class _Form:
    """The group of operators that computes the same as an operator on integers."""

    node: onnx.NodeProto
    constants: Mapping[str, np.ndarray]  # of the area
    made: dict[str, np.ndarray] = field(default_factory=dict)  # new constants of the group

    def operand(self, place: int, axis: int | None = None) -> tuple[onnx.NodeProto, str]:
        """The dequantization of the input `place`, and the name of its result. The scale and the
        zero point are the two inputs after `place`.
        """
        name, scale, zero = self.node.input[place : place + 3]
        out = f"{self.node.output[0]}/{place}"
        inputs = [name, scale, *filter(None, [zero])]
        node = helper.make_node("DequantizeLinear", inputs, [out])
        if axis is not None:
            node.attribute.add(name="axis", type=onnx.AttributeProto.INT, i=axis)
        return node, out

    def bias(self, place: int) -> tuple[list[onnx.NodeProto], list[str]]:
        """The dequantization of the bias, if there is one. Its scale is that of the sums."""
        name = self.node.input[place] if place < len(self.node.input) else ""
        if not name:
            return [], []
        scales = [self.constants.get(self.node.input[k]) for k in (1, 4)]
        out = f"{self.node.output[0]}/bias"
        if scales[0] is not None and scales[1] is not None:
            self.made[f"{out}/scale"] = np.asarray(scales[0] * scales[1], np.float32)
        node = helper.make_node("DequantizeLinear", [name, f"{out}/scale"], [out], axis=0)
        return [node], [out]

    def core(
        self, op: str, read: list[str], place: int, without: tuple[str, ...] = ()
    ) -> list[onnx.NodeProto]:
        """The operator in floating point, and the quantization of its result. The input `place` is
        the scale of the result, and the next input is the zero point.
        """
        out = f"{self.node.output[0]}/float"
        core = helper.make_node(op, read, [out])
        core.attribute.extend(a for a in self.node.attribute if a.name not in without)
        grid = [name for name in self.node.input[place : place + 2] if name]
        return [core, helper.make_node("QuantizeLinear", [out, *grid], [self.node.output[0]])]

    def scaled_product(self, core: str) -> list[onnx.NodeProto]:
        """The group of a MatMulIntegerToFloat. The scales and zero points are inputs after both of
        its operands.
        """
        a, b, *grids = self.node.input
        bias = [name for name in grids[4:] if name]
        nodes = list[onnx.NodeProto]()
        for name, grid, axis in ((a, grids[:3:2], 0), (b, grids[1:4:2], 1)):
            inputs = [name, *filter(None, grid)]
            out = f"{self.node.output[0]}/{axis}"
            nodes.append(helper.make_node("DequantizeLinear", inputs, [out], axis=axis))
        read = [node.output[0] for node in nodes]
        product = helper.make_node(core, [*read, *bias], self.node.output)
        product.attribute.extend(self.node.attribute)
        return [*nodes, product]


def _convolution(form: _Form) -> list[onnx.NodeProto]:
    x, read = form.operand(0)
    w, weights = form.operand(3, axis=0)
    nodes, bias = form.bias(8)
    return [x, w, *nodes, *form.core("Conv", [read, weights, *bias], 6)]


def _product(form: _Form) -> list[onnx.NodeProto]:
    x, read = form.operand(0)
    w, weights = form.operand(3, axis=1)
    return [x, w, *form.core("MatMul", [read, weights], 6)]


def _gemm(form: _Form) -> list[onnx.NodeProto]:
    is_turned = bool(attribute(form.node, "transB", 0))
    x, read = form.operand(0)
    w, weights = form.operand(3, axis=0 if is_turned else 1)
    nodes, bias = form.bias(6)
    return [x, w, *nodes, *form.core("Gemm", [read, weights, *bias], 7)]


def _sum(form: _Form) -> list[onnx.NodeProto]:
    a, first = form.operand(0)
    b, second = form.operand(3)
    return [a, b, *form.core("Add", [first, second], 6)]


def _average(form: _Form) -> list[onnx.NodeProto]:
    x, read = form.operand(0)
    return [x, *form.core("GlobalAveragePool", [read], 3, without=("channels_last",))]


_Writer = Callable[[_Form], list[onnx.NodeProto]]
_FORMS: Mapping[tuple[str, str], tuple[_Writer, tuple[int, ...]]] = {
    ("", "QLinearConv"): (_convolution, (3, 8)),
    ("", "QLinearMatMul"): (_product, (3,)),
    (MICROSOFT, "QGemm"): (_gemm, (3, 6)),
    (MICROSOFT, "QLinearAdd"): (_sum, ()),
    (MICROSOFT, "QLinearGlobalAveragePool"): (_average, ()),
    (MICROSOFT, "MatMulIntegerToFloat"): (lambda form: form.scaled_product("Gemm"), (1, 6)),
}
# Operators on integers → the indices of their operands that are weights or biases.
INTEGER_FORMS = {operator: weights for operator, (_, weights) in _FORMS.items()}
# The name of a MatMulIntegerToFloat between Transposes. It is read as a convolution with a window
# of one element. Its only attribute is `strides`.
POINTWISE = "PointwiseMatMulIntegerToFloat"
_WRITERS: Mapping[tuple[str, str], _Writer] = {
    **{operator: write for operator, (write, _) in _FORMS.items()},
    (MICROSOFT, POINTWISE): lambda form: form.scaled_product(POINTWISE),
}


def in_groups(area: Area) -> tuple[Area, list[int]]:
    """The area, in which groups replace the operators on integers. Also, for each operator of the
    result, the index of the original operator.
    """
    nodes = list[onnx.NodeProto]()
    places = list[int]()
    made = dict[str, np.ndarray]()
    for place, node in enumerate(area.nodes):
        parts = list(_parts(node, area, made))
        nodes += parts
        places += [place] * len(parts)
    if len(nodes) == len(area.nodes):
        return area, places
    return replace(area, nodes=tuple(nodes), constants={**area.constants, **made}), places


def _parts(
    node: onnx.NodeProto, area: Area, made: dict[str, np.ndarray]
) -> Iterator[onnx.NodeProto]:
    write = _WRITERS.get((node.domain, node.op_type))
    is_float = node.op_type == "QGemm" and len(node.input) < 8
    if write is None or is_float or attribute(node, "channels_last", 0):
        yield node
        return
    form = _Form(node, area.constants)
    yield from write(form)
    made.update(form.made)
