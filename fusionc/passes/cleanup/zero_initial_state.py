from collections.abc import Iterator
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import MICROSOFT, qualified
from fusionc.model.tensors import to_array
from fusionc.operators.facts import Trait, names_with
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape

_STATE_INPUTS = {  # the positions of the inputs that default to zeros
    **dict.fromkeys((("", "GRU"), ("", "RNN")), (5,)),
    **dict.fromkeys((("", "LSTM"), (MICROSOFT, "DynamicQuantizeLSTM")), (5, 6)),
}
_NAMES = tuple(sorted(qualified(op, domain) for domain, op in _STATE_INPUTS))
# Operators whose result is zero everywhere if their first input is.
_MOVING = names_with(Trait.SELECTS, Trait.CASTS)
_MAX_DEPTH = 32  # how many nodes of a chain are followed back


def _is_known_zero(value: Edge, depth: int = _MAX_DEPTH) -> bool:
    """Whether all elements of a value are known to be +0."""
    node = value.producer
    array = value.constant()
    if array is not None:
        return _are_zeros(array)
    if node is None or node.domain != "" or node.has_references or depth == 0:
        return False
    if node.op == "ConstantOfShape":
        return _fills_with_zeros(node)
    operands = node.inputs if node.op == "Concat" else node.inputs[:1] if node.op in _MOVING else ()
    return bool(operands) and all(
        operand is not None and _is_known_zero(operand, depth - 1) for operand in operands
    )


def _fills_with_zeros(node: Node) -> bool:
    value = node.attr("value")
    return value is None or _are_zeros(to_array(value, node.graph.model.folder))


def _are_zeros(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind in "fiu" and not array.any() and not np.signbit(array).any()


def _find(graph: Graph) -> Iterator[Match | Miss]:
    for (domain, op), positions in _STATE_INPUTS.items():
        for node in graph.of_operator(op, domain):
            states = dict(enumerate(node.inputs))
            present = {at: states[at] for at in positions if states.get(at) is not None}
            zeros = [at for at, value in present.items() if value and _is_known_zero(value)]
            if zeros:
                yield Match(graph, (node,), node.outputs, {"node": node, "zeros": zeros})
            elif present:
                yield Miss(node, "no initial state is known to be zero everywhere")
            else:
                yield Miss(node, "it has no initial state")


class ZeroInitialStatePass(Pass):
    """An initial state of zeros is omitted.

    before   LSTM, GRU or RNN with an initial state of zeros: a constant, or the result of
             ConstantOfShape, Expand of 0, and operators that move, cast or join zeros
    after    the same operator without the state, which is zeros by default
    refuses  only what every pass refuses
    never    states of −0
    algebra  the definition of these operators, bit by bit
    source   onnxsim omits such states; torch's exporter computes them from the sizes of the input
    """

    patterns = (Pattern("ZeroInitialState", find=_find, operators=_NAMES),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        inputs = [
            None if position in m.zeros else value for position, value in enumerate(m.node.inputs)
        ]
        wanted = [value is not None for value in m.node.outputs]
        outputs = new.node(m.node.op, inputs, domain=m.node.domain, like=m.node, outputs=wanted)
        return [value for value in outputs if value is not None]
