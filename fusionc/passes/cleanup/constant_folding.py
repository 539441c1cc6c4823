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
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse
from fusionc.runtime.evaluate import can_evaluate, evaluate, needed_inputs
from fusionc.shapes.expressions import is_static

_MOST_BYTES = 512 << 20  # of an intermediate or final result
_MOST_WORK = 4_000_000_000  # multiplications of one node, a few seconds
_MOST_TOGETHER = 5 * _MOST_WORK  # multiplications of all nodes
_DOTS = frozenset(map(str, range(1, 64)))  # labels of the axes of an ellipsis

BUDGET = 1 << 20  # bytes by which folding may make a model larger, in all
_BATCH = 256 << 20  # known bytes that are read and computed together
# multiplications that folding has taken
_spent: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
# nodes that crashed or blocked onnxruntime, and the reason
_costly: WeakKeyDictionary[Node, str] = WeakKeyDictionary()
_FEW_BYTES = 256  # of narrow numbers that may be unpacked anyway, such as scalars of formulas
_GROWS = "the model would grow by more than 1 MiB"


def _foldable(graph: Graph, rejected: dict[Node, str]) -> dict[Node, int]:
    """The nodes with only known inputs, producers first, and the multiplications of each.

    Nodes that would take too much memory or time are added to `rejected`.
    """
    foldable: dict[Node, int] = {}
    spent = _spent.get(graph.model, 0)
    for node in graph.ordered():
        if node in rejected or not node.outputs or not can_evaluate(node):
            continue
        if all(
            value is None or value.is_constant or value.producer in foldable
            for value in needed_inputs(node)
        ):
            reason, work = _why_not_computed(node, spent)
            if reason is None:
                foldable[node] = work
                spent += work
            else:
                rejected[node] = reason
    return foldable


def _is_needed(node: Node, foldable: Mapping[Node, int]) -> bool:
    """Whether a graph output or a node that cannot be folded needs a foldable node."""
    used = [o for o in node.outputs if o is not None]
    return any(o.is_output or any(u not in foldable for u in o.outputs) for o in used)


def _frontier(foldable: dict[Node, int], rejected: dict[Node, str], budget: int) -> list[Node]:
    """The foldable nodes that are needed elsewhere.

    Those that are known to be too large are rejected, and their inputs are needed instead.
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
        rejected[node] = _GROWS
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
    """The results that fit into the budget, smallest first, and the bytes by which they grow the
    model.
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


def _find(graph: Graph) -> Iterator[Match]:
    """Fold the last nodes of the constant part; if one cannot be folded, those before it."""
    rejected = {node: _costly[node] for node in graph.nodes if node in _costly} if _costly else {}
    while True:
        foldable = _foldable(graph, rejected)
        frontier = _frontier(foldable, rejected, BUDGET - graph.model.folding_growth)
        new: dict[Node, str] = {}
        _spent[graph.model] = _spent.get(graph.model, 0) + sum(foldable.values())
        for batch in _batches(frontier):
            results = evaluate(batch, list(foldable))
            chosen, growth = _affordable(results.arrays, BUDGET - graph.model.folding_growth)
            graph.model.folding_growth += growth
            new.update({node: _GROWS for node in results.arrays if node not in chosen})
            new.update(results.reasons)
            _costly.update({node: results.reasons[node] for node in results.costly})
            for node in chosen:
                arrays = results.arrays[node]
                captures = {"arrays": list(arrays.values()), "reason": ""}
                yield Match(graph, (node,), list(arrays), captures)
        if not new:
            break
        rejected.update(new)
    for node, reason in rejected.items():
        yield Match(graph, (node,), node.outputs, {"reason": reason})


def _constant_nodes(graph: Graph) -> Iterator[Match]:
    # a function has no initializers, and before IR 4 they are graph inputs as well
    if graph.in_function or graph.model.ir_version < 4:
        return
    for node in graph.of_operator("Constant"):
        (value,) = node.outputs
        if value is not None and value.is_constant:
            yield Match(graph, (node,), (value,), {"arrays": [value.constant()], "reason": ""})


def _why_not_computed(node: Node, spent: int) -> tuple[str | None, int]:
    """A reason not to compute a node with known inputs, and the multiplications it would take.

    A node is not computed if its shapes say that it would take too much memory or time. `spent`
    counts the multiplications of other nodes.
    """
    if _unpacks(node):
        return "the numbers are stored in fewer bits, and unpacked when the model is loaded", 0
    output_bytes = sum(map(_known_bytes, node.outputs))
    input_bytes = sum(map(_known_bytes, node.inputs))
    work, largest = _einsum(node) if node.op == "Einsum" else (_multiplications(node), 0)
    if max(output_bytes, largest) > max(_MOST_BYTES, input_bytes):
        return f"it would take more than {_MOST_BYTES >> 20} MiB to compute", 0
    if work > _MOST_WORK or (work and spent + work > _MOST_TOGETHER):
        return (
            f"it would take more than {_MOST_WORK // 10**9} billion multiplications to compute",
            0,
        )
    return None, work


