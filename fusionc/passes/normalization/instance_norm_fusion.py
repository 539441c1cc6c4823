import numpy as np

from fusionc.passes._shared.reduce_axes import reduced_axes
from fusionc.passes._shared.written_norms import channel_vector, epsilon_of, is_plain, normalized
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, refuse


class InstanceNormFusionPass(Pass):
    """Instance normalization that is written out becomes InstanceNormalization.

    before   (x − mean(x)) / √(mean((x − mean(x))²) + epsilon) · scale + offset over all axes after
             the channels, written in a form that LayerNormFusionPass accepts, with constant scale
             and offset of shape [C, 1, 1]; or without scale and offset, if no constant multiplies
             the result
    after    InstanceNormalization(x, scale, offset)
    refuses  other axes; an unknown number of channels; an unknown image size, because onnxruntime's
             operator crashes on an empty image; constants that do not have exactly one number for
             each channel; elements other than float32
    algebra  the definition of InstanceNormalization
    source   CANN's InstanceNormFusionPass
    """

    numerics = "rounding"
    patterns = (
        Pattern("InstanceNorm", normalized() * const("factor") + const("addend")),
        Pattern("InstanceNormPlain", normalized(), where=is_plain),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        m.x.require_type(np.float32)
        rank = m.x.require_rank()
        for node in (m.mean, m.mean_of_square, m.variance):
            axes = reduced_axes(node, rank)
            if rank < 3 or axes != list(range(2, rank)) or not node.attr("keepdims"):
                refuse("the reductions are not over all axes after the channels")
        channels = m.x.require_size(1, "the number of channels")
        if 0 in [m.x.require_size(axis, "the size of the image") for axis in range(2, rank)]:
            refuse("the image is empty")
        ones = np.ones(channels, m.x.dtype)
        zeros = np.zeros(channels, m.x.dtype)
        if m.factor is not None:
            ones = channel_vector(m.factor, channels, rank)
            zeros = channel_vector(m.addend, channels, rank)
        return new.InstanceNormalization(
            m.x, new.const(ones), new.const(zeros), epsilon=epsilon_of(m)
        )
