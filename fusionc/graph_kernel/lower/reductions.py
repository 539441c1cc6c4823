"""Operators that compute one element from several: reductions, softmax and normalizations.

`Lowering` gives them the element of a value at an index, and reductions over the axes of a row. A
sum is accumulated as several partial sums at once. Sums of float16 are accumulated in float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from fusionc.graph_kernel.lower.area_info import (
    AreaInfo,
    KernelShape,
    attribute,
    axes_of,
    first_shape,
    numbers,
)
from fusionc.graph_kernel.lower.c_types import CType
from fusionc.graph_kernel.lower.index import Index
from fusionc.graph_kernel.lower.lowering import Lowering, OperatorLowering
from fusionc.graph_kernel.lower.steps import Reduction, Step
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.operators.facts import Trait, names_with
from fusionc.operators.polynomials import ONE, ZERO

SUM = Reduction("0", "{0} + {1}", "+")
_PRODUCT = Reduction("1", "{0} * {1}", "*")
_LEAST = {
    "f32": "-INFINITY",
    "f64": "-INFINITY",
    "i32": "INT32_MIN",
    "i64": "INT64_MIN",
    "i8": "-128",
    "u8": "0",
}
_GREATEST = {
    "f32": "INFINITY",
    "f64": "INFINITY",
    "i32": "INT32_MAX",
    "i64": "INT64_MAX",
    "i8": "127",
    "u8": "255",
}
_CTYPES = ("f32", "f64", "i32", "i64")


def _extreme(ctype: CType, name: str) -> Reduction:
    start = (_LEAST if name == "max" else _GREATEST)[ctype.name]
    return Reduction(start, f"gk_{name}_{ctype.name}({{0}}, {{1}})", f"gk_{name}_{ctype.name}")


def _plain_max(ctype: CType) -> Reduction:
    """The largest element that is not NaN. It can be used if a NaN reaches the result in another
    way.
    """
    return Reduction(_LEAST[ctype.name], "{1} > {0} ? {1} : {0}", "max")


def _reduced_axes(info: AreaInfo, node: onnx.NodeProto) -> list[int]:
    rank = len(info.shapes[node.input[0]])
    axes = numbers(info, node, 1, "axes")
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        return []
    return axes_of(axes or None, rank)


def _reduced_shapes(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shape = info.shapes[node.input[0]]
    axes = _reduced_axes(info, node)
    if ZERO in shape:  # without elements, onnxruntime leaves some of the axes unreduced
        raise Unsupported(f"no kernel computes {node.op_type} of nothing")
    if attribute(node, "keepdims", 1):
        return [tuple(ONE if axis in axes else n for axis, n in enumerate(shape))]
    return [tuple(n for axis, n in enumerate(shape) if axis not in axes)]


class _Reduce:
    """A Reduce operator at one index of its result. It computes in one type."""

    def __init__(self, lowering: Lowering, node: onnx.NodeProto, at: Sequence[Index]) -> None:
        self._lowering = lowering
        self._name = node.input[0]
        self.ctype = lowering.info.ctype(self._name)
        self._axes = _reduced_axes(lowering.info, node)
        self._kept = list(at)
        if not attribute(node, "keepdims", 1):
            rest = iter(at)
            rank = len(lowering.info.shapes[self._name])
            self._kept = [Index() if axis in self._axes else next(rest) for axis in range(rank)]

    def total(
        self,
        reduction: Reduction,
        template: str = "{0}",
        shift: Step | None = None,
        cost: int = 1,
    ) -> Step:
        """Apply the template to each element (and `shift`), and reduce the results."""
        shifts = [shift] if shift else []

        def element(x: Step) -> Step:
            return self._lowering.steps.op(self.ctype, template, x, *shifts, cost=cost)

        return self._lowering.over(self._name, self._kept, self._axes, reduction, element)

    def finish(self, template: str, *steps: Step, cost: int = 10) -> Step:
        """A step that computes the result from the totals `steps`."""
        return self._lowering.steps.op(self.ctype, template, *steps, cost=cost)

    def mean(self) -> Step:
        template = "{1} == 0 ? 0 : {0} / {1}" if self.ctype.is_float else "gk_div_$({0}, {1})"
        total = self.total(SUM)
        length = self._lowering.length(self.ctype, self._name, self._axes)
        return self.finish(template, total, length)  # the mean of no elements is 0

    def log_sum_exp(self) -> Step:
        largest = self.finish(
            "{0} > -INFINITY && {0} < INFINITY ? {0} : 0", self.total(_plain_max(self.ctype))
        )
        powers = self.total(SUM, "gk_exp_$({0} - {1}, machine)", largest, cost=7)
        return self.finish("gk_log_$({0}, machine) + {1}", powers, largest)


# Operator → how it reduces. The tables are for any type, for types wide enough for sums, and for
# floats.
_ANY_TYPE: dict[str, Callable[[_Reduce], Step]] = {
    "ReduceMax": lambda r: r.total(_extreme(r.ctype, "max")),
    "ReduceMin": lambda r: r.total(_extreme(r.ctype, "min")),
}
_WIDE_TYPES: dict[str, Callable[[_Reduce], Step]] = {
    **_ANY_TYPE,
    "ReduceSum": lambda r: r.total(SUM),
    "ReduceProd": lambda r: r.total(_PRODUCT),
    "ReduceSumSquare": lambda r: r.total(SUM, "{0} * {0}"),
    "ReduceL1": lambda r: r.total(
        SUM, "fabs@({0})" if r.ctype.is_float else "{0} < 0 ? -{0} : {0}"
    ),
    "ReduceMean": _Reduce.mean,
}
_FLOAT_TYPES: dict[str, Callable[[_Reduce], Step]] = {
    **_WIDE_TYPES,
    "ReduceL2": lambda r: r.finish("sqrt@({0})", r.total(SUM, "{0} * {0}")),
    "ReduceLogSum": lambda r: r.finish("gk_log_$({0}, machine)", r.total(SUM)),
    "ReduceLogSumExp": _Reduce.log_sum_exp,
}


def _reduce(lowering: Lowering, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    ctype = lowering.info.ctype(node.input[0])
    if ctype.name not in _CTYPES and not (node.op_type in _ANY_TYPE and ctype.name in _LEAST):
        raise Unsupported(f"no kernel computes {node.op_type} of such elements")
    rule = (_FLOAT_TYPES if ctype.is_float else _WIDE_TYPES).get(node.op_type)
    if rule is None:
        raise Unsupported(f"no kernel computes {node.op_type} of integers")
    return rule(_Reduce(lowering, node, at))


def _softmax(lowering: Lowering, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    info = lowering.info
    name = node.input[0]
    ctype = info.ctype(name)
    rank = len(info.shapes[name])
    if not ctype.is_float:
        raise Unsupported(f"no kernel computes {node.op_type} of such elements")
    axis = int(attribute(node, "axis", -1 if info.area.opset >= 13 else 1))
    axis += rank if axis < 0 else 0
    # before opset 13, Softmax normalized over this axis and all later axes
    axes = [axis] if info.area.opset >= 13 else list(range(axis, rank))

    largest = lowering.over(name, at, axes, _plain_max(ctype), lambda x: x)
    # Subnormal exponentials do not matter in a sum that is at least 1. LogSoftmax needs only this
    # sum. Softmax also returns the exponentials themselves.
    function = "gk_exp_of_negative" if node.op_type == "LogSoftmax" else "gk_exp"
    exp = f"{function}_$({{0}} - {{1}}, machine)"
    total = lowering.over(
        name, at, axes, SUM, lambda x: lowering.steps.op(ctype, exp, x, largest, cost=6)
    )
    x = lowering.at(name, at)
    if node.op_type == "LogSoftmax":
        log = lowering.steps.op(ctype, "gk_log_$({0}, machine)", total, cost=12)
        return lowering.steps.op(ctype, "{0} - {1} - {2}", x, largest, log, cost=2)
    inverse = lowering.steps.op(ctype, "1 / {0}", total, cost=4)
    return lowering.steps.op(
        ctype, "{0} * {1}", lowering.steps.op(ctype, exp, x, largest, cost=6), inverse
    )


def _normalized_axes(info: AreaInfo, node: onnx.NodeProto) -> list[int]:
    rank = len(info.shapes[node.input[0]])
    axis = int(attribute(node, "axis", -1))
    return list(range(axis + rank if axis < 0 else axis, rank))


def _normalized_shapes(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    shape = info.shapes[node.input[0]]
    axes = _normalized_axes(info, node)
    for operand in filter(None, node.input[1:]):
        if len(info.shapes[operand]) > len(shape):
            raise Unsupported(
                f"no kernel computes {node.op_type} with a scale or bias of more axes"
            )
        for size, whole in zip(reversed(info.shapes[operand]), reversed(shape), strict=False):
            info.sizes.spread(size, whole)
    small = tuple(ONE if axis in axes else n for axis, n in enumerate(shape))
    return [shape, *[small] * (len(node.output) - 1)]


def _layer_norm(lowering: Lowering, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    """LayerNormalization; or RMSNormalization, which does not subtract a mean.

    Optional further outputs are the mean (only of LayerNormalization), and 1 / deviation.
    """
    info = lowering.info
    name = node.input[0]
    steps = lowering.steps
    ctype = info.ctype(name)
    axes = _normalized_axes(info, node)
    if not ctype.is_float:
        raise Unsupported(f"no kernel computes {node.op_type} of such elements")
    centers = node.op_type == "LayerNormalization"
    length = lowering.length(ctype, name, axes)
    epsilon = steps.literal(ctype, np.float64(attribute(node, "epsilon", 1e-5)))
    mean = (
        steps.op(ctype, "{0} / {1}", lowering.over(name, at, axes, SUM, lambda x: x), length)
        if centers
        else None
    )

    def centered(x: Step) -> Step:
        return steps.op(ctype, "{0} - {1}", x, mean) if mean else x

    def squared(x: Step) -> Step:
        return steps.op(ctype, "{0} * {0}", centered(x))

    squares = lowering.over(name, at, axes, SUM, squared)
    inverse = steps.op(ctype, "1 / sqrt@({0} / {1} + {2})", squares, length, epsilon, cost=20)
    if k > 0:
        return mean if mean and k == 1 else inverse
    result = steps.op(ctype, "{0} * {1}", centered(lowering.at(name, at)), inverse)
    for template, operand in zip(("{0} * {1}", "{0} + {1}"), node.input[1:], strict=False):
        if operand:
            result = steps.op(
                ctype, template, result, lowering.broadcast(operand, info.shapes[name], at)
            )
    return result


REDUCTIONS = {
    **dict.fromkeys(names_with(Trait.REDUCES), OperatorLowering(_reduced_shapes, _reduce)),
    **dict.fromkeys(names_with(Trait.SOFTMAX), OperatorLowering(first_shape, _softmax)),
    **dict.fromkeys(
        names_with(Trait.ROW_NORM),
        OperatorLowering(_normalized_shapes, _layer_norm),
    ),
}
