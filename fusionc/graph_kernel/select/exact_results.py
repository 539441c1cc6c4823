"""Operators whose kernels might change a later decision, because they round differently."""

from __future__ import annotations

from fusionc.exactness.decisions_ahead import CANCELS, GRID, TINY, decider_of
from fusionc.model.graph import Graph, Node
from fusionc.operators.deciding_operators import APPROXIMATED, VANISHING

_CONTINUOUS = frozenset({"", "Sqrt"})  # no decision, or one whose error the verification judges


def decided_by_last_bit(graph: Graph) -> set[Node]:
    """The operators whose result goes straight into an operator that decides by its last bit.

    A kernel computes functions such as Log and Tanh to within a few units in the last place of
    onnxruntime's results. Quantizations do not count: their steps are coarse.
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
