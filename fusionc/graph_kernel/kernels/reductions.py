"""Operators that make one element of several: sums and the like, softmax and normalizations.

They are written with what `Pull` offers: an element of a value at an index, and a reduction over the axes of a row.
Sums are accumulated in several parts at once, float16 in float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx

from fusionc.graph_kernel.kernels.index import Index
from fusionc.graph_kernel.kernels.kinds import Kind
from fusionc.graph_kernel.kernels.sizes import ONE, Unsupported
from fusionc.graph_kernel.kernels.steps import Reduction, Step
from fusionc.graph_kernel.kernels.view import Shape, View, as_first, attribute, axes_of, numbers

if TYPE_CHECKING:
    from fusionc.graph_kernel.kernels.pull import Pull

SUM = Reduction("0", "{0} + {1}", "+")
_PRODUCT = Reduction("1", "{0} * {1}", "*")
_LEAST = {"f32": "-INFINITY", "f64": "-INFINITY", "i32": "INT32_MIN", "i64": "INT64_MIN", "i8": "-128", "u8": "0"}
_GREATEST = {"f32": "INFINITY", "f64": "INFINITY", "i32": "INT32_MAX", "i64": "INT64_MAX", "i8": "127", "u8": "255"}
_KINDS = ("f32", "f64", "i32", "i64")


def _extreme(kind: Kind, name: str) -> Reduction:
    start = (_LEAST if name == "max" else _GREATEST)[kind.name]
    return Reduction(start, f"gk_{name}_{kind.name}({{0}}, {{1}})", f"gk_{name}_{kind.name}")


def _plain_max(kind: Kind) -> Reduction:
    """The largest element of those that are numbers: where a NaN makes everything NaN afterwards anyway."""
    return Reduction(_LEAST[kind.name], "{1} > {0} ? {1} : {0}", "max")


def _reduced_axes(view: View, node: onnx.NodeProto) -> list[int]:
    rank = len(view.shapes[node.input[0]])
    axes = numbers(view, node, 1, "axes")
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        return []
    return axes_of(axes or None, rank)


def _reduced_shapes(view: View, node: onnx.NodeProto) -> list[Shape]:
    shape, axes = view.shapes[node.input[0]], _reduced_axes(view, node)
    if attribute(node, "keepdims", 1):
        return [tuple(ONE if axis in axes else n for axis, n in enumerate(shape))]
    return [tuple(n for axis, n in enumerate(shape) if axis not in axes)]


def _reduce(pull: Pull, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    view, name = pull.view, node.input[0]
    kind, axes, rank = view.kind(name), _reduced_axes(view, node), len(view.shapes[name])
    if kind.name not in _KINDS and not (node.op_type in ("ReduceMax", "ReduceMin") and kind.name in _LEAST):
        raise Unsupported(f"no kernel computes {node.op_type} of such elements")
    kept = list(at)
    if not attribute(node, "keepdims", 1):
        rest = iter(at)
        kept = [Index() if axis in axes else next(rest) for axis in range(rank)]
    op, suffix = node.op_type.removeprefix("Reduce"), "f" if kind.name == "f32" else ""

    def total(reduction: Reduction, template: str = "{0}", shift: Step | None = None, cost: int = 1) -> Step:
        def element(x: Step) -> Step:
            return pull.steps.op(kind, template, x, *([shift] if shift else []), cost=cost)

        return pull.over(name, kept, axes, reduction, element)

    def finished(template: str, *steps: Step, cost: int = 10) -> Step:
        return pull.steps.op(kind, template, *steps, cost=cost)

    if op in ("Max", "Min"):
        return total(_extreme(kind, op.lower()))
    if op == "Sum":
        return total(SUM)
    if op == "Prod":
        return total(_PRODUCT)
    if op == "SumSquare":
        return total(SUM, "{0} * {0}")
    if op == "L1":
        return total(SUM, f"fabs{suffix}({{0}})" if kind.is_float else "{0} < 0 ? -{0} : {0}")
    if op == "Mean":
        return finished(  # of nothing it is 0, as in onnxruntime
            "{1} == 0 ? 0 : {0} / {1}" if kind.is_float else f"gk_div_{kind.name}({{0}}, {{1}})",
            total(SUM),
            pull.length(kind, name, axes),
        )
    if not kind.is_float:
        raise Unsupported(f"no kernel computes {node.op_type} of integers")
    if op == "L2":
        return finished(f"sqrt{suffix}({{0}})", total(SUM, "{0} * {0}"))
    if op == "LogSum":
        return finished(f"gk_log_{kind.name}({{0}}, machine)", total(SUM))
    largest = finished("{0} > -INFINITY && {0} < INFINITY ? {0} : 0", total(_plain_max(kind)))
    powers = total(SUM, f"gk_exp_{kind.name}({{0}} - {{1}}, machine)", largest, cost=7)
    return finished(f"gk_log_{kind.name}({{0}}, machine) + {{1}}", powers, largest)


def _softmax(pull: Pull, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    view, name = pull.view, node.input[0]
    kind, rank = view.kind(name), len(view.shapes[name])
    if not kind.is_float:
        raise Unsupported(f"no kernel computes {node.op_type} of such elements")
    axis = int(attribute(node, "axis", -1 if view.area.opset >= 13 else 1))
    axis += rank if axis < 0 else 0
    axes = [axis] if view.area.opset >= 13 else list(range(axis, rank))  # once it made two dimensions of all

    largest = pull.over(name, at, axes, _plain_max(kind), lambda x: x)
    # A sum of 1 and more does not show what is subnormal; the logarithm of an element does.
    function = "gk_exp_of_negative" if node.op_type == "LogSoftmax" else "gk_exp"
    exp = f"{function}_{kind.name}({{0}} - {{1}}, machine)"
    total = pull.over(name, at, axes, SUM, lambda x: pull.steps.op(kind, exp, x, largest, cost=6))
    x = pull.at(name, at)
    if node.op_type == "LogSoftmax":
        log = pull.steps.op(kind, f"gk_log_{kind.name}({{0}}, machine)", total, cost=12)
        return pull.steps.op(kind, "{0} - {1} - {2}", x, largest, log, cost=2)
    inverse = pull.steps.op(kind, "1 / {0}", total, cost=4)
    return pull.steps.op(kind, "{0} * {1}", pull.steps.op(kind, exp, x, largest, cost=6), inverse)


def _normalized_axes(view: View, node: onnx.NodeProto) -> list[int]:
    rank = len(view.shapes[node.input[0]])
    axis = int(attribute(node, "axis", -1))
    return list(range(axis + rank if axis < 0 else axis, rank))


def _normalized_shapes(view: View, node: onnx.NodeProto) -> list[Shape]:
    shape, axes = view.shapes[node.input[0]], _normalized_axes(view, node)
    small = tuple(ONE if axis in axes else n for axis, n in enumerate(shape))
    return [shape, *[small] * (len(node.output) - 1)]


def _layer_norm(pull: Pull, node: onnx.NodeProto, k: int, at: Sequence[Index]) -> Step:
    """LayerNormalization, and RMSNormalization, which subtracts no mean. Further outputs: that mean, 1 / deviation."""
    view, name, steps = pull.view, node.input[0], pull.steps
    kind, axes = view.kind(name), _normalized_axes(view, node)
    if not kind.is_float:
        raise Unsupported(f"no kernel computes {node.op_type} of such elements")
    centers, length = node.op_type == "LayerNormalization", pull.length(kind, name, axes)
    epsilon = steps.literal(kind, np.float64(attribute(node, "epsilon", 1e-5)))
    sqrt = "sqrtf" if kind.name == "f32" else "sqrt"
    mean = steps.op(kind, "{0} / {1}", pull.over(name, at, axes, SUM, lambda x: x), length) if centers else None

    def centered(x: Step) -> Step:
        return steps.op(kind, "{0} - {1}", x, mean) if mean else x

    def squared(x: Step) -> Step:
        return steps.op(kind, "{0} * {0}", centered(x))

    squares = pull.over(name, at, axes, SUM, squared)
    inverse = steps.op(kind, f"1 / {sqrt}({{0}} / {{1}} + {{2}})", squares, length, epsilon, cost=20)
    if k > 0:
        return mean if mean and k == 1 else inverse
    result = steps.op(kind, "{0} * {1}", centered(pull.at(name, at)), inverse)
    for template, operand in zip(("{0} * {1}", "{0} + {1}"), node.input[1:], strict=False):
        if operand:
            result = steps.op(kind, template, result, pull.broadcast(operand, view.shapes[name], at))
    return result


_REDUCE = (_reduced_shapes, _reduce)
_NORM = (_normalized_shapes, _layer_norm)
REDUCTIONS: dict[
    str,
    tuple[
        Callable[[View, onnx.NodeProto], list[Shape]],
        Callable[[Pull, onnx.NodeProto, int, Sequence[Index]], Step],
    ],
] = {
    "ReduceSum": _REDUCE,
    "ReduceMean": _REDUCE,
    "ReduceMax": _REDUCE,
    "ReduceMin": _REDUCE,
    "ReduceProd": _REDUCE,
    "ReduceSumSquare": _REDUCE,
    "ReduceL1": _REDUCE,
    "ReduceL2": _REDUCE,
    "ReduceLogSum": _REDUCE,
    "ReduceLogSumExp": _REDUCE,
    "Softmax": (as_first, _softmax),
    "LogSoftmax": (as_first, _softmax),
    "LayerNormalization": _NORM,
    "RMSNormalization": _NORM,
}