def _unpacks(node: Node) -> bool:
    """Whether a node casts narrow weights to floating-point numbers.

    onnxruntime does so when it loads the model, so folding would only make the model larger.
    """
    packed, result = (node.inputs[0], node.outputs[0]) if node.op == "Cast" else (None, None)
    if packed is None or result is None:
        return False
    if packed.elem_type not in NARROW or not is_real(result.elem_type):
        return False
    return _known_bytes(result) - _known_bytes(packed) > _FEW_BYTES


def _multiplications(node: Node) -> int:
    """A rough count of multiplications; 0 if unknown, or if the operator takes about one each."""
    rule = _MULTIPLICATIONS.get(node.op)
    return 0 if rule is None else rule(node)


def _product_work(node: Node) -> int:
    """Those of a matrix product: the depth for each element of the result."""
    x = _known_shape(node.inputs[0])
    return _elements(node.outputs[0]) * x[-1] if x else 0


def _gemm_work(node: Node) -> int:
    x = _known_shape(node.inputs[0])
    y = _known_shape(node.outputs[0])
    return math.prod(y) * (math.prod(x) // max(1, y[0])) if x and y else 0


def _convolution_work(node: Node, weights: int = 1) -> int:
    """Those of a convolution: the size of a filter for each element of the result."""
    kernel = _known_shape(node.inputs[weights]) if weights < len(node.inputs) else None
    image = node.inputs[0] if node.op == "ConvTranspose" else node.outputs[0]
    return _elements(image) * math.prod(kernel[1:]) if kernel else 0


def _pool_work(node: Node) -> int:
    return _elements(node.outputs[0]) * math.prod(map(int, node.attrs.get("kernel_shape", ())))


_MULTIPLICATIONS: dict[str, Callable[[Node], int]] = {
    **dict.fromkeys(names_with(Trait.MATRIX_PRODUCT), _product_work),
    "Gemm": _gemm_work,  # whose operands may be transposed
    **dict.fromkeys(names_with(Trait.CONVOLUTION), _convolution_work),
    "QLinearConv": partial(_convolution_work, weights=3),
    **dict.fromkeys(names_with(Trait.WINDOW_POOL), _pool_work),
}


def _einsum(node: Node) -> tuple[int, int]:
    """The multiplications of an Einsum that joins its operands one after another, and the bytes of
    its largest intermediate product.
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
        product &= set(chain(result, _DOTS, *terms[number:]))  # the others are summed up
        largest = max(largest, math.prod(sizes[label] for label in product))
    return work, largest * dtype.itemsize


def _labels(term: str, shape: tuple[int, ...] | None) -> dict[str, int] | None:
    """The size of each label of an operand; the axes of an ellipsis are numbered from the right."""
    if shape is None:
        return None
    before, dots, after = term.partition("...")
    more = len(shape) - len(before) - len(after)
    names = [*before, *(str(place) for place in range(more, 0, -1)), *after]
    return dict(zip(names, shape, strict=True)) if more >= 0 and (dots or not more) else None


def _known_shape(value: Edge | None) -> tuple[int, ...] | None:
    shape = None if value is None else value.shape
    known = [d for d in shape or () if isinstance(d, int)]
    return tuple(known) if shape is not None and len(known) == len(shape) else None


def _elements(value: Edge | None) -> int:
    """The number of elements; 0 if unknown."""
    shape = _known_shape(value)
    return 0 if shape is None else math.prod(shape)


def _known_bytes(value: Edge | None) -> int:
    """Bytes of a value; 0 if its shape is unknown."""
    shape, dtype = (None, None) if value is None else (value.shape, value.dtype)
    if dtype is None or not is_static(shape):
        return 0
    return math.prod(shape) * dtype.itemsize


def _freed_bytes(nodes: Iterable[Node]) -> int:
    """Bytes of the constants that become unused when these nodes are folded."""
    freed = 0
    pending = list(nodes)
    users: dict[Edge, int] = {}  # remaining users of each value
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
    """Bytes of a constant as a model stores them; 0 for other values."""
    if isinstance(value, Constant):
        return value.nbytes
    array = value.constant()
    return 0 if array is None else _stored_bytes([array])


def _stored_bytes(arrays: Iterable[np.ndarray[Any, Any]]) -> int:
    """Bytes of the elements as a model stores them."""
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
    refuses  nodes that onnxruntime cannot compute, or not within 10 seconds of processor time and
             2 GiB; nodes that take 512 MiB or 4 billion multiplications according to their shapes;
             results that would make the model larger by more than 1 MiB in all, minus the constants
             that are no longer needed (a fold that shrinks the model is always done); Casts of
             weights of at most 8 bits, or of bfloat16, to larger types, which onnxruntime folds
             when it loads the model
    never    random, stateful and custom operators, operators with subgraphs, QuantizeLinear and
             DequantizeLinear (their pairs say how the model is quantized), element types that numpy
             lacks
    algebra  a function of constants is a constant
    source   CANN's ConstantFoldingPass
    """

    patterns = (
        Pattern("ConstantFolding", find=_find),
        Pattern("ConstantNode", find=_constant_nodes, operators=("Constant",)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.reason:
            refuse(m.reason)
        return [new.const(array) for array in m.arrays]
