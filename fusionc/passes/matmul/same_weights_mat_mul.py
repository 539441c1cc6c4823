import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.constants import COPIED, SHARED
from fusionc.passes._shared.slice_split_concat import axis_of, piece_of, sizes_of
from fusionc.passes._shared.target import require_floats
from fusionc.passes._shared.transpose_and_reshape import axes_of
from fusionc.passes.matmul._settings import product_settings
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape, refuse

_MAX_ROWS = 8  # the most rows of a piece; with more, each product reuses its weights often enough
_MIN_PIECES = 4  # with fewer pieces, joining saves no time if the weights are small
_LARGE_WEIGHTS = 1 << 16  # elements; smaller weights fit into the nearest cache
_MAX_ELEMENTS = 1 << 20  # elements of all results, which stay in memory until the last one is read


@dataclass(frozen=True)
class _Piece:
    """A part of a value along one axis, which a product reads."""

    source: Edge  # the whole value
    axis: int
    start: int
    end: int
    nodes: tuple[Node, ...]  # the nodes that take the piece out of the source, in order
    drops_axis: bool  # whether the piece lacks the axis `axis`


def _piece(value: Edge | None) -> _Piece | None:
    """The value as a piece, if it is taken out of another value along an axis other than the last,
    with or without a Squeeze; else None.
    """
    node = None if value is None else value.producer
    if node is None or not node.is_op("Squeeze"):
        return _cut(value)
    piece = None if node.has_references else _cut(node.inputs[0])
    if piece is None or piece.drops_axis or piece.end != piece.start + 1:
        return None
    axes = [axis % (piece.source.rank or 1) for axis in axes_of(node) or []]
    if axes != [piece.axis]:
        return None
    return replace(piece, nodes=(*piece.nodes, node), drops_axis=True)


def _cut(value: Edge | None) -> _Piece | None:
    """The piece that one operator takes out of another value along an axis other than the last;
    else None.
    """
    cutter = None if value is None else value.producer
    if value is None or cutter is None or cutter.has_references:
        return None
    piece = piece_of(cutter) or _split_piece(cutter, value) or _gathered_piece(cutter)
    if piece is None or piece[1] == (piece[0].rank or 0) - 1:
        return None
    source, axis, start, end = piece
    return _Piece(source, axis, start, end, (cutter,), value.rank != source.rank)


def _split_piece(node: Node, value: Edge) -> tuple[Edge, int, int, int] | None:
    source = node.inputs[0] if node.is_op("Split") else None
    axis = None if source is None else axis_of(node, source.rank)
    sizes = None if source is None else sizes_of(node)
    if source is None or axis is None or sizes is None:
        return None
    index = node.outputs.index(value)
    return source, axis, sum(sizes[:index]), sum(sizes[: index + 1])


def _gathered_piece(node: Node) -> tuple[Edge, int, int, int] | None:
    source, index = node.inputs if node.is_op("Gather") else (None, None)
    array = None if index is None else index.constant()
    if source is None or array is None or array.size != 1 or array.ndim > 1:
        return None
    axis = axis_of(node, source.rank)
    size = None if source.shape is None or axis is None else source.shape[axis]
    position = int(array.item())
    if axis is None or not isinstance(size, int) or not -size <= position < size:
        return None
    return source, axis, position % size, position % size + 1


def _find(graph: Graph) -> Iterator[Match | Miss]:
    """A match for each group of products that multiply pieces of the same value by the same
    weights, in the order of the pieces.
    """
    groups: dict[tuple[object, ...], list[tuple[_Piece, Node]]] = {}
    for node in [*graph.of_operator("MatMul"), *graph.of_operator("Gemm")]:
        piece = None if node.has_references else _piece(node.inputs[0])
        if piece is None:
            yield Miss(node, "its input is not a known piece of a value")
            continue
        if node.inputs[1] is None or node.inputs[1].rank != 2:
            yield Miss(node, "the weights are not known to be a matrix")
            continue
        location = (piece.source, piece.axis, piece.drops_axis)
        key = (*location, *node.inputs[1:], *product_settings(node))
        groups.setdefault(key, []).append((piece, node))
    for group in groups.values():
        if len(group) < 2:
            yield Miss(
                group[0][1], "no other product has the same weights and a piece of the value"
            )
        else:
            group.sort(key=lambda pair: (pair[0].start, pair[1].position))
            pieces, products = zip(*group, strict=True)
            captures = {"pieces": pieces, "products": products, "x": pieces[0].source}
            yield Match(graph, products, [node.outputs[0] for node in products], captures)


