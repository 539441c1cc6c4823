import numpy as np

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, var


def _target(m: Match) -> list[int] | None:
    """The shape of the result in numbers, with at most one −1. None if other axes than those of
    size 1 move, or if more than one size is unknown.
    """
    shape = m.x.shape
    perm = m.node.attr("perm")
    if shape is None or perm is None or len(perm) != len(shape) or list(perm) == sorted(perm):
        return None
    moved = [axis for axis in perm if shape[axis] != 1]
    target = [shape[axis] if isinstance(shape[axis], int) else -1 for axis in perm]
    return target if moved == sorted(moved) and target.count(-1) <= 1 and 0 not in target else None


def _moves_ones(m: Match) -> bool:
    """Whether only axes of size 1 move, and at most one other dimension is unknown."""
    return _target(m) is not None


class Dim1TransposeToSqueezePass(Pass):
    """A Transpose that only moves axes of size 1 becomes a Reshape.

    before   Transpose(x) of [N, 1, 12, 64] to [N, 12, 1, 64]
    after    Reshape(x, [−1, 12, 1, 64])
    refuses  only what every pass refuses
    never    more than one dimension that is not known before the model runs
    algebra  moving an axis of size 1 does not change the order of the elements
    source   CANN's Dim1TransposeToSqueezePass; a Reshape copies nothing
    """

    patterns = (Pattern("Dim1Transpose", op.Transpose(var("x"), _as="node"), where=_moves_ones),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        return new.Reshape(m.x, new.const(np.array(_target(m), np.int64)))
