"""Networks of blocks as they are made for small processors: gates, wide images that are made and read by channel."""

from __future__ import annotations

from networks import Network


def squeezed() -> Network:
    """Weights that are multiplied for each image: of one block out, of a pair, and of one and a half."""
    n = Network(seed=10)
    x, channels = n.conv(n.input("N", 8, "H", "W"), 8, 40, 1), 40
    for made in 24, 40, 9:
        y = n.op("Mul", x, n.op("Sigmoid", x))
        s = n.op("Sigmoid", n.conv(n.op("GlobalAveragePool", y), channels, channels, 1))
        x, channels = n.conv(n.op("Mul", y, s), channels, made, 1), made
    n.outputs = [n.op("Mul", x, n.op("Sigmoid", x))]
    return n


def inverted() -> Network:
    """Blocks whose wide images are made and read by channel, with borders, the last one of half a pair."""
    n = Network(seed=11)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 24, 1)
    for channels, kernel, stride in (144, 3, 1), (272, 5, 2), (192, 3, 1):
        y = n.op("HardSwish", n.conv(x, 24, channels, 1))
        y = n.op("Relu", n.conv(y, channels, channels, kernel, group=channels, strides=[stride] * 2))
        s = n.op("HardSigmoid", n.conv(n.op("GlobalAveragePool", y), channels, channels, 1))
        z = n.conv(n.op("Mul", y, s), channels, 24, 1)
        x = n.op("Add", x, z) if stride == 1 else z
    y = n.conv(x, 24, 256)  # its border is that of all that it is joined with
    joined = n.op("Concat", y, n.conv(n.conv(y, 256, 256, group=256), 256, 32, 1), axis=1)
    n.outputs = [x, n.op("MaxPool", y, kernel_shape=[2, 2]), n.conv(joined, 288, 24)]
    return n
