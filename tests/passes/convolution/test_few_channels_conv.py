from __future__ import annotations

from harness import Fires, Stays, tables

ONE = "agraph (float[N,16,{0}] x) => (float[N,{1},{0}] y) <float[{1},16,{2}] W, float[{1}] B> {{ {3} }}"
SAME = "y = Conv <pads = [1, 1, 1, 1]> (x, W, B)"
WINDOW = "the convolution has strides, dilations or groups, or computes its own padding"


def one(node: str = SAME, size: str = "8,8", channels: int = 1, kernel: str = "3,3") -> str:
    return ONE.format(size, channels, kernel, node)


def sized(text: str, result: str) -> str:
    """The same graph with a result of another size."""
    return text.replace("8,8] y", f"{result}] y")


STAYS = [
    Stays("float16", one().replace("float[", "float16["), "the elements are not float32"),
    Stays("strides", sized(one(SAME.replace(" (x", " (x").replace("pads", "strides = [2, 2], pads")), "4,4"), WINDOW),
    Stays("dilations", sized(one(SAME.replace("pads", "dilations = [2, 2], pads")), "6,6"), WINDOW),
    Stays("its own padding", one('y = Conv <auto_pad = "SAME_UPPER"> (x, W, B)'), WINDOW),
    Stays("groups", one("y = Conv <group = 2, pads = [1, 1, 1, 1]> (x, V, B)", channels=2).replace("W, ", "W, float[2,16,3,3] V, ").replace("N,16", "N,32"), WINDOW),
    Stays("an unknown size", one(size="H,8"), "the size of the image is unknown"),
    Stays("an odd size", one(size="7,9"), "no block divides the size of the image"),
    Stays("large weights", one("y = Conv <pads = [4, 4, 4, 4]> (x, W, B)", channels=3, kernel="9,9").replace("N,16", "N,512").replace("3,16", "3,512"), "the weights would become large"),
    Stays("many channels", one(channels=5), None),
    Stays("a small kernel", one("y = Conv (x, W, B)", kernel="1,1"), None),
    Stays("few input channels", one().replace("N,16", "N,8").replace("1,16", "1,8"), None),
    Stays("channels that are no blocks", one(channels=3).replace("N,16", "N,18").replace("3,16", "3,18"), None),
    Stays("weights that are an input", "agraph (float[N,16,8,8] x, float[1,16,3,3] W) => (float[N,1,6,6] y) { y = Conv (x, W) }", None),
    Stays("one axis", "agraph (float[N,16,8] x) => (float[N,1,6] y) <float[1,16,3] W> { y = Conv (x, W) }", None),
    Stays("another target", one(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip

PIXELS = ["Conv", "DepthToSpace"]
LINE = ["Conv", "Reshape", "Transpose", "Reshape"]
FIRES = [
    Fires("one channel", one(), PIXELS, edge_values=False),
    Fires("three channels", one(channels=3), PIXELS, edge_values=False),
    Fires("no bias", one(SAME.replace(", B", "")), PIXELS, edge_values=False),
    Fires("no padding", sized(one("y = Conv (x, W, B)", channels=2), "6,6"), PIXELS, edge_values=False),
    Fires("other padding at each side", sized(one("y = Conv <pads = [0, 2, 1, 1]> (x, W, B)", channels=2, kernel="2,6"), "8,6"), ["Conv", "DepthToSpace"], edge_values=False),
    Fires("a long kernel", one("y = Conv <pads = [1, 15, 1, 15]> (x, W, B)", channels=8, kernel="3,31", size="5,8"), LINE, edge_values=False),
    Fires("a high one", one("y = Conv <pads = [15, 1, 15, 1]> (x, W, B)", channels=8, kernel="31,3", size="8,5"), LINE, edge_values=False),
    Fires("below opset 11", one(), LINE, opset=10, edge_values=False),
    Fires("with its activation", one('y = com.microsoft.FusedConv <activation = "Sigmoid", pads = [1, 1, 1, 1]> (x, W, B)'), ["FusedConv", "DepthToSpace"], edge_values=False),
    Fires("no blocks, but fewer channels", one().replace("N,16", "N,20").replace("1,16", "1,20"), PIXELS, edge_values=False),
]  # fmt: skip

test_stays, test_fires = tables("FewChannelsConvPass", STAYS, FIRES, in_functions="never")
