"""Operators whose kernels might change a later decision, because they round differently."""

from __future__ import annotations

from fusionc.exactness.decisions_ahead import CANCELS, GRID, TINY, decider_of
from fusionc.model.graph import Graph, Node
from fusionc.operators.deciding_operators import APPROXIMATED, VANISHING

# "": no later operator decides. Sqrt: the verification takes its error into account.
_CONTINUOUS = frozenset({"", "Sqrt"})


def decided_by_last_bit(graph: Graph) -> set[Node]:
    """The operators whose result goes directly to an operator that decides by the last bit of it.

    A kernel computes functions such as Log and Tanh with a difference of a few units in the last
    place from onnxruntime's results. Quantizations do not count as deciding, because their steps
    are coarse.
    """
    return {
        node
        for operator in APPROXIMATED
        for node in graph.by_operator.get(operator, ())
        if _is_decided_by(node)
    }


def _is_decided_by(node: Node) -> bool:
    kinds = (GRID, CANCELS, TINY) if node.operator in VANISHING else (GRID, CANCELS)
    outputs = [output for output in node.outputs if output is not None]
    deciders = {decider_of(output, kind) for output in outputs for kind in kinds}
    return not deciders <= _CONTINUOUS
