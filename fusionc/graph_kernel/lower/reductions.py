"""Operators that make one element of several: sums and the like, softmax and normalizations.

They are written with what `Lowering` offers: an element of a value at an index, and a reduction over the axes of a row.
Sums are accumulated in several parts at once, float16 in float.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from fusionc.graph_kernel.lower.area_info import (
    AreaInfo,
    KernelShape,
    as_first,
    attribute,
    axes_of,
    numbers,
)
from fusionc.graph_kernel.lower.c_types import CType
from fusionc.graph_kernel.lower.index import Index
from fusionc.graph_kernel.lower.lowering import Lowering, OperatorLowering
from fusionc.graph_kernel.lower.steps import Reduction, Step
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.operators.facts import Trait, names_with
from fusionc.shapes.polynomials import ONE, ZERO

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
    """The largest element of those that are numbers: where a NaN makes everything NaN afterwards anyway."""
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
    if ZERO in shape:  # onnxruntime forgets to reduce some axes of it
        raise Unsupported(f"no kernel computes {node.op_type} of nothing")
    if attribute(node, "keepdims", 1):
        return [tuple(ONE if axis in axes else n for axis, n in enumerate(shape))]
    return [tuple(n for axis, n in enumerate(shape) if axis not in axes)]


def _reduce(lowering: Lowering, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    info = lowering.info
    name = node.input[0]
    ctype = info.ctype(name)
    axes = _reduced_axes(info, node)
    rank = len(info.shapes[name])
    if ctype.name not in _CTYPES and not (
        node.op_type in ("ReduceMax", "ReduceMin") and ctype.name in _LEAST
    ):
        raise Unsupported(f"no kernel computes {node.op_type} of such elements")
    kept = list(at)
    if not attribute(node, "keepdims", 1):
        rest = iter(at)
        kept = [Index() if axis in axes else next(rest) for axis in range(rank)]
    op = node.op_type.removeprefix("Reduce")

    def total(
        reduction: Reduction, template: str = "{0}", shift: Step | None = None, cost: int = 1
    ) -> Step:
        def element(x: Step) -> Step:
            return lowering.steps.op(ctype, template, x, *([shift] if shift else []), cost=cost)

        return lowering.over(name, kept, axes, reduction, element)

    def finished(template: str, *steps: Step, cost: int = 10) -> Step:
        return lowering.steps.op(ctype, template, *steps, cost=cost)

    if op in ("Max", "Min"):
        return total(_extreme(ctype, op.lower()))
    if op == "Sum":
        return total(SUM)
    if op == "Prod":
        return total(_PRODUCT)
    if op == "SumSquare":
        return total(SUM, "{0} * {0}")
    if op == "L1":
        return total(SUM, "fabs@({0})" if ctype.is_float else "{0} < 0 ? -{0} : {0}")
    if op == "Mean":
        return finished(  # of nothing it is 0, as in onnxruntime
            "{1} == 0 ? 0 : {0} / {1}" if ctype.is_float else "gk_div_$({0}, {1})",
            total(SUM),
            lowering.length(ctype, name, axes),
        )
    if not ctype.is_float:
        raise Unsupported(f"no kernel computes {node.op_type} of integers")
    if op == "L2":
        return finished("sqrt@({0})", total(SUM, "{0} * {0}"))
    if op == "LogSum":
        return finished("gk_log_$({0}, machine)", total(SUM))
    largest = finished("{0} > -INFINITY && {0} < INFINITY ? {0} : 0", total(_plain_max(ctype)))
    powers = total(SUM, "gk_exp_$({0} - {1}, machine)", largest, cost=7)
    return finished("gk_log_$({0}, machine) + {1}", powers, largest)


def _softmax(lowering: Lowering, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    info = lowering.info
    name = node.input[0]
    ctype = info.ctype(name)
    rank = len(info.shapes[name])
    if not ctype.is_float:
        raise Unsupported(f"no kernel computes {node.op_type} of such elements")
    axis = int(attribute(node, "axis", -1 if info.area.opset >= 13 else 1))
    axis += rank if axis < 0 else 0
    axes = (
        [axis] if info.area.opset >= 13 else list(range(axis, rank))
    )  # once it made two dimensions of all

    largest = lowering.over(name, at, axes, _plain_max(ctype), lambda x: x)
    # A sum of 1 and more does not show what is subnormal; the logarithm of an element does.
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
    """LayerNormalization, and RMSNormalization, which subtracts no mean. Further outputs: that mean, 1 / deviation."""
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
    **dict.fromkeys(names_with(Trait.SOFTMAX), OperatorLowering(as_first, _softmax)),
    **dict.fromkeys(
        names_with(Trait.ROW_NORM),
        OperatorLowering(_normalized_shapes, _layer_norm),
    ),
}
