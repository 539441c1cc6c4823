import numpy as np

from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, keep, maybe, op, var

x = var("x")
_SHAPE = keep(op.Shape(x, _as="shape"))


def _dims(m: Match) -> list[int | str | None] | None:
    """What Shape(x) holds, as far as it is known; None where not even the rank is."""
    dims = m.x.shape
    if dims is None:
        return None
    start, end = m.shape.attr("start", 0), m.shape.attr("end")
    return list(dims)[slice(start, end)]


def _picked(m: Match) -> list[int | str | None] | None:
    """The dimensions that the Gather or Slice takes out of Shape(x)."""
    dims = _dims(m)
    if dims is None:
        return None
    if "index" in m.captures:
        index = m.index.constant()
        if m.gather.attr("axis") not in (0, -1) or (index >= len(dims)).any() or (index < -len(dims)).any():
            return None
        return [dims[i] for i in index.reshape(-1)]
    if "starts" in m.captures:
        step = 1 if m.steps is None else int(m.steps.constant().item())
        return dims[int(m.starts.constant().item()) : int(m.ends.constant().item()) : step] if step > 0 else None
    return dims


def _is_known(m: Match) -> bool:
    picked = _picked(m)
    return picked is not None and all(isinstance(d, int) for d in picked)


def _size_is_known(m: Match) -> bool:
    return m.x.shape is not None and all(isinstance(d, int) for d in m.x.shape)


def _size(m: Match, new: Tape) -> Result:
    return new.const(np.array(np.prod(m.x.shape, dtype=np.int64), np.int64))


class DimensionComputePass(Pass):
    """Dimensions that are known before the model runs become constants.

    before   Shape(x), Gather(Shape(x), i), Slice(Shape(x), …), Size(x), where the dimensions asked for are known
    after    a constant
    refuses  nothing of its own
    never    a dimension that is only declared, where onnx knows the operator and does not infer it
    algebra  what inference proves is so for every input
    source   CANN's DimensionComputePass and ShapeOperateOpRemovePass
    """

    patterns = (
        Pattern("Shape", op.Shape(x, _as="shape"), where=_is_known),
        Pattern("ShapeGather", op.Gather(_SHAPE, const("index"), _as="gather"), where=_is_known),
        Pattern(
            "ShapeSlice",
            op.Slice(_SHAPE, const("starts"), const("ends"), maybe(const("axes")), maybe(const("steps"))),
            where=_is_known,
        ),
        Pattern("Size", op.Size(x), _size, where=_size_is_known),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        picked = np.array(_picked(m), np.int64)
        return new.const(picked.reshape(m.index.shape) if "index" in m.captures else picked)
