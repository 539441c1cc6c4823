import numpy as np

from fusionc.passes._shared.constants import dims_of, require_own
from fusionc.passes._shared.target import require_floats
from fusionc.passes.convolution._windows import covers_all
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, maybe, op, refuse, rest, var

_MIN_IMAGES = 4  # the smallest batch for which a matrix product is faster


def _is_full(m: Match) -> bool:
    """Whether the Conv has no groups, its kernel is as large as the image, and its result becomes a
    matrix.
    """
    weight = dims_of(m.W)
    shape = m.flat.outputs[0].shape
    if len(weight) < 3 or shape is None or len(shape) != 2 or shape[1] != weight[0] or 0 in weight:
        return False
    return m.conv.attr("group") == 1 and covers_all(m.conv, m.x, weight[2:])


class ConvToFullyConnectionFusionPass(Pass):
    """A flattened Conv whose kernel is as large as its input becomes a Gemm.

    before   Flatten(Conv(x, W, B?)), or Reshape or Squeeze to [N, M], with a kernel of the height
             and width of x
    after    Gemm(Flatten(x), W as [M, C·H·W], B)
    refuses  element types for which Gemm has no kernel; opsets below 7; a batch of unknown size, or
             of fewer than 4 images: for one image, the Conv is as fast or takes two thirds of the
             time; large weights that are used elsewhere
    never    Convs with pads, groups or dilations; a Conv that is not flattened, which would need an
             additional Reshape
    algebra  the only window of the Conv is x itself. The Gemm is faster, because a Conv reads its
             weights once for each image
    source   CANN's ConvToFullyConnectionFusionPass; measured: 8 images take 0.3 to 0.5 of the time
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "ConvFlatten",
            op["Flatten", "Reshape", "Squeeze"](
                op.Conv(var("x"), const("W"), maybe(var("B")), _as="conv"),
                rest("options"),
                _as="flat",
            ),
            where=_is_full,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_floats(m.x)
        m.require_opset(7, "Gemm does not broadcast its bias")
        if m.x.require_size(0, "the number of images") < _MIN_IMAGES:
            refuse("the batch has few images")
        require_own(m, m.W)
        weight = m.W.constant()
        bias = m.B
        if bias is None and m.opset < 11:
            bias = new.const(np.zeros(weight.shape[0], weight.dtype))
        matrix = new.const(weight.reshape(weight.shape[0], -1), like=m.W)
        return new.Gemm(new.Flatten(m.x, axis=1), matrix, bias, transB=1)
