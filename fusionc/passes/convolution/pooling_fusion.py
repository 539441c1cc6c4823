import math

import numpy as np

from fusionc.exactness.signs import is_at_least_zero
from fusionc.model.graph import Node
from fusionc.passes._shared.reduce_axes import known_axes
from fusionc.passes._shared.target import require_floats, require_kernel
from fusionc.passes.convolution._blocked_layout import is_blocked
from fusionc.passes.convolution._windows import covers_all, joint_padding, window_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest, var
from fusionc.shapes.expressions import is_static

x = var("x")
_PADDED = op.Pad(x, rest("options"), _as="pad")
# With more elements per channel, rounding errors in deep models exceed the limit of verification.
_MAX_SUMMED = 256


def _pads(m: Match) -> tuple[list[int], float]:
    """The sum of the pads of Pad and pool, and the number that the Pad writes.

    Refuses pads that would change the number of windows, or that could contain a whole window.
    """
    kernel = m.pool.attr("kernel_shape")
    if m.pool.attr("ceil_mode"):
        refuse("the number of windows is rounded up")
    if set(window_of(m.pool, len(kernel)).dilations) - {1}:
        refuse("the window is dilated")
    pads, value = joint_padding(m.pool, m.pad, len(kernel))
    if any(p >= k for p, k in zip(pads, [*kernel, *kernel], strict=True)):
        refuse("the padding is not smaller than the window")
    return pads, value


def _pad_max(m: Match, new: Tape) -> Result:
    pads, value = _pads(m)
    dtype = m.x.require_type()
    is_integer = dtype.kind in "iu"  # even an absolute value may be negative, by overflow
    lowest = np.iinfo(dtype).min if is_integer else -np.inf
    if value != lowest and (
        value > 0 or np.isnan(value) or is_integer or not is_at_least_zero(m.x)
    ):
        refuse("the padded number may be the maximum of a window")
    return new.MaxPool(m.x, like=m.pool, pads=pads, auto_pad=None)


def _pad_average(m: Match, new: Tape) -> Result:
    pads, value = _pads(m)
    counts_padding = m.pool.attr("count_include_pad")
    if counts_padding is None:
        refuse("the AveragePool of this opset cannot count the padding")
    if not counts_padding and any(window_of(m.pool, len(pads) // 2).pads):
        refuse("the pool does not count its own padding")
    if value != 0:
        refuse("the padding is not zero")
    return new.AveragePool(m.x, like=m.pool, pads=pads, auto_pad=None, count_include_pad=1)


def _is_over_space(m: Match) -> bool:
    """Whether a reduction keeps its axes (keepdims), and is over exactly the spatial axes of an
    image that onnxruntime stores in its blocked layout.
    """
    is_blocked_image = m.x.rank == 4 and m.reduce.attr("keepdims") and is_blocked(m.x)
    return is_blocked_image and known_axes(m.reduce, 4) == [2, 3]


def _is_normalization(m: Match) -> bool:
    """Whether the mean is part of a normalization: subtracted from x, or the mean of squares."""
    node = m.x.producer
    (mean,) = m.outputs
    is_square = node is not None and (
        node.is_op("Pow") or (node.is_op("Mul") and len(set(node.inputs)) == 1)
    )
    return is_square or any(user.is_op("Sub") and m.x in user.inputs for user in mean.outputs)


def _global_mean(m: Match, new: Tape) -> Result:
    if _is_normalization(m):
        refuse("onnxruntime recognizes normalizations by this mean, so it stays")
    space = m.x.shape[2:]
    if not is_static(space) or math.prod(space) > _MAX_SUMMED:
        refuse("a global pool rounds the mean of this many numbers more than ReduceMean")
    return _global_node(m, new, "GlobalAveragePool")


def _global_pool(m: Match, new: Tape) -> Result:
    return _global_node(m, new, f"Global{m.pool.op}")


def _global_node(m: Match, new: Tape, name: str) -> Result:
    require_floats(m.x)
    require_kernel(m, name)
    return new.node(name, [m.x])


def _is_full(m: Match) -> bool:
    """Whether the window is known to cover the whole image, without pads."""
    pool: Node = m.pool
    return covers_all(pool, m.x, pool.attr("kernel_shape"))


class PoolingFusionPass(Pass):
    """A Pad before a pool becomes the padding of the pool; a mean or pool over the whole image
    becomes a global pool.

    before   AveragePool(Pad(x, pads, 0)); MaxPool(Pad(x, pads, v)) with the lowest number as v, or
             with v ≤ 0 if x is at least 0, for example after Relu; ReduceMean over all spatial
             axes; AveragePool or MaxPool with a window as large as the image
    after    AveragePool(x) with these pads and count_include_pad; MaxPool(x) with these pads;
             GlobalAveragePool, GlobalMaxPool
    refuses  padding by another number or in another mode; padding of batch or channels; negative
             padding; padding that is not smaller than the window; an image that is known to be
             empty; after a Pad also a pool with ceil_mode, dilations or auto_pad SAME, and an
             AveragePool that does not count its own padding, or cannot count it (opset below 7); a
             mean that is part of a normalization, or that is taken over more than 256 numbers;
             element types without a kernel
    never    means without keepdims; the mean of a value that does not come from a Conv, directly or
             through activations, pools and sums: for such values, GlobalAveragePool takes 1.3 to
             2.4 times as long
    algebra  AveragePool pads with zeros and can count them; padding by the lowest number does not
             change a maximum. onnxruntime's pools read its blocked layout, but its Pad and
             ReduceMean do not. Its GlobalAveragePool rounds more than its ReduceMean: for 112 · 112
             positive numbers, the error is 3e-6 instead of 6e-7. Results may change for the maximum
             of a window that contains NaN, and for the padding of an image without rows or columns
    source   the name is that of CANN's PoolingFusionPass; the Pads come from torch's avg_pool2d and
             Keras' ZeroPadding2D; measured: a 1×1 Conv in the blocked layout and the mean after it
             take 0.91 to 0.99 of the time
    """

    numerics = "rounding"
    # In onnxruntime, the position of a NaN in a window determines whether the maximum is NaN.
    is_for_finite = True
    patterns = (
        Pattern("PadMaxPool", op.MaxPool(_PADDED, _as="pool"), _pad_max),
        Pattern("PadAveragePool", op.AveragePool(_PADDED, _as="pool"), _pad_average),
        Pattern(
            "ReduceMean",
            op.ReduceMean(x, rest("axes"), _as="reduce"),
            _global_mean,
            where=_is_over_space,
        ),
        Pattern(
            "FullPool", op["AveragePool", "MaxPool"](x, _as="pool"), _global_pool, where=_is_full
        ),
    )
