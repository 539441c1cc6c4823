import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Node, Shape
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.meeting_shapes import all_meet
from fusionc.passes._shared.skip_norms import layer_norm, patterns_of
from fusionc.rewrite import Match, Result, Tape, UBFusionPass, const, either, op, refuse, var
from fusionc.rewrite.pattern import OpFormula


def _looked_up(name: str) -> OpFormula:
    return op.Gather(const(f"{name}_table"), var(f"{name}_index"), axis=0, _as=f"{name}_look")


_FIRST = _looked_up("a")
_SECOND = _looked_up("b")
_THIRD = either(_looked_up("c"), const("rows"))
_THREE = op.Add(op.Add(_FIRST, _SECOND), _THIRD, _as="sum")
_TWO = op.Add(_FIRST, either(_SECOND, const("rows")), _as="sum")


class EmbedLayerNormFusionPass(UBFusionPass):
    """Embeddings that are looked up, added and normalized become onnxruntime's
    EmbedLayerNormalization.

    before   LayerNormalization(Gather(W, ids) + Gather(P, positions) [+ Gather(T, segments)],
             scale, offset?), the sum in any order; a constant of one row for each position in place
             of one Gather
    after    com.microsoft.EmbedLayerNormalization(ids, segments, W, P, T, scale, offset,
             positions), the numbers cast to int32; where the sum has other users, it is the third
             output
    refuses  elements other than float32; tables and numbers of which the shapes do not fit; more
             than the last axis normalized
    never    by default: it takes 1.2 to 1.5 times as long as its parts; kept: a number below zero,
             which Gather counts from the end of the table and the operator rejects
    algebra  the definition of EmbedLayerNormalization; onnxruntime 1.31.1, three tables of 768
             columns, ratio to the parts, [1, 1] / [1, 16] / [1, 128] / [4, 128] / [1, 384]: 0.97 /
             1.22 / 1.50 / 1.28 / 1.05, with two threads 0.93 / 1.19 / 1.17 / 0.80 / 0.96
    source   onnxruntime's EmbedLayerNormFusion
    """

    numerics = "rounding"
    default = "off"
    patterns = (
        *patterns_of("EmbedThreeLayerNorm", layer_norm(_THREE), _THREE),
        *patterns_of("EmbedLayerNorm", layer_norm(_TWO), _TWO),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        total: Edge = m.sum.outputs[0]
        shape = total.shape
        if total.elem_type != TensorProto.FLOAT:
            refuse("the elements are not float32")
        if shape is None or len(shape) != 3 or not isinstance(shape[2], int) or shape[2] < 1:
            refuse("what is added is not known to be [batch, length, size]")
        if m.norm.attr("axis") % 3 != 2 or m.norm.attr("stash_type") != TensorProto.FLOAT:
            refuse("more than the last axis is normalized, or not in float32")
        beta = m.beta or new.const(np.zeros(shape[2], np.float32))
        if any(value.shape != (shape[2],) for value in (m.gamma, beta)):
            refuse("the scale or the offset is not one number for each element of the last axis")
        words, positions, segments = _tables(m, shape, new)
        numbers = [
            None if pair is None else _narrow(pair[1], new) for pair in (words, segments, positions)
        ]
        tables = [None if pair is None else pair[0] for pair in (words, positions, segments)]
        inputs = [numbers[0], numbers[1], *tables, m.gamma, beta, None, numbers[2]]
        is_shared = len(m.outputs) == 2
        made = new.node(
            "EmbedLayerNormalization",
            inputs,
            domain=MICROSOFT,
            outputs=(True, True, is_shared),
            epsilon=m.norm.attr("epsilon"),
        )
        return [made[0], made[2]] if is_shared else made[0]


Pair = tuple[Edge, Edge]  # a table, and the numbers of its rows


def _tables(m: Match, shape: Shape, new: Tape) -> tuple[Pair, Pair, Pair | None]:
    """Words, positions and segments. Positions may be the same for all of a batch, the others are
    not.
    """
    looks: list[Node] = [node for name in "abc" if (node := getattr(m, f"{name}_look")) is not None]
    pairs: list[Pair] = [
        (look.inputs[0], look.inputs[1]) for look in looks if look.inputs[0] and look.inputs[1]
    ]
    if any(
        table.shape is None or len(table.shape) != 2 or table.shape[1] != shape[2]
        for table, _ in pairs
    ):
        refuse("a table does not have one row for each number")
    whole = [pair for pair in pairs if _fits(pair[1], shape[:2])]
    others = [pair for pair in pairs if pair not in whole]
    if m.rows is not None:
        others.append(_rows(m.rows, shape, new))
    if not whole or len(others) > 1 or len(whole) + len(others) < 2:
        refuse("the numbers of rows do not fit each other")
    if others and others[0][1].shape is not None and not _fits(others[0][1], (1, shape[1])):
        refuse("the numbers of rows do not fit each other")
    positions = others[0] if others else whole.pop()
    return whole[0], positions, whole[1] if len(whole) > 1 else None


def _fits(index: Edge, shape: Shape) -> bool:
    return index.shape is not None and all_meet(index.shape, shape)


def _rows(rows: Edge, shape: Shape, new: Tape) -> Pair:
    """A constant of one row for each position as a table."""
    array = rows.constant()
    length, size = shape[1:]
    if (
        array is None
        or not isinstance(length, int)
        or not array.size
        or array.size != length * int(size or 0)
        or array.shape[-2:] not in ((length, size), (size,))
    ):
        refuse("the constant is not one row for each position")
    return new.const(array.reshape(length, -1), like=rows), new.const(
        np.arange(length, dtype=np.int32)[None]
    )


def _narrow(index: Edge, new: Tape) -> Edge:
    array = index.constant()
    if array is not None:
        if array.size and (array.min() < 0 or array.max() > np.iinfo(np.int32).max):
            refuse("a number below zero")
        return new.const(array.astype(np.int32), like=None)
    if index.elem_type == TensorProto.INT32:
        return index
    return new.Cast(index, to=TensorProto.INT32)
