import numpy as np

from fusionc.model.graph import Edge
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze
from fusionc.passes.attention._lengths import length_of
from fusionc.passes.attention._rotary import patterns, repeated, rows_of
from fusionc.rewrite import Match, Result, Tape, UBFusionPass
from fusionc.rewrite.pattern import ms


def _build(m: Match, new: Tape, *, is_half: bool, interleaved: int | None) -> Result:
    pairs = [rows_of(value, m.x, new, is_half=is_half) for value in (m.cos, m.sin)]
    size = m.x.shape[3] // 2
    if all(is_shared for _, is_shared in pairs):
        positions: Edge = new.const(np.zeros(1, np.int64))  # the position of the first row
        tables = [_table(rows, size, new, is_shared=True) for rows, _ in pairs]
    else:
        caches = [repeated(rows, m.x, new) if is_shared else rows for rows, is_shared in pairs]
        positions = _all_rows(m.x, new)
        tables = [_table(rows, size, new, is_shared=False) for rows in caches]
    return new.node(
        "RotaryEmbedding", [m.x, positions, *tables], domain=MICROSOFT, interleaved=interleaved
    )


def _table(rows: Edge, size: int, new: Tape, *, is_shared: bool) -> Edge:
    """The rows [batch, length, size] as [batch · length, size]."""
    array = rows.constant()
    if array is not None:
        return new.const(array.reshape(-1, array.shape[-1]), like=rows)
    if is_shared:
        return new_unsqueeze(new, rows, [0], "Squeeze")
    return new.Reshape(rows, new.const(np.array([-1, size], np.int64)))


def _all_rows(x: Edge, new: Tape) -> Edge:
    """The index of the row of the table for each batch element and position, [batch, length].

    The table is [batch · length, size / 2]: it has a row of cosines (or sines) for each of them.
    """
    lengths = [length_of(x, axis, new) for axis in (0, 2)]
    known = [length.constant() for length in lengths]
    if all(array is not None for array in known):
        batch, length = (int(array[0]) for array in known if array is not None)
        return new.const(np.arange(batch * length).reshape(batch, length))
    first = _numbers(lengths[0], new)
    step = _numbers(lengths[1], new)
    return new.Add(new.Mul(new_unsqueeze(new, first, [1]), lengths[1]), step)


def _numbers(count: Edge, new: Tape) -> Edge:
    """The vector 0, 1, 2, … of `count` elements."""
    array = count.constant()
    if array is not None:
        return new.const(np.arange(int(array[0])))
    end = new_unsqueeze(new, count, [0], "Squeeze")
    return new.Range(new.const(np.array(0, np.int64)), end, new.const(np.array(1, np.int64)))


class RotaryEmbeddingUbFusionPass(UBFusionPass):
    """Rotary position embedding that is written out becomes onnxruntime's own RotaryEmbedding.

    before   all forms that RotaryEmbeddingFusionPass finds
    after    com.microsoft.RotaryEmbedding(x, positions, cos, sin). If the whole batch shares the
             table of cosines and that of sines, the tables are [length, size / 2], and positions is
             0, the row of the first position. Otherwise the tables are [batch · length, size / 2],
             and positions is [batch, length], the row for each batch element and position
    refuses  what RotaryEmbeddingFusionPass refuses; but an opset below 23 is allowed, and from 23
             on RotaryEmbeddingFusionPass comes first
    algebra  the definition of RotaryEmbedding. If each element of the batch has its own rows of the
             tables, the operator rejects an empty batch if the length is above 0
    source   onnxruntime's rotary embedding fusion
    """

    numerics = "rounding"
    patterns = patterns(_build, ms.RotaryEmbedding)
