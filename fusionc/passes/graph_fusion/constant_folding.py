import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fusionc.model.evaluate import can_evaluate, evaluate, needed_inputs
from fusionc.model.graph import Constant, Edge, Graph, Node, Value
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse

BUDGET = 1 << 20  # bytes by which folding may make a model larger, in all
_NEVER_COMPUTED = 64 << 20  # bytes; a result that is known to be larger than its inputs by that is not even tried
_GROWS = "the model would grow by more than 1 MiB"
_FAILS = "onnxruntime cannot compute it"


def _foldable(graph: Graph, rejected: dict[Node, str]) -> dict[Node, None]:
    """The nodes whose inputs are all known before the model runs, producers first."""
    found: dict[Node, None] = {}
    for node in graph.ordered():
        if node in rejected or not can_evaluate(node):
            continue
        if all(value is None or value.is_constant or value.producer in found for value in needed_inputs(node)):
            if _expected_growth(node) > _NEVER_COMPUTED:
                rejected[node] = _GROWS
            else:
                found[node] = None
    return found


def _expected_growth(node: Node) -> int:
    """Bytes of the results beyond those of the inputs, as far as shapes are known before anything is computed."""
    return sum(map(_known_bytes, node.outputs)) - sum(map(_known_bytes, node.inputs))


def _known_bytes(value: Edge | None) -> int:
    shape, dtype = (None, None) if value is None else (value.shape, value.dtype)
    if shape is None or dtype is None or not all(isinstance(d, int) for d in shape):
        return 0
    return math.prod(d for d in shape if isinstance(d, int)) * dtype.itemsize


def _frontier(foldable: dict[Node, None]) -> list[Node]:
    """The foldable nodes that something else needs."""
    return [
        node
        for node in foldable
        if any(o is not None and (o.is_output or any(u not in foldable for u in o.outputs)) for o in node.outputs)
    ]


def _freed_bytes(nodes: Iterable[Node]) -> int:
    """Bytes of the constants that nobody needs once these nodes are constants themselves."""
    freed, pending = 0, list(nodes)
    missing: dict[Edge, int] = {}  # users of a value that are not known to go
    while pending:
        for value in dict.fromkeys(pending.pop().inputs):
            if value is None or value.is_output:
                continue
            missing[value] = missing.get(value, value.use_count) - 1
            if missing[value] > 0:
                continue
            if isinstance(value, Constant):
                freed += value.nbytes
            elif (array := value.constant()) is not None:
                freed += _bytes([array])
            elif value.producer is not None and all(
                o is None or o is value or missing.get(o, o.use_count) == 0 for o in value.producer.outputs
            ):
                pending.append(value.producer)
    return freed


def _bytes(arrays: Iterable[np.ndarray[Any, Any]]) -> int:
    """Bytes of the elements as a model stores them."""
    total = 0
    for array in arrays:
        is_text = array.dtype.kind == "O"
        total += sum(len(s.encode() if isinstance(s, str) else s) for s in array.flat) if is_text else array.nbytes
    return total


def _affordable(results: dict[Node, dict[Value, np.ndarray[Any, Any]]], left: int) -> tuple[dict[Node, None], int]:
    """Which of the results the budget allows, all if it can be, else the small ones first; and what they cost."""
    total = sum(_bytes(arrays.values()) for arrays in results.values()) - _freed_bytes(results)
    if total <= left:
        return dict.fromkeys(results), max(total, 0)
    growths = {node: _bytes(arrays.values()) - _freed_bytes([node]) for node, arrays in results.items()}
    chosen: dict[Node, None] = {}
    spent = 0
    for node, growth in sorted(growths.items(), key=lambda item: item[1]):
        if growth <= 0 or spent + growth <= left:
            chosen[node] = None
            spent += max(growth, 0)
    return chosen, spent


def _find(graph: Graph) -> Iterator[Match]:
    """Fold what is left at the border of the constant part; what may not be folded moves the border."""
    rejected: dict[Node, str] = {}
    while True:
        foldable = _foldable(graph, rejected)
        results = evaluate(_frontier(foldable), list(foldable))
        chosen, spent = _affordable(results, BUDGET - graph.model.folding_growth)
        graph.model.folding_growth += spent
        new = {node: _GROWS if node in results else _FAILS for node in _frontier(foldable) if node not in chosen}
        for node in chosen:
            arrays = results[node]
            yield Match(graph, (node,), list(arrays), {"arrays": list(arrays.values()), "reason": ""})
        if not new:
            break
        rejected.update(new)
    for node, reason in rejected.items():
        yield Match(graph, (node,), [o for o in node.outputs if o is not None], {"reason": reason})


def _constant_nodes(graph: Graph) -> Iterator[Match]:
    if graph.in_function or graph.model.ir_version < 4:  # no initializers there, or only as graph inputs
        return
    for node in graph.of_operator("Constant"):
        (value,) = node.outputs
        if value is not None and value.is_constant:
            yield Match(graph, (node,), (value,), {"arrays": [value.constant()], "reason": ""})


class ConstantFoldingPass(Pass):
    """What depends on constants alone is computed now; Constant nodes become initializers.

    before   a node whose inputs are all constants
    after    its result as a constant, computed by onnxruntime with its optimizers off
    refuses  what onnxruntime cannot compute; results that would make the model larger by more than 1 MiB in all,
             compared with the constants that are not needed any more (a fold that shrinks the model is always done)
    never    random, stateful and custom operators, operators with subgraphs, QuantizeLinear and DequantizeLinear
             (their pairs say how the model is quantized), elements that numpy has not
    algebra  a function of constants is a constant
    source   CANN's ConstantFoldingPass
    """

    patterns = (Pattern("ConstantFolding", find=_find), Pattern("ConstantNode", find=_constant_nodes))

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.reason:
            refuse(m.reason)
        return [new.const(array) for array in m.arrays]
