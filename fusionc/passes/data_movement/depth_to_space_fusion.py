from fusionc.passes._shared.target import require_kernel
from fusionc.passes.data_movement._pixel_blocks import apart, check, moved, times
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape


def _crd(m: Match, new: Tape) -> Result:
    shape, size = apart(m, 2, 3)
    check(m.x.shape, (shape[0], times(shape[1], size, size), shape[4], shape[5]))
    check(m.outputs[0].shape, (shape[0], shape[1], times(shape[4], size), times(shape[5], size)))
    require_kernel(m, "DepthToSpace")
    return new.DepthToSpace(m.x, blocksize=size, mode="CRD")


class DepthToSpaceFusionPass(Pass):
    """Channels that become blocks of pixels, written as Reshape, Transpose, Reshape, become
    DepthToSpace.

    before   Reshape(Transpose(Reshape(x, [N, b, b, C, H, W]), [0, 3, 4, 1, 5, 2]), [N, C, H·b,
             W·b]), or from [N, C, b, b, H, W] by [0, 1, 4, 2, 5, 3] (PixelShuffle)
    after    DepthToSpace(x, b), in mode DCR or CRD
    refuses  shapes that are not known to be these; elements that the target has no kernel for
    algebra  the definition of DepthToSpace
    source   torch's PixelShuffle, tf2onnx
    """

    patterns = (
        Pattern("DepthColumnRow", moved((0, 3, 4, 1, 5, 2))),
        Pattern("ColumnRowDepth", moved((0, 1, 4, 2, 5, 3)), _crd),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        shape, size = apart(m, 1, 2)
        check(m.x.shape, (shape[0], times(shape[3], size, size), shape[4], shape[5]))
        check(
            m.outputs[0].shape, (shape[0], shape[3], times(shape[4], size), times(shape[5], size))
        )
        require_kernel(m, "DepthToSpace")
        return new.DepthToSpace(m.x, blocksize=size)
