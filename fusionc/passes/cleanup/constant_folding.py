from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fusionc.model.graph import Constant, Edge, Graph, Model, Node, Value
from fusionc.operators.deciding_operators import is_real
from fusionc.operators.facts import Trait, names_with
from fusionc.operators.narrow_types import NARROW
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape, find_each, refuse
from fusionc.runtime.evaluate import evaluate, needed_inputs, obstacle_to_evaluation
from fusionc.shapes.expressions import is_static

_MAX_BYTES = 512 << 20  # bytes of an intermediate or final result
_MAX_WORK = 4_000_000_000  # multiplications of one node, which take a few seconds
_MAX_TOTAL_WORK = 5 * _MAX_WORK  # multiplications of all nodes
_ELLIPSIS_LABELS = frozenset(map(str, range(1, 64)))  # labels for the axes of an ellipsis in Einsum

BUDGET = 1 << 20  # bytes by which all folding together may enlarge a model
_BATCH = 256 << 20  # known bytes that are read and computed in one batch
# for each model, the multiplications of the nodes that have been folded
_work_done: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
# nodes that crashed onnxruntime or exceeded its limits, and the reason
_failed_nodes: WeakKeyDictionary[Node, str] = WeakKeyDictionary()
_MAX_UNPACKED_BYTES = 256  # bytes by which a folded Cast of narrow numbers may enlarge the model
_TOO_LARGE = "the model would grow by more than 1 MiB"


def _foldable(graph: Graph, rejected: dict[Node, str], others: dict[Node, str]) -> dict[Node, int]:
    """The nodes that depend only on constants, producers first, with the multiplications of each.

    Nodes that would take too much memory or time are added to `rejected`, and nodes that are not
    computed from constants alone to `others`.
    """
    foldable: dict[Node, int] = {}
    spent = _work_done.get(graph.model, 0)
    for node in graph.ordered():
        if node in rejected or not node.outputs:
            continue
        if obstacle := obstacle_to_evaluation(node):
            others[node] = obstacle
        elif all(
            value is None or value.is_constant or value.producer in foldable
            for value in needed_inputs(node)
        ):
            reason, work = _rejection_and_work(node, spent)
            if reason is None:
                foldable[node] = work
                spent += work
            else:
                rejected[node] = reason
        else:
            others[node] = "not all of its inputs are constants"
    return foldable


def _is_needed(node: Node, foldable: Mapping[Node, int]) -> bool:
    """Whether a foldable node is a graph output, or a node that cannot be folded uses it."""
    used = [o for o in node.outputs if o is not None]
    return any(o.is_output or any(u not in foldable for u in o.outputs) for o in used)


def _frontier(foldable: dict[Node, int], rejected: dict[Node, str], budget: int) -> list[Node]:
    """The foldable nodes whose results the rest of the model needs.

    A node whose result is known to be too large is rejected; the producers of its inputs then join
    the frontier.
    """
    pending = [node for node in foldable if _is_needed(node, foldable)]
    frontier: dict[Node, None] = {}
    while pending:
        node = pending.pop()
        if node not in foldable:
            continue
        size = sum(map(_known_bytes, node.outputs))
        if size <= budget or size - _freed_bytes([node]) <= budget:
            frontier[node] = None
            continue
        rejected[node] = _TOO_LARGE
        del foldable[node]
        pending.extend(v.producer for v in node.inputs if v is not None and v.producer is not None)
    return [node for node in foldable if node in frontier]


def _batches(nodes: list[Node]) -> Iterator[list[Node]]:
    batch: list[Node] = []
    size = 0
    for node in nodes:
        batch.append(node)
        size += sum(map(_known_bytes, (*node.inputs, *node.outputs)))
        if size > _BATCH:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def _affordable(
    results: dict[Node, dict[Value, np.ndarray[Any, Any]]], budget: int
) -> tuple[dict[Node, None], int]:
    """The nodes whose results fit into the budget, smallest growth first, and the bytes that these
    results add to the model.
    """
    stored = sum(_stored_bytes(arrays.values()) for arrays in results.values())
    total = stored - _freed_bytes(results)
    if total <= budget:
        return dict.fromkeys(results), max(total, 0)
    growths = {
        node: _stored_bytes(arrays.values()) - _freed_bytes([node])
        for node, arrays in results.items()
    }
    chosen: dict[Node, None] = {}
    spent = 0
    for node, growth in sorted(growths.items(), key=lambda item: item[1]):
        if growth <= 0 or spent + growth <= budget:
            chosen[node] = None
            spent += max(growth, 0)
    return chosen, spent


