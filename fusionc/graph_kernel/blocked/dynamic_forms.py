"""Rewrite operators on bytes whose scale is computed at run time into the form that an area reads:
DynamicQuantizeLinear, DequantizeLinear, and a convolution or product of dequantized integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import onnx
from onnx import TensorProto, helper

from fusionc.graph_kernel.area import Area, AreaValue
from fusionc.graph_kernel.blocked.area_rewriter import AreaRewriter
from fusionc.graph_kernel.blocked.turned_images import CHANNELS_SECOND
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import MICROSOFT

_HALF = 128  # the difference of the zero points of signed and unsigned bytes
_IMAGE_RANK = 4
_DEQUANTIZE = "DequantizeLinear"
_DYNAMIC = "DynamicQuantizeLinear"
_JOINED = "DynamicQuantizeMatMul"  # a quantization and a product
# operator on integers → the operator on dequantized integers, and the axis of the weights' output
# channels
_CORES: Mapping[str, tuple[str, int]] = {"ConvInteger": ("Conv", 0), "MatMulInteger": ("Gemm", 1)}
# Operators that a group may replace. They are removed if no operator reads their results any more.
_REPLACED = frozenset(
    {*_CORES, "Add", "Cast", "Mul", "QuantizeLinear", "Sub"}  # of integers and of scales
)
# Operators that such groups consist of → the indices of their operands that are weights or biases.
DYNAMIC_FORMS: dict[tuple[str, str], tuple[int, ...]] = {
    ("", _DYNAMIC): (),
    ("", "ConvInteger"): (1,),
    ("", "MatMulInteger"): (1,),
    (MICROSOFT, _JOINED): (1, 4),
}
_Placed = tuple[int, onnx.NodeProto]  # the index of the original operator, and the new operator


def with_dynamic_groups(area: Area) -> tuple[Area, list[int]]:
    """The area in which groups of dequantized integers replace the operators on results of
    DynamicQuantizeLinear. Also, for each operator of this area, the index of the original operator.
    """
    if not any(node.op_type in (_DYNAMIC, _JOINED) for node in area.nodes):
        return area, list(range(len(area.nodes)))
    forms = _DynamicForms(area)
    placed = list(forms.groups(list(forms.of_unsigned(forms.apart(enumerate(area.nodes))))))
    placed = forms.without_unread(placed)
    nodes = tuple(node for _, node in placed)
    known = replace(area, nodes=nodes, values=forms.values, constants=forms.constants)
    return known, [place for place, _ in placed]


def inputs_with_channels_last(area: Area) -> list[str]:
    """The inputs of four axes that are quantized at run time, and are then either multiplied as
    rows or transposed from channels-last to the order of images.
    """
    images = {name for name in area.inputs if len(area.values[name].shape) == _IMAGE_RANK}
    last = _read_with_channels_last(area)
    quantized = (n for n in area.nodes if n.op_type == _DYNAMIC and n.output[0] in last)
    return [node.input[0] for node in quantized if node.input[0] in images]


def _read_with_channels_last(area: Area) -> set[str]:
    """The values that are either dequantized and multiplied as rows, or transposed from
    channels-last to the order of images.
    """
    rows = {node.input[0] for node in area.nodes if node.op_type in ("Gemm", "MatMul")}
    return {
        node.input[0]
        for node in area.nodes
        if _is_moved_to_second(node) or (node.op_type == _DEQUANTIZE and node.output[0] in rows)
    }


def _is_moved_to_second(node: onnx.NodeProto) -> bool:
    return node.op_type == "Transpose" and tuple(attribute(node, "perm") or ()) == CHANNELS_SECOND


@dataclass(frozen=True)
class _Scaled:
    """Scaled sums of integers: the operator that computes the sums, the scale of its weights, and
    the operator that scales the sums.
    """

    core: onnx.NodeProto
    scale: np.ndarray
    last: onnx.NodeProto
    bias: str = ""


class _DynamicForms(AreaRewriter):
    def apart(self, placed: Iterator[_Placed]) -> Iterator[_Placed]:
        """Replace each DynamicQuantizeMatMul by a quantization and a product."""
        for place, node in placed:
            if node.op_type != _JOINED:
                yield place, node
                continue
            x, weights, scale, zero, bias = [*node.input, "", ""][:5]
            q, s, z = (f"{node.output[0]}/{name}" for name in ("bytes", "scale", "zero"))
            self.values[q] = AreaValue(q, TensorProto.UINT8, self.values[x].shape)
            yield place, helper.make_node(_DYNAMIC, [x], [q, s, z])
            inputs = [q, weights, s, scale, z, zero, bias]
            product = "MatMulIntegerToFloat"
            yield place, helper.make_node(product, inputs, node.output, domain=MICROSOFT)

    def of_unsigned(self, placed: Iterator[_Placed]) -> Iterator[_Placed]:
        """Let operators on signed bytes read the unsigned bytes of DynamicQuantizeLinear instead. A
        QuantizeLinear with the same scale and the zero point minus 128 makes the same bytes, except
        for the sign bit.
        """
        names = dict[str, str]()
        quantizations = dict[str, onnx.NodeProto]()  # name of a scale → DynamicQuantizeLinear
        for place, node in placed:
            if node.op_type == _DYNAMIC:
                quantizations[node.output[1]] = node
            if node.op_type != "QuantizeLinear" or len(node.input) < 3:
                yield place, _renamed(node, names)
                continue
            dynamic = quantizations.get(node.input[1])
            move = self._makers.get(node.input[0])
            if dynamic is None or not self._has_signed_zero(node, dynamic):
                yield place, node
            elif node.input[0] == dynamic.input[0]:
                names |= {node.output[0]: dynamic.output[0], node.input[2]: dynamic.output[2]}
            elif _is_transpose_of(move, dynamic.input[0]):
                names[node.input[2]] = dynamic.output[2]
                self.values[node.output[0]] = replace(
                    self.values[node.output[0]], dtype=TensorProto.UINT8
                )
                moved = helper.make_node(move.op_type, dynamic.output[:1], node.output)
                moved.attribute.extend(move.attribute)
                yield place, moved
            else:
                yield place, node

    def _has_signed_zero(self, node: onnx.NodeProto, dynamic: onnx.NodeProto) -> bool:
        """Whether a QuantizeLinear has the zero point of a DynamicQuantizeLinear minus 128."""
        signed = self._made_by(node.input[2], "Cast", to=TensorProto.INT8)
        moved = None if signed is None else self._makers.get(signed.input[0])
        if moved is None or moved.op_type not in ("Add", "Sub"):
            return False
        number = self._area.constants.get(moved.input[1])
        wanted = -_HALF if moved.op_type == "Add" else _HALF
        if number is None or number.size != 1 or number.item() != wanted:
            return False
        wide = self._made_by(moved.input[0], "Cast", to=TensorProto.INT32)
        return wide is not None and wide.input[0] == dynamic.output[2]

    def _made_by(self, name: str, op: str, to: int) -> onnx.NodeProto | None:
        """The operator `op` (a Cast to the type `to`) that makes a value. `None` if another one
        does.
        """
        node = self._makers.get(name)
        is_known = node is not None and node.op_type == op and attribute(node, "to") == to
        return node if is_known else None

    def groups(self, placed: Sequence[_Placed]) -> Iterator[_Placed]:
        """Replace sums of integers by groups of dequantized integers. The group replaces the
        operator on integers, its Cast, the product with both scales, and the sum with a bias.
        """
        cores = {node.output[0]: node for _, node in placed if node.op_type in _CORES}
        groups = {
            scaled.last.output[0]: scaled
            for _, node in placed
            if node.op_type == "Mul" and (scaled := self._scaled(node, cores)) is not None
        }
        for place, node in placed:
            group = groups.get(node.output[0])
            if group is None:
                yield place, node
            else:
                yield from ((place, part) for part in self._parts(group))

    def _scaled(
        self, product: onnx.NodeProto, cores: Mapping[str, onnx.NodeProto]
    ) -> _Scaled | None:
        """The scaled sums of integers that a product makes. `None` if it scales something else."""
        for sums, factor in (tuple(product.input), tuple(product.input)[::-1]):
            cast = self._made_by(sums, "Cast", to=TensorProto.FLOAT)
            core = None if cast is None else cores.get(cast.input[0])
            if core is None or len(core.input) < 3:
                continue
            quantization = self._makers.get(core.input[2])
            if quantization is None or quantization.op_type != _DYNAMIC:
                continue
            scale = self._scale_of_weights(factor, quantization.output[1])
            if scale is not None and self._is_of_channels(scale, core, product.output[0]):
                return self._with_bias(_Scaled(core, scale.ravel(), product))
        return None

    def _scale_of_weights(self, factor: str, scale: str) -> np.ndarray | None:
        """The constant by which a factor multiplies the scale of the bytes. `None` if there is
        none.
        """
        node = self._makers.get(factor)
        if node is None or node.op_type != "Mul" or scale not in node.input:
            return None
        (other,) = [name for name in node.input if name != scale] or [""]
        return self._area.constants.get(other)

    def _is_of_channels(self, numbers: np.ndarray, core: onnx.NodeProto, result: str) -> bool:
        """Whether there is one number for all channels of a result, or one for each channel."""
        value = self.values.get(result)
        if value is None or numbers.size == 1:
            return value is not None
        axis = 1 if core.op_type == "ConvInteger" else len(value.shape) - 1
        return _has_channels(numbers.shape, value.shape, axis)

    def _with_bias(self, scaled: _Scaled) -> _Scaled:
        """The group, including the sum that follows if that adds a number to each channel."""
        result = scaled.last.output[0]
        reader = self._only_reader(result)
        if reader is None or reader.op_type != "Add":
            return scaled
        (bias,) = [name for name in reader.input if name != result] or [""]
        array = self._area.constants.get(bias)
        if array is not None:
            shape: Sequence[int | str] = array.shape
        else:
            shape = self.values[bias].shape if bias in self._area.inputs else ()
        known = self.values[result].shape
        axis = 1 if scaled.core.op_type == "ConvInteger" else len(known) - 1
        if not _has_channels(shape, known, axis):
            return scaled
        return replace(scaled, last=reader, bias=bias)

    def _parts(self, group: _Scaled) -> Iterator[onnx.NodeProto]:
        (out,) = group.last.output
        x, weights, zero, *more = group.core.input
        (scale,) = [n.output[1] for n in [self._makers[zero]]]
        op, axis = _CORES[group.core.op_type]
        self.constants[f"{out}/weights_scale"] = (
            group.scale if group.scale.size > 1 else (group.scale.reshape(()))
        )
        yield helper.make_node(_DEQUANTIZE, [x, scale, zero], [f"{out}/0"])
        inputs = [weights, f"{out}/weights_scale", *filter(None, more)]
        yield helper.make_node(_DEQUANTIZE, inputs, [f"{out}/1"], axis=axis)
        bias = [group.bias] if group.bias else []
        core = helper.make_node(op, [f"{out}/0", f"{out}/1", *bias], [out])
        core.attribute.extend(group.core.attribute)
        yield core

    def without_unread(self, placed: Sequence[_Placed]) -> list[_Placed]:
        """The operators, except those that groups have replaced."""
        kept = list[_Placed]()
        read = Counter(self._area.outputs)
        for place, node in reversed(placed):
            if node.op_type in _REPLACED and not any(read[name] for name in node.output):
                continue
            read.update(node.input)
            kept.append((place, node))
        return kept[::-1]


def _is_transpose_of(node: onnx.NodeProto | None, name: str) -> TypeGuard[onnx.NodeProto]:
    return node is not None and node.op_type == "Transpose" and node.input[0] == name


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    if not any(name in names for name in node.input):
        return node
    renamed = onnx.NodeProto()
    renamed.CopyFrom(node)
    renamed.input[:] = [names.get(name, name) for name in node.input]
    return renamed


def _has_channels(numbers: Sequence[int | str], result: Sequence[int | str], axis: int) -> bool:
    """Whether numbers, broadcast to the shape of a result, give each of its channels one number."""
    aligned = (1,) * (len(result) - len(numbers)) + tuple(numbers)
    return len(aligned) == len(result) and all(
        size == (result[place] if place == axis else 1) for place, size in enumerate(aligned)
    )
