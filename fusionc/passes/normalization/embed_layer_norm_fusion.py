from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Shape
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.constants import array_of
from fusionc.passes._shared.meeting_shapes import all_meet
from fusionc.passes._shared.skip_norms import layer_norm, patterns_of
from fusionc.rewrite import Match, Result, Tape, UBFusionPass, const, either, op, refuse, var
from fusionc.rewrite.pattern import OpFormula


def _lookup(name: str) -> OpFormula:
    return op.Gather(const(f"{name}_table"), var(f"{name}_index"), axis=0, _as=f"{name}_look")


_SHAPES_DIFFER = "the row indices of the tables have shapes that do not match"
_NOT_ROWS = "the constant addend does not have one row for each position"
_FIRST = _lookup("a")
_SECOND = _lookup("b")
_THIRD = either(_lookup("c"), const("rows"))
_THREE = op.Add(op.Add(_FIRST, _SECOND), _THIRD, _as="sum")
_TWO = op.Add(_FIRST, either(_SECOND, const("rows")), _as="sum")


class EmbedLayerNormFusionPass(UBFusionPass):
    """Embeddings that are looked up, added and normalized become onnxruntime's
    EmbedLayerNormalization.

    before   LayerNormalization(Gather(W, ids) + Gather(P, positions) [+ Gather(T, segments)],
             scale, offset?), with the addends in any order. In place of one Gather there may be a
             constant with one row for each position
    after    com.microsoft.EmbedLayerNormalization(ids, segments, W, P, T, scale, offset,
             positions), with the indices cast to int32. If the sum has other users, it is the third
             output
    refuses  elements other than float32; tables and indices whose shapes do not fit; a
             LayerNormalization over more than the last axis
    never    off by default, because the operator takes up to 1.5 times as long as the form above.
             The operator also rejects negative indices, which Gather counts from the end of the
             table
    algebra  the definition of EmbedLayerNormalization
    source   onnxruntime's EmbedLayerNormFusion. Time relative to the form above, measured with
             onnxruntime 1.31.1 and three tables of 768 columns (shape of the indices: with one
             thread, with two): [1, 1]: 0.97, 0.93; [1, 16]: 1.22, 1.19; [1, 128]: 1.50, 1.17;
             [4, 128]: 1.28, 0.80; [1, 384]: 1.05, 0.96
    """

    numerics = "rounding"
    default = "off"
    patterns = (
        *patterns_of("EmbedThreeLayerNorm", layer_norm(_THREE), _THREE),
        *patterns_of("EmbedLayerNorm", layer_norm(_TWO), _TWO),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        total: Edge = m.sum.outputs[0]
        total.require_type(np.float32)
        shape = total.require_shape(3)
        size = total.require_size(2, "the length of the last axis")
        if size < 1:
            refuse("the last axis is empty")
        if m.norm.attr("axis") % 3 != 2 or m.norm.attr("stash_type") != TensorProto.FLOAT:
            refuse("the normalization covers more than the last axis, or is not in float32")
        beta = m.beta or new.const(np.zeros(size, np.float32))
        if any(value.shape != (size,) for value in (m.gamma, beta)):
            refuse(
                "the scale or the offset does not have exactly one number for each element of the "
                "last axis"
            )
        words, positions, segments = _embeddings(m, shape, new)
        indices = [_int32_indices(embedding, new) for embedding in (words, segments, positions)]
        tables = [
            None if embedding is None else embedding.table
            for embedding in (words, positions, segments)
        ]
        inputs = [indices[0], indices[1], *tables, m.gamma, beta, None, indices[2]]
        is_shared = len(m.outputs) == 2
        results = new.node(
            "EmbedLayerNormalization",
            inputs,
            domain=MICROSOFT,
            outputs=(True, True, is_shared),
            epsilon=m.norm.attr("epsilon"),
        )
        return [results[0], results[2]] if is_shared else results[0]


@dataclass(frozen=True)
class _Embedding:
    """Rows that are looked up in a table."""

    table: Edge
    index: Edge  # the indices of the rows


def _int32_indices(embedding: _Embedding | None, new: Tape) -> Edge | None:
    """The indices of the rows as int32; None if `embedding` is None."""
    return None if embedding is None else _narrow(embedding.index, new)


def _embeddings(
    m: Match, shape: Shape, new: Tape
) -> tuple[_Embedding, _Embedding, _Embedding | None]:
    """The embeddings of words, positions and segments (None if there are only two). Only the
    indices of positions may have a batch size of 1: the same positions for all items of a batch.
    """
    embeddings = _lookups(m, shape)
    whole = [embedding for embedding in embeddings if _fits(embedding.index, shape[:2])]
    shared = [embedding for embedding in embeddings if embedding not in whole]
    if m.rows is not None:
        shared.append(_table_of_rows(m.rows, shape, new))
    if not whole or len(shared) > 1 or len(whole) + len(shared) < 2:
        refuse(_SHAPES_DIFFER)
    positions = shared[0] if shared else whole.pop()
    if shared and not _may_fit(positions.index, (1, shape[1])):
        refuse(_SHAPES_DIFFER)
    return whole[0], positions, next(iter(whole[1:]), None)


def _lookups(m: Match, shape: Shape) -> list[_Embedding]:
    """The tables that the Gathers read, each with its row indices."""
    nodes = [node for name in "abc" if (node := getattr(m, f"{name}_look")) is not None]
    embeddings = [_Embedding(*node.inputs) for node in nodes]
    for embedding in embeddings:
        table = embedding.table.shape
        if table is None or len(table) != 2 or table[1] != shape[2]:
            refuse("the columns of a table do not fit the normalized axis")
    return embeddings


def _fits(index: Edge, shape: Shape) -> bool:
    return index.shape is not None and all_meet(index.shape, shape)


def _may_fit(index: Edge, shape: Shape) -> bool:
    return index.shape is None or _fits(index, shape)


def _table_of_rows(rows: Edge, shape: Shape, new: Tape) -> _Embedding:
    """A constant with one row for each position, as a table."""
    array = array_of(rows)
    length, size = shape[1:]
    if not isinstance(length, int) or not isinstance(size, int) or not array.size:
        refuse(_NOT_ROWS)
    if array.size != length * size or array.shape[-2:] not in ((length, size), (size,)):
        refuse(_NOT_ROWS)
    table = new.const(array.reshape(length, -1), like=rows)
    return _Embedding(table, new.const(np.arange(length, dtype=np.int32)[None]))


def _narrow(index: Edge, new: Tape) -> Edge:
    """The indices in int32. Refuses constant indices that are negative, or too large for int32."""
    array = index.constant()
    if array is not None:
        if array.size and (array.min() < 0 or array.max() > np.iinfo(np.int32).max):
            refuse("a row index is negative, or too large for int32")
        return new.const(array.astype(np.int32), like=None)
    if index.elem_type == TensorProto.INT32:
        return index
    return new.Cast(index, to=TensorProto.INT32)