def _find(graph: Graph) -> Iterator[Match | Miss]:
    """A match for each last node of the constant part of the graph. If such a node cannot be
    folded, its producers are tried instead.
    """
    rejected = (
        {node: _failed_nodes[node] for node in graph.nodes if node in _failed_nodes}
        if _failed_nodes
        else {}
    )
    others: dict[Node, str] = {}
    while True:
        foldable = _foldable(graph, rejected, others)
        frontier = _frontier(foldable, rejected, BUDGET - graph.model.folding_growth)
        new_rejected: dict[Node, str] = {}
        _work_done[graph.model] = _work_done.get(graph.model, 0) + sum(foldable.values())
        for batch in _batches(frontier):
            yield from _folded(graph, batch, foldable, new_rejected)
        if not new_rejected:
            break
        rejected.update(new_rejected)
    for node, reason in rejected.items():
        yield Match(graph, (node,), node.outputs, {"reason": reason})
    for node, reason in others.items():
        if node.is_in_graph and not node.is_op("Constant"):
            yield Miss(node, reason)


def _folded(
    graph: Graph, batch: list[Node], foldable: dict[Node, int], rejected: dict[Node, str]
) -> Iterator[Match]:
    """Compute the nodes of a batch. Nodes that fail or whose results are too large are added to
    `rejected`.
    """
    results = evaluate(batch, list(foldable))
    chosen, growth = _affordable(results.arrays, BUDGET - graph.model.folding_growth)
    graph.model.folding_growth += growth
    rejected.update({node: _TOO_LARGE for node in results.arrays if node not in chosen})
    rejected.update(results.reasons)
    _failed_nodes.update({node: results.reasons[node] for node in results.costly})
    for node in chosen:
        arrays = results.arrays[node]
        captures = {"arrays": list(arrays.values()), "reason": ""}
        yield Match(graph, (node,), list(arrays), captures)


def _constant_node(node: Node) -> Match:
    if node.graph.in_function:
        refuse("functions have no initializers")
    if node.graph.model.ir_version < 4:
        refuse("before IR version 4, initializers are also inputs of the graph")
    (value,) = node.outputs
    if value is None or not value.is_constant:
        refuse("it is not a dense tensor")
    captures = {"arrays": [value.constant()], "reason": ""}
    return Match(node.graph, (node,), (value,), captures)


def _rejection_and_work(node: Node, spent: int) -> tuple[str | None, int]:
    """Why a node that depends only on constants is not computed (None if it is), and the number of
    multiplications that it takes.

    A node is not computed if its known shapes mean that it would take too much memory or time.
    `spent` is the number of multiplications of other nodes.
    """
    if _is_weight_cast(node):
        return "onnxruntime unpacks these narrow numbers when it loads the model", 0
    output_bytes = sum(map(_known_bytes, node.outputs))
    input_bytes = sum(map(_known_bytes, node.inputs))
    work, largest = _einsum(node) if node.op == "Einsum" else (_multiplications(node), 0)
    if max(output_bytes, largest) > max(_MAX_BYTES, input_bytes):
        return f"it would take more than {_MAX_BYTES >> 20} MiB to compute", 0
    if work > _MAX_WORK or (work and spent + work > _MAX_TOTAL_WORK):
        return (
            f"it would take more than {_MAX_WORK // 10**9} billion multiplications to compute, or "
            "all folded nodes together would take too many",
            0,
        )
    return None, work


def _is_weight_cast(node: Node) -> bool:
    """Whether a node casts weights of a narrow type to floating-point numbers.

    onnxruntime folds such a Cast when it loads the model. Folding it here would only enlarge the
    model.
    """
    packed, result = (node.inputs[0], node.outputs[0]) if node.op == "Cast" else (None, None)
    if packed is None or result is None:
        return False
    if packed.elem_type not in NARROW or not is_real(result.elem_type):
        return False
    return _known_bytes(result) - _known_bytes(packed) > _MAX_UNPACKED_BYTES


def _multiplications(node: Node) -> int:
    """A rough count of multiplications; 0 if it is unknown, or about one for each element."""
    rule = _MULTIPLICATIONS.get(node.op)
    return 0 if rule is None else rule(node)


def _product_work(node: Node) -> int:
    """The multiplications of a matrix product: for each element of the result, the length of the
    inner axis.
    """
    x = _known_shape(node.inputs[0])
    return _elements(node.outputs[0]) * x[-1] if x else 0


