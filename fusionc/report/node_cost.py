"""The cost of one node, computed from its shapes: arithmetic operations, and bytes read and
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

from onnx import TensorProto

from fusionc.model.graph import Edge, Node
from fusionc.model.operators import MICROSOFT
from fusionc.model.tensors import byte_size
from fusionc.operators.facts import Trait, names_with
from fusionc.shapes.expressions import is_invented
from fusionc.verify.inputs.formulas import evaluate, formula_of, symbols_of

_VIEWS = names_with(Trait.RESHAPES, Trait.READS_SHAPE) | {"Constant", "Identity"}
_MOVES = names_with(Trait.MOVES, Trait.CASTS) | {"ConstantOfShape", "OneHot"}
# operators that read only the elements that they return
_SELECTIONS = frozenset({"Gather", "GatherElements", "GatherND", "Slice"})
_POOLS = names_with(Trait.WINDOW_POOL)
_CONTROL = names_with(Trait.CONTROL)  # only the nodes of their subgraphs count


_sizes_of_symbols = ContextVar[Mapping[str, int] | None]("_sizes_of_symbols", default=None)


class UnknownSize(Exception):
    """Raised if the cost depends on a size that is unknown."""


@contextmanager
def sizes_for_symbols(sizes: Mapping[str, int]) -> Iterator[None]:
    """A context manager in which the symbols of shapes have these sizes, and others are 1."""
    token = _sizes_of_symbols.set(sizes)
    try:
        yield
    finally:
        _sizes_of_symbols.reset(token)


def operations_of(node: Node) -> int:
    """The number of arithmetic operations. In matrix products, convolutions, recurrences and
    attention, a multiplication and its addition count as two operations. For other arithmetic
    operators, the number is that of the elements of the first input or of the outputs, whichever is
    larger.

    Raises UnknownSize.
    """
    if node.op in _VIEWS | _MOVES | _CONTROL:
        return 0
    special = _SPECIAL.get(node.op) if node.domain in ("", MICROSOFT) else None
    if special is not None:
        return special(node)
    return max(_elements_of_all(node.inputs[:1]), _elements_of_all(node.outputs))


def macs_of(node: Node) -> int:
    """The number of multiplications (each with its addition) of a matrix product, convolution,
    recurrence or attention. 0 for other operators. Raises UnknownSize.
    """
    is_product = node.op in _SPECIAL and node.op not in _POOLS and node.domain in ("", MICROSOFT)
    return _SPECIAL[node.op](node) // 2 if is_product else 0


def bytes_moved_by(node: Node) -> int:
    """The bytes that the node reads and writes, including weights. 0 for views such as Reshape.

    Raises UnknownSize.
    """
    if node.op in _VIEWS | _CONTROL:
        return 0
    inputs = {value for value in node.inputs if value is not None}
    written = sum(value_bytes(value) for value in node.outputs if value is not None)
    if node.op in _SELECTIONS and node.inputs[0] is not None:
        return 2 * written + sum(value_bytes(value) for value in inputs - {node.inputs[0]})
    return written + sum(map(value_bytes, inputs))


def _shape(value: Edge | None) -> tuple[int, ...]:
    shape = None if value is None else value.shape
    if shape is None:
        raise UnknownSize
    return tuple(map(_size, shape))


def _size(dim: int | str | None) -> int:
    if isinstance(dim, int):
        return dim
    sizes = _sizes_of_symbols.get()
    if sizes is None or dim is None or is_invented(dim):
        raise UnknownSize
    formula = formula_of(dim)
    if formula is None:  # a symbol
        return sizes.get(dim, 1)
    symbols = symbols_of(formula)
    size = evaluate(formula, {symbol: sizes.get(symbol, 1) for symbol in symbols})
    if size is None:
        raise UnknownSize
    return size


def _elements(value: Edge | None) -> int:
    return prod(_shape(value))


def _elements_of_all(values: tuple[Edge | None, ...]) -> int:
    return sum(_elements(value) for value in values if value is not None)


def value_bytes(value: Edge) -> int:
    """The size of a value. Raises UnknownSize."""
    if value.elem_type in (TensorProto.UNDEFINED, TensorProto.STRING):
        raise UnknownSize
    return byte_size(TensorProto(dims=_shape(value), data_type=value.elem_type))


def _product(node: Node) -> int:
    return 2 * _elements(node.outputs[0]) * _shape(node.inputs[0])[-1]


def _transposable_product(node: Node) -> int:
    axis = -2 if node.attr("transA", 0) else -1
    return 2 * _elements(node.outputs[0]) * _shape(node.inputs[0])[axis]


def _packed_product(node: Node) -> int:
    return 2 * _elements(node.inputs[0]) * int(node.attr("N", 0))


def _convolution(node: Node) -> int:
    return 2 * _elements(node.outputs[0]) * prod(_shape(node.inputs[1])[1:])


def _quantized_convolution(node: Node) -> int:
    return 2 * _elements(node.outputs[0]) * prod(_shape(node.inputs[3])[1:])


def _transposed_convolution(node: Node) -> int:
    return 2 * _elements(node.inputs[0]) * prod(_shape(node.inputs[1])[1:])


def _pool(node: Node) -> int:
    window: list[int] = node.attr("kernel_shape", [1])
    return _elements(node.outputs[0]) * prod(window)


def _einsum(node: Node) -> int:
    terms = str(node.attr("equation", "")).replace(" ", "").partition("->")[0].split(",")
    if any("." in term for term in terms) or len(terms) != len(node.inputs):
        raise UnknownSize
    sizes: dict[str, int] = {}
    for term, value in zip(terms, node.inputs, strict=True):
        sizes.update(zip(term, _shape(value), strict=False))
    return 2 * prod(sizes.values())


def _recurrence(node: Node) -> int:
    steps, batch, width = _shape(node.inputs[0])
    directions, rows, hidden = _shape(node.inputs[2])  # rows: gates times hidden size
    return 2 * steps * batch * directions * rows * (width + hidden)


def _attention(node: Node) -> int:
    """The operations of attention: the product of queries and keys, and as many again for the
    product of attention weights and values.
    """
    query = _shape(node.inputs[0])
    keys = _shape(node.inputs[1])
    length = keys[-2]
    past = {"GroupQueryAttention": 3, "MultiHeadAttention": 6, "Attention": 4}[node.op]
    if len(node.inputs) > past and node.inputs[past] is not None:
        length += _shape(node.inputs[past])[-2]
    return 4 * prod(query) * length


def _attention_with_projection(node: Node) -> int:
    batch, steps, width = _shape(node.inputs[0])
    projected = _shape(node.inputs[1])[-1]
    return 2 * batch * steps * width * projected + 4 * batch * steps * steps * (projected // 3)


def _any_attention(node: Node) -> int:
    return _attention(node) if node.domain == "" else _attention_with_projection(node)


_PRODUCTS = (
    "DynamicQuantizeMatMul",
    "MatMul",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "QLinearMatMul",
)
_SPECIAL: dict[str, Callable[[Node], int]] = {
    **dict.fromkeys(_PRODUCTS, _product),
    **dict.fromkeys(("FusedGemm", "FusedMatMul", "Gemm", "QGemm"), _transposable_product),
    **dict.fromkeys(("MatMulBnb4", "MatMulNBits"), _packed_product),
    **dict.fromkeys(("Conv", "ConvInteger", "FusedConv"), _convolution),
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys(names_with(Trait.RECURRENT), _recurrence),
    **dict.fromkeys(("GroupQueryAttention", "MultiHeadAttention"), _attention),
    "Attention": _any_attention,
    "ConvTranspose": _transposed_convolution,
    "Einsum": _einsum,
    "QAttention": _attention_with_projection,
    "QLinearConv": _quantized_convolution,
}
