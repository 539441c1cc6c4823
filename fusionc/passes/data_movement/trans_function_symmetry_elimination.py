from __future__ import annotations

from collections.abc import Collection, Iterator

from fusionc.exactness.decisions_ahead import decider_of
from fusionc.model.graph import Graph, Node
from fusionc.operators.deciding_operators import ARITHMETIC
from fusionc.passes.data_movement._sunk_transposes import (
    between_transposes,
    is_same,
    joined_transposes,
    sink,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse


def _joined_transposes(graph: Graph) -> Iterator[Match]:
    return joined_transposes(graph, _has_functions)


def _has_functions(nodes: Collection[Node]) -> bool:
    return not all(map(is_same, nodes))


def _sink(m: Match, new: Tape) -> Result:
    for node in m.sunk.nodes:
        decider = decider_of(node.outputs[0]) if node.op in ARITHMETIC and not is_same(node) else ""
        if decider:
            refuse(f"the result of the later {decider} depends on the last bit")
    return sink(m, new)


class TransFunctionSymmetryEliminationPass(Pass):
    """Transposes around functions such as Log or Tanh become one Transpose or disappear.

    before   Transpose(f(Transpose(a), …)), f(Transpose(a), Transpose(b), …) with equal
             permutations, where f consists of elementwise operators with at least one function:
             Exp, Log, Tanh, Sigmoid, Pow, Max …
    after    f(a, …), Transpose(f(a, b, …))
    refuses  a Pow, if a later operator such as Floor depends on the last bit of its result
    never    a rewrite that would not reduce the number of Transposes; constants of a higher rank,
             or large constants that are used elsewhere; f without such a function, which
             TransOpSymmetryEliminationPass handles
    algebra  elementwise results do not depend on the positions of the elements, except for the last
             bit of a function: onnxruntime computes the elements that do not fill a vector in
             another way
    source   CANN's TransOpSymmetryEliminationPass
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "TransposeFunctionTranspose",
            rewrite=_sink,
            find=between_transposes(_has_functions),
            operators=("Transpose",),
        ),
        Pattern(
            "FunctionOfTransposes", rewrite=_sink, find=_joined_transposes, operators=("Transpose",)
        ),
    )
