"""Networks with blocks for small processors: gates, wide images that depthwise convolutions write
and read, and channels that are split, joined and shuffled.
"""

from __future__ import annotations

import numpy as np
from networks import Network


def squeezed() -> Network:
    """Gates that are multiplied into the weights for each image, with several numbers of output
    channels.
    """
    n = Network(seed=10)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 40, 1)
    channels = 40
    for made in 24, 40, 9:
        y = n.op("Mul", x, n.op("Sigmoid", x))
        s = n.op("Sigmoid", n.conv(n.op("GlobalAveragePool", y), channels, channels, 1))
        x = n.conv(n.op("Mul", y, s), channels, made, 1)
        channels = made
    n.outputs = [n.op("Mul", x, n.op("Sigmoid", x))]
    return n


def inverted() -> Network:
    """Blocks with wide images that depthwise convolutions read, with borders. Some images end with
    half a pair of channel blocks.
    """
    n = Network(seed=11)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 24, 1)
    for channels, kernel, stride in (144, 3, 1), (272, 5, 2), (192, 3, 1):
        y = n.op("HardSwish", n.conv(x, 24, channels, 1))
        y = n.op(
            "Relu", n.conv(y, channels, channels, kernel, group=channels, strides=[stride] * 2)
        )
        s = n.op("HardSigmoid", n.conv(n.op("GlobalAveragePool", y), channels, channels, 1))
        z = n.conv(n.op("Mul", y, s), channels, 24, 1)
        x = n.op("Add", x, z) if stride == 1 else z
    y = n.conv(x, 24, 256)  # it has the same border as all images that are joined with it
    joined = n.op("Concat", y, n.conv(n.conv(y, 256, 256, group=256), 256, 32, 1), axis=1)
    n.outputs = [x, n.op("MaxPool", y, kernel_shape=[2, 2]), n.conv(joined, 288, 24)]
    return n


def shuffled() -> Network:
    """Parts of channel blocks: some channels stay, others go through a block, and then all are
    shuffled.
    """
    n = Network(seed=12)
    x = n.conv(n.input("N", 8, 7, 5), 8, 42, 1)
    for first, group in (13, 2), (16, 3), (27, 7):
        a, b = n.op("Split", x, n.const([first, 42 - first], np.int64), axis=1, outputs=2)
        b = n.op("Relu", n.conv(b, 42 - first, 42 - first, group=42 - first))
        x = n.op("Reshape", n.op("Concat", b, a, axis=1), n.const([0, group, -1, 7, 5], np.int64))
        x = n.op(
            "Reshape", n.op("Transpose", x, perm=[0, 2, 1, 3, 4]), n.const([0, 42, 7, 5], np.int64)
        )
    n.outputs = [x, n.conv(x, 42, 24)]
    return n
