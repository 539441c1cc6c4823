from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import element_type
from fusionc.operators.facts import Trait, names_with
from fusionc.operators.integer_operators import DEQUANTIZE, QUANTIZE
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, op, refuse, rest, var
from fusionc.rewrite.pattern import ms
from fusionc.runtime.cpu_kernels import has_cpu_kernel

_INTEGERS = (np.int8, np.uint8, np.int16, np.uint16)
_MAX_SCALE = 2.0**100  # products of such a scale with 16-bit integers are finite
# Operators whose result consists of elements of their first input.
_MOVING_OPERATORS = names_with(Trait.SELECTS) | {"MaxPool"}
_INTEGER_POOL = 12  # the opset that introduced MaxPool of integers
_FLOAT = (None, TensorProto.UNDEFINED, TensorProto.FLOAT)


def _patterns(name: str, operators: Any) -> tuple[Pattern, Pattern]:
    scale = const("scale")
    zero = const("zero")
    dequantized = keep(operators.DequantizeLinear(var("x"), scale, zero, _as="inner"))
    weights = keep(operators.DequantizeLinear(const("x"), scale, zero, _as="inner"))
    moved = keep(
        op["Transpose", *sorted(names_with(Trait.RESHAPES))](weights, rest("options"), _as="move")
    )
    return (
        Pattern(
            f"Requantize{name}",
            operators.QuantizeLinear(dequantized, scale, zero, _as="outer"),
            _drop_pair,
        ),
        Pattern(
            f"RequantizeConstant{name}",
            operators.QuantizeLinear(moved, scale, zero, _as="outer"),
            _move_constant,
        ),
    )


def _drop_pair(m: Match, new: Tape) -> Result:
    _require_same_integers(m)
    if any(m.inner.attr(name) != m.outer.attr(name) for name in ("axis", "block_size")):
        refuse("the axes or the block sizes differ")
    return m.x


def _move_constant(m: Match, new: Tape) -> Result:
    _require_same_integers(m)
    if m.scale.constant().size != 1:
        refuse("the quantization has more than one scale")
    return new.node(m.move.op, [m.x, *m.options], like=m.move)


def _find(graph: Graph) -> Iterator[Match]:
    """A match for each value that is dequantized, moved, and then quantized with the same scale and
    zero point.
    """
    for outer in [node for key in sorted(QUANTIZE) for node in graph.of_operator(key[1], key[0])]:
        moves, inner = _moves_before(outer)
        if not moves or inner is None or inner.operator not in DEQUANTIZE:
            continue
        x, scale, zero = (*inner.inputs, None, None)[:3]
        if x is None or x.is_constant or inner.domain != outer.domain:
            continue
        outer_scale, outer_zero = (*outer.inputs, None, None)[1:3]
        if _is_equal(scale, outer_scale) and _is_equal(zero, outer_zero):
            captures = {
                "x": x,
                "scale": scale,
                "zero": zero,
                "inner": inner,
                "outer": outer,
                "moves": moves,
            }
            yield Match(graph, (*moves, outer), outer.outputs, captures)


def _moves_before(outer: Node) -> tuple[list[Node], Node | None]:
    """The chain of moving operators before a node, in order, and the node before the chain."""
    moves: list[Node] = []
    producer = _producer(outer)
    while producer is not None and producer.is_op(*_MOVING_OPERATORS):
        if producer.graph is not outer.graph or len(producer.outputs) != 1:
            break
        moves.append(producer)
        producer = _producer(producer)
    return moves[::-1], producer


def _producer(node: Node) -> Node | None:
    """The producer of a node's first input."""
    value = node.inputs[0] if node.inputs else None
    return None if value is None else value.producer


def _is_equal(first: Edge | None, second: Edge | None) -> bool:
    """Whether two values are equal constants."""
    arrays = [None if value is None else value.constant() for value in (first, second)]
    if arrays[0] is None or arrays[1] is None:
        return False
    return arrays[0].dtype == arrays[1].dtype and np.array_equal(arrays[0], arrays[1])


def _move_integers(m: Match, new: Tape) -> Result:
    _require_same_integers(m)
    if m.scale.constant().size != 1:
        refuse("the quantization has more than one scale")
    value = m.x
    element = element_type(m.zero.constant().dtype)  # the type of x is unknown in a function
    for move in m.moves:
        if move.op == "MaxPool" and (m.scale.constant() < 0 or m.opset < _INTEGER_POOL):
            refuse("MaxPool of integers needs opset 12 and a positive scale")
        if m.graph.model.is_for_onnxruntime and not has_cpu_kernel(move.op, "", m.opset, element):
            refuse(f"no CPU kernel for {move.op} of such integers")
        value = new.node(move.op, [value, *move.inputs[1:]], like=move)
    return value


def _require_same_integers(m: Match) -> None:
    """Refuse if rounding may change an integer."""
    scale = m.scale.constant()
    zero = m.zero.constant()
    if zero.dtype not in _INTEGERS or scale.dtype != np.float32:
        refuse("the elements are not integers of 8 or 16 bits with a float32 scale")
    if m.inner.attr("output_dtype") not in _FLOAT or m.outer.attr("precision") not in _FLOAT:
        refuse("the numbers in between are less precise than float32")
    if not ((abs(scale) >= np.finfo(np.float32).tiny) & (abs(scale) <= _MAX_SCALE)).all():
        refuse("the scale is too small or too large to round safely")


class RequantizeRemovePass(Pass):
    """A value that is dequantized and then quantized again in the same way stays quantized.

    before   QuantizeLinear(DequantizeLinear(q, s, z), s, z); QuantizeLinear(f(DequantizeLinear(q,
             s, z)), s, z), where f is a chain of MaxPool and operators that move elements: Reshape,
             Transpose, Slice, Gather, Expand, …
    after    q; f(q)
    refuses  elements other than integers of 8 or 16 bits; scales that are not float32, or so small
             or large that products may be subnormal or infinite; different axes or block sizes;
             more than one scale if there is an f; an f for which the target lacks a kernel of
             integers; MaxPool below opset 12, or with a negative scale
    never    a scale or zero point that is not a constant
    algebra  rounding changes (q − z)·s, and its quotient by s, by at most one part in 2²⁴ each: the
             result differs from q − z by less than ½
    source   onnxruntime's DoubleQDQPairsRemover and its folding of constants in quantized form
    """

    patterns = (
        *_patterns("", op),
        *_patterns("Microsoft", ms),
        Pattern(
            "RequantizeMoved",
            rewrite=_move_integers,
            find=_find,
            operators=("QuantizeLinear", "com.microsoft.QuantizeLinear"),
        ),
    )