def _require_gain(m: Match) -> None:
    """Refuse if one joint product takes as long as the separate products, or longer."""
    dims = m.x.require_sizes()
    weights = m.products[0].inputs[1].require_sizes()
    if any(first.end > second.start for first, second in zip(m.pieces, m.pieces[1:], strict=False)):
        refuse("the pieces overlap")
    if sum(piece.end - piece.start for piece in m.pieces) < dims[m.pieces[0].axis]:
        refuse("the products do not read the whole value")
    rows = math.prod(dims[:-1])
    if rows > _MAX_ROWS * len(m.pieces):
        refuse(f"a product has more than {_MAX_ROWS} rows")
    if len(m.pieces) < _MIN_PIECES and math.prod(weights) < _LARGE_WEIGHTS:
        refuse("the weights are small, and the products are few")
    if rows * max(weights) > _MAX_ELEMENTS:
        refuse("the results of all products are large")


def _weights(m: Match, new: Tape, is_turned: bool) -> Edge:
    """The weights, transposed if the Gemm transposes them."""
    weights: Edge = m.products[0].inputs[1]
    if not is_turned:
        return weights
    array = weights.require_constant("the weights that Gemm transposes")
    if array.size > COPIED and weights.use_count > len(m.products):
        refuse(SHARED)
    return new.const(np.ascontiguousarray(array.T), like=weights)


def _product(m: Match, new: Tape) -> Edge:
    """The product of the whole value."""
    first = m.products[0]
    if first.op == "MatMul":
        return new.MatMul(m.x, first.inputs[1])
    bias = first.inputs[2] if len(first.inputs) > 2 else None
    if first.attr("transA"):
        refuse("the pieces are transposed")
    if bias is not None and (bias.rank is None or bias.rank > 1):
        refuse("each row may have an addend of its own")
    if m.x.rank == 2:
        return new.Gemm(m.x, first.inputs[1], bias, like=first)
    if first.attr("alpha") != 1 or first.attr("beta") != 1:
        refuse("the products are scaled")
    product = new.MatMul(m.x, _weights(m, new, bool(first.attr("transB"))))
    return product if bias is None else new.Add(product, bias)


class SameWeightsMatMulPass(Pass):
    """Products of all pieces of a value with the same weights become one product, which is then cut
    into pieces.

    before   x[0]·W [+ b], x[1]·W [+ b], … by MatMul or Gemm, with the pieces from Split, Slice or
             Gather, with or without Squeeze
    after    y = x·W [+ b]; y[0], y[1], …
    refuses  unknown sizes; pieces that overlap, or that do not cover x; products of more than 8
             rows (1.0 to 1.4 of the time); fewer than four products with small weights; results of
             more than a million elements; integers; a Gemm that transposes the pieces or scales, or
             whose addend has several rows; transposed weights that are used elsewhere
    never    pieces along the last axis
    algebra  each row of a product is computed on its own, and one product reads the weights only
             once. Measured: 4 products of one row take 0.60 to 0.86 of the time, 20 products of one
             row 0.43 to 0.79, and 20 products of 4 rows 0.68 to 0.94
    source   unrolled recurrences: torch's exporter writes one product of the input for each step
    """

    numerics = "rounding"
    patterns = (Pattern("SameWeightsMatMul", find=_find, operators=("MatMul", "Gemm")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_floats(m.x)
        _require_gain(m)
        whole = _product(m, new)
        replacements: dict[Edge | None, Edge] = {m.x: whole}
        for piece in m.pieces:
            for node in piece.nodes:
                self._take_piece(node, replacements, new)
        return [replacements[node.inputs[0]] for node in m.products]

    @staticmethod
    def _take_piece(node: Node, replacements: dict[Edge | None, Edge], new: Tape) -> None:
        """Take the same piece out of the joint product as `node` takes out of the whole value."""
        if node.outputs[0] in replacements:
            return
        wanted = [value is not None for value in node.outputs]
        inputs = [replacements[node.inputs[0]], *node.inputs[1:]]
        results = new.node(node.op, inputs, like=node, outputs=wanted)
        replacements.update(
            (old, value)
            for old, value in zip(node.outputs, results, strict=True)
            if value is not None
        )
