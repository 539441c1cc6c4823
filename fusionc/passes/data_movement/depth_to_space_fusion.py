from fusionc.passes._shared.target import require_kernel
from fusionc.passes.data_movement._pixel_blocks import (
    blocks_of,
    product,
    require_equal_shape,
    transposed_blocks,
)
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape


def _crd(m: Match, new: Tape) -> Result:
    shape, size = blocks_of(m, 2, 3)
    require_equal_shape(m.x.shape, (shape[0], product(shape[1], size, size), shape[4], shape[5]))
    require_equal_shape(
        m.outputs[0].shape, (shape[0], shape[1], product(shape[4], size), product(shape[5], size))
    )
    require_kernel(m, "DepthToSpace")
    return new.DepthToSpace(m.x, blocksize=size, mode="CRD")


class DepthToSpaceFusionPass(Pass):
    """Reshape, Transpose and Reshape that turn channels into blocks of pixels become DepthToSpace.

    before   Reshape(Transpose(Reshape(x, [N, b, b, C, H, W]), [0, 3, 4, 1, 5, 2]), [N, C, H·b,
             W·b]), or with [N, C, b, b, H, W] and [0, 1, 4, 2, 5, 3] (PixelShuffle)
    after    DepthToSpace(x, b), in mode DCR or CRD
    refuses  shapes that are not known to have this form; element types for which the target lacks a
             kernel
    algebra  the definition of DepthToSpace
    source   torch's PixelShuffle, tf2onnx
    """

    patterns = (
        Pattern("DepthColumnRow", transposed_blocks((0, 3, 4, 1, 5, 2))),
        Pattern("ColumnRowDepth", transposed_blocks((0, 1, 4, 2, 5, 3)), _crd),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        shape, size = blocks_of(m, 1, 2)
        require_equal_shape(
            m.x.shape, (shape[0], product(shape[3], size, size), shape[4], shape[5])
        )
        require_equal_shape(
            m.outputs[0].shape,
            (shape[0], shape[3], product(shape[4], size), product(shape[5], size)),
        )
        require_kernel(m, "DepthToSpace")
        return new.DepthToSpace(m.x, blocksize=size)
