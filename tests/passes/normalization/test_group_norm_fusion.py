from harness import Fires, Stays, tables


def graph(
    first: str = "{0, 2, -1}",
    ones: str = "{1, 1}",
    second: str = "shape = Shape (x)",
    g: str = "float[4,1,1]",
    y: str = "",
    tail: str = "",
    h: str = "3",
) -> str:
    constants = f"{g} g, {g} b, float[2] ones = {ones}, float[2] zeros = {{0, 0}}, int64[3] first = {first}, int64[4] fixed = {{-1, 4, 3, 5}}, int64[4] other = {{-1, 4, 5, 3}}"
    return f"agraph (float[N,4,{h},5] x) => (float[N,4,{h},5] y{y}) <{constants}> {{ r = Reshape (x, first) i = InstanceNormalization (r, ones, zeros) {second} z = Reshape (i, shape) m = Mul (z, g) y = Add (m, b) {tail} }}"


OTHER = graph(second="shape = Identity (other)").replace(
    "=> (float[N,4,3,5] y", "=> (float[N,4,5,3] y"
)
STAYS = [
    Stays(
        "it shifts",
        graph().replace("zeros = {0, 0}", "zeros = {0, 1}"),
        "the InstanceNormalization has a scale or offset of its own",
        opset=21,
        target="onnx",
    ),
    Stays(
        "no channels",
        graph("{0, 0, 15}", ones="", g="float[0,1,1]")
        .replace("float[N,4,", "float[N,0,")
        .replace("float[2] ", "float[0] ")
        .replace("ones = ", "ones")
        .replace("zeros = {0, 0}", "zeros")
        .replace("-1, 4, ", "-1, 0, "),
        "the Reshapes do not form groups of channels",
        opset=21,
        target="onnx",
    ),
    Stays(
        "groups of the batch",
        graph("{-1, 2, 15}"),
        "the Reshapes do not form groups of channels",
        opset=21,
        target="onnx",
    ),
    Stays("no kernel", graph(), "no CPU kernel for GroupNormalization of float", opset=21),
    Stays(
        "opset 20",
        graph(),
        "before opset 21, GroupNormalization scales each group, not each channel",
        opset=20,
        target="onnx",
    ),
    Stays(
        "it scales",
        graph(ones="{1, 2}"),
        "the InstanceNormalization has a scale or offset of its own",
        opset=21,
        target="onnx",
    ),
    Stays(
        "one number for each row",
        graph(g="float[3,1]"),
        "the constant does not have exactly one number for each channel",
        opset=21,
        target="onnx",
    ),
    Stays(
        "another shape",
        OTHER.replace("shape = Identity (other)", "").replace("(i, shape)", "(i, other)"),
        "the Reshapes do not form groups of channels",
        opset=21,
        target="onnx",
    ),
    Stays(
        "the groups are used elsewhere",
        graph(y=", float[N,2,30] i"),
        "an interior value is a graph output",
        opset=21,
        target="onnx",
    ),
]

FIRES = [
    Fires("the shape of x", graph(), ["GroupNormalization"], opset=21, target="onnx"),
    Fires(
        "a constant shape",
        graph(second="").replace("(i, shape)", "(i, fixed)"),
        ["GroupNormalization"],
        opset=21,
        target="onnx",
    ),
    Fires(
        "rank 4 constants",
        graph(g="float[1,4,1,1]"),
        ["GroupNormalization"],
        opset=22,
        target="onnx",
    ),
]

test_stays, test_fires = tables("GroupNormFusionPass", STAYS, FIRES, in_functions="never")
