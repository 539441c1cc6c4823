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
_LARGEST = 2.0**100  # of a scale: its products with integers of 16 bits are finite
# What hands elements of its first input on, or the largest of some.
_MOVES = names_with(Trait.SELECTS) | {"MaxPool"}
_INTEGER_POOL = 12  # the opset since which MaxPool takes integers
_FLOAT = (None, TensorProto.UNDEFINED, TensorProto.FLOAT)


def _patterns(name: str, operators: Any) -> tuple[Pattern, Pattern]:
    scale = const("scale")
    zero = const("zero")
    same = keep(operators.DequantizeLinear(var("x"), scale, zero, _as="inner"))
    weights = keep(operators.DequantizeLinear(const("x"), scale, zero, _as="inner"))
    moved = keep(
        op["Transpose", *sorted(names_with(Trait.RESHAPES))](weights, rest("options"), _as="move")
    )
    return (
        Pattern(
            f"Requantize{name}", operators.QuantizeLinear(same, scale, zero, _as="outer"), _same
        ),
        Pattern(
            f"RequantizeConstant{name}",
            operators.QuantizeLinear(moved, scale, zero, _as="outer"),
            _moved,
        ),
    )


def _same(m: Match, new: Tape) -> Result:
    _check(m)
    if m.inner.attr("axis") != m.outer.attr("axis") or m.inner.attr("block_size") != m.outer.attr(
        "block_size"
    ):
        refuse("the axis or the block is another one")
    return m.x


def _moved(m: Match, new: Tape) -> Result:
    _check(m)
    if m.scale.constant().size != 1:
        refuse("more than one scale")
    return new.node(m.move.op, [m.x, *m.options], like=m.move)


def _find(graph: Graph) -> Iterator[Match]:
    """Values that are dequantized, moved, and quantized in the same way."""
    for outer in [node for key in sorted(QUANTIZE) for node in graph.of_operator(key[1], key[0])]:
        moves, inner = _way_back(outer)
        if (
            not moves
            or inner is None
            or inner.operator not in DEQUANTIZE
            or inner.domain != outer.domain
        ):
            continue
        x, scale, zero = (*inner.inputs, None, None)[:3]
        others = (*outer.inputs, None, None)[1:3]
        if (
            x is not None
            and not x.is_constant
            and _is_equal(scale, others[0])
            and _is_equal(zero, others[1])
        ):
            captures = {
                "x": x,
                "scale": scale,
                "zero": zero,
                "inner": inner,
                "outer": outer,
                "moves": moves,
            }
            yield Match(graph, (*moves, outer), outer.outputs, captures)


def _way_back(outer: Node) -> tuple[list[Node], Node | None]:
    """The nodes in front of one that only move elements, in their order, and what makes the value
    that they move.
    """
    moves: list[Node] = []
    maker = _maker(outer)
    while (
        maker is not None
        and maker.is_op(*_MOVES)
        and maker.graph is outer.graph
        and len(maker.outputs) == 1
    ):
        moves.append(maker)
        maker = _maker(maker)
    return moves[::-1], maker


def _maker(node: Node) -> Node | None:
    value = node.inputs[0] if node.inputs else None
    return None if value is None else value.producer


def _is_equal(one: Edge | None, other: Edge | None) -> bool:
    """Whether two constants are the same."""
    arrays = [None if value is None else value.constant() for value in (one, other)]
    if arrays[0] is None or arrays[1] is None:
        return False
    return arrays[0].dtype == arrays[1].dtype and np.array_equal(arrays[0], arrays[1])


def _moved_as_integers(m: Match, new: Tape) -> Result:
    _check(m)
    if m.scale.constant().size != 1:
        refuse("more than one scale")
    value = m.x
    element = element_type(m.zero.constant().dtype)  # in the body of a function others are unknown
    for move in m.moves:
        if move.op == "MaxPool" and (m.scale.constant() < 0 or m.opset < _INTEGER_POOL):
            refuse(
                "MaxPool takes integers from opset 12 on, and the largest only of a positive scale"
            )
        if m.graph.model.is_for_onnxruntime and not has_cpu_kernel(move.op, "", m.opset, element):
            refuse(f"no CPU kernel for {move.op} of such integers")
        value = new.node(move.op, [value, *move.inputs[1:]], like=move)
    return value


def _check(m: Match) -> None:
    """Refuses where an integer may be another one afterwards."""
    scale = m.scale.constant()
    zero = m.zero.constant()
    if zero.dtype not in _INTEGERS or scale.dtype != np.float32:
        refuse("not integers of 8 or 16 bits with a float32 scale")
    if m.inner.attr("output_dtype") not in _FLOAT or m.outer.attr("precision") not in _FLOAT:
        refuse("less precise numbers in between")
    if not ((abs(scale) >= np.finfo(np.float32).tiny) & (abs(scale) <= _LARGEST)).all():
        refuse("the scale is not in the middle of the range of its type")


class RequantizeRemovePass(Pass):
    """What is dequantized and quantized again in the same way stays quantized.

    before   QuantizeLinear(DequantizeLinear(q, s, z), s, z); QuantizeLinear(f(DequantizeLinear(q,
             s, z)), s, z), f being MaxPool or what moves elements: Reshape, Transpose, Slice,
             Gather, Expand, … one after another
    after    q; f(q)
    refuses  other elements than integers of 8 or 16 bits, and scales other than float32, or so
             small or large that products may be subnormal or infinite; another axis or block; more
             than one scale where elements move; an f that the target has no kernel for; MaxPool
             below opset 12, or of a negative scale
    never    a scale or zero point that is no constant
    algebra  (q − z)·s is rounded by one part in 2²⁴ at most, and so is its quotient by s: less than
             ½ from q − z
    source   onnxruntime's DoubleQDQPairsRemover and its folding of constants in quantized form
    """

    patterns = (
        *_patterns("", op),
        *_patterns("Microsoft", ms),
        Pattern(
            "RequantizeMoved",
            rewrite=_moved_as_integers,
            find=_find,
            operators=("QuantizeLinear", "com.microsoft.QuantizeLinear"),
        ),
    )