def _gemm_work(node: Node) -> int:
    x = _known_shape(node.inputs[0])
    y = _known_shape(node.outputs[0])
    return math.prod(y) * (math.prod(x) // max(1, y[0])) if x and y else 0


def _convolution_work(node: Node, weights: int = 1) -> int:
    """The multiplications of a convolution: for each element of the result, the size of a
    filter.
    """
    kernel = _known_shape(node.inputs[weights]) if weights < len(node.inputs) else None
    image = node.inputs[0] if node.op == "ConvTranspose" else node.outputs[0]
    return _elements(image) * math.prod(kernel[1:]) if kernel else 0


def _pool_work(node: Node) -> int:
    return _elements(node.outputs[0]) * math.prod(map(int, node.attrs.get("kernel_shape", ())))


_MULTIPLICATIONS: dict[str, Callable[[Node], int]] = {
    **dict.fromkeys(names_with(Trait.MATRIX_PRODUCT), _product_work),
    "Gemm": _gemm_work,  # a Gemm may transpose its operands
    **dict.fromkeys(names_with(Trait.CONVOLUTION), _convolution_work),
    "QLinearConv": partial(_convolution_work, weights=3),
    **dict.fromkeys(names_with(Trait.WINDOW_POOL), _pool_work),
}


def _einsum(node: Node) -> tuple[int, int]:
    """The multiplications of an Einsum whose operands are multiplied one after another, and the
    bytes of its largest intermediate product.
    """
    left, arrow, result = node.attr("equation").replace(" ", "").partition("->")
    dtype = None if node.inputs[0] is None else node.inputs[0].dtype
    if dtype is None or not arrow:
        return 0, 0
    terms: list[dict[str, int]] = []
    for written, value in zip(left.split(","), node.inputs, strict=False):
        term = _labels(written, _known_shape(value))
        if term is None:
            return 0, 0
        terms.append(term)
    sizes = {label: size for term in terms for label, size in term.items()}
    work = largest = 0
    product = set(terms[0])
    for number, term in enumerate(terms[1:], start=2):
        product |= term.keys()
        work += math.prod(sizes[label] for label in product)
        # All axes that no later term and no result has are summed up.
        product &= set(chain(result, _ELLIPSIS_LABELS, *terms[number:]))
        largest = max(largest, math.prod(sizes[label] for label in product))
    return work, largest * dtype.itemsize


def _labels(term: str, shape: tuple[int, ...] | None) -> dict[str, int] | None:
    """The size of each label of an operand. The axes of an ellipsis are numbered from the right."""
    if shape is None:
        return None
    before, dots, after = term.partition("...")
    more = len(shape) - len(before) - len(after)
    names = [*before, *(str(axis_from_end) for axis_from_end in range(more, 0, -1)), *after]
    return dict(zip(names, shape, strict=True)) if more >= 0 and (dots or not more) else None


def _known_shape(value: Edge | None) -> tuple[int, ...] | None:
    shape = None if value is None else value.shape
    known = [d for d in shape or () if isinstance(d, int)]
    return tuple(known) if shape is not None and len(known) == len(shape) else None


def _elements(value: Edge | None) -> int:
    """The number of elements of a value; 0 if unknown."""
    shape = _known_shape(value)
    return 0 if shape is None else math.prod(shape)


def _known_bytes(value: Edge | None) -> int:
    """The bytes of a value; 0 if its shape or type is unknown."""
    shape, dtype = (None, None) if value is None else (value.shape, value.dtype)
    if dtype is None or not is_static(shape):
        return 0
    return math.prod(shape) * dtype.itemsize


def _freed_bytes(nodes: Iterable[Node]) -> int:
    """The bytes of the constants that become unused when these nodes are folded."""
    freed = 0
    pending = list(nodes)
    users: dict[Edge, int] = {}  # number of remaining users of each value
    while pending:
        for value in dict.fromkeys(pending.pop().inputs):
            if value is None or value.is_output:
                continue
            users[value] = users.get(value, value.use_count) - 1
            if users[value] > 0:
                continue
            freed += _constant_bytes(value)
            if value.producer is not None and _is_unused(value.producer, users):
                pending.append(value.producer)
    return freed


def _is_unused(node: Node, users: Mapping[Edge, int]) -> bool:
    return all(o is None or users.get(o, o.use_count) == 0 for o in node.outputs)


def _constant_bytes(value: Edge) -> int:
    """The bytes of a constant in the model file; 0 for other values."""
    if isinstance(value, Constant):
        return value.nbytes
    array = value.constant()
    return 0 if array is None else _stored_bytes([array])


def _stored_bytes(arrays: Iterable[np.ndarray[Any, Any]]) -> int:
    """The bytes of the elements in the model file."""
    total = 0
    for array in arrays:
        is_text = array.dtype.kind == "O"
        total += (
            sum(len(s.encode() if isinstance(s, str) else s) for s in array.flat)
            if is_text
            else array.nbytes
        )
    return total


class ConstantFoldingPass(Pass):
    """Nodes that depend only on constants are computed now; Constant nodes become initializers.

    before   a node whose inputs are all constants
    after    its result as a constant, computed by onnxruntime with its optimizers off
    refuses  nodes that onnxruntime cannot compute within 10 seconds of processor time and 2 GiB;
             nodes that need more than 512 MiB or 4 billion multiplications (20 billion in total) by
             their shapes; results that would enlarge the model by more than 1 MiB in total, after
             the constants that are no longer needed have been removed (nodes whose folding shrinks
             the model are always folded); Casts of weights of at most 8 bits, or of bfloat16, to
             larger types, because onnxruntime folds these when it loads the model
    never    random, stateful and custom operators; operators with subgraphs; QuantizeLinear and
             DequantizeLinear, whose pairs define the quantization of the model; element types that
             numpy lacks
    algebra  a function of constants is a constant
    source   CANN's ConstantFoldingPass
    """

    patterns = (
        Pattern("ConstantFolding", find=_find),
        Pattern(
            "ConstantNode", find=find_each(_constant_node, "Constant"), operators=("Constant",)
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.reason:
            refuse(m.reason)
        return [new.const(array) for array in m.arrays]
