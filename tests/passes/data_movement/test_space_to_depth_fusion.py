from harness import Fires, Stays, seen_by_subgraph, tables

ORDER = "[0, 3, 5, 1, 2, 4]"


def blocks(
    order: str = ORDER,
    x: str = "float[2,3,8,10] x",
    apart: str = "{N, 3, 4, 2, 5, 2}",
    together: str = "{N, 12, 4, 5}",
    n: str = "2",
    more: str = "",
) -> str:
    constants = f"int64[6] s = {apart}, int64[4] t = {together}".replace("N", n)
    body = f"a = Reshape (x, s) b = Transpose <perm = {order}> (a) y = Reshape (b, t)"
    return f"agraph ({x}) => (float[A,B,C,D] y{more}) <{constants}> {{ {body} }}"


NUMBERS = "int64[1] n0 = {0}, int64[1] n1 = {1}, int64[1] n2 = {2}, int64[1] n3 = {3}, int64[1] n8 = {8}, int64[1] far = {9223372036854775807}"
ROWS = "r0 = Slice (x, n0, far, n2, n2) r1 = Slice (x, n1, far, n2, n2)"
PIECES = "p = Slice (r0, n0, far, n3, n2) q = Slice (r1, n0, far, n3, n2) r = Slice (r0, n1, far, n3, n2) s = Slice (r1, n1, far, n3, n2)"


def focus(
    names: str = "p, q, r, s",
    x: str = "float[N,3,H,W] x",
    body: str = f"{ROWS} {PIECES}",
    more: str = "",
    axis: int = 1,
    then: str = "",
    constants: str = "",
) -> str:
    result = "c" if then else "y"
    return (
        f"agraph ({x}) => (float[A,B,C,D] y{more}) <{NUMBERS}{constants}> "
        f"{{ {body} {result} = Concat <axis = {axis}> ({names}) {then} }}"
    )


TWO = "int64[2] z = {0, 0}, int64[2] o = {1, 1}, int64[2] a = {0, 1}, int64[2] b = {1, 0}, int64[2] e = {9223372036854775807, 9223372036854775807}, int64[2] axes = {2, -1}, int64[2] t = {2, 2}"
MERGED = "p = Slice (x, z, e, axes, t) q = Slice (x, b, e, axes, t) r = Slice (x, a, e, axes, t) s = Slice (x, o, e, axes, t)"
UNKNOWN = "the shapes are not known to be those of blocks"
IMAGE = "float[N,3,4,6] x"
CONV = "y = Conv (c, K, B)"
WEIGHTS = ", float[5,12,3,3] K, float[5] B"
GATHERED = "int64[4] i = {1,0,3,2}, float[2,4,1,1] K"


def channels(
    index: str = "i", body: str = "y = Conv (b, K)", constants: str = GATHERED, more: str = ""
) -> str:
    return (
        f"agraph (float[N,1,4,6] x) => (float[A,B,C,D] y{more}) <{constants}> "
        f"{{ a = SpaceToDepth <blocksize = 2> (x) b = Gather <axis = 1> (a, {index}) {body} }}"
    )


STAYS = [
    Stays(
        "a height that is odd",
        focus(x="float[N,3,5,6] x", body=f"{ROWS} {PIECES}"),
        None,
        valid=False,
    ),
    Stays(
        "groups of channels",
        channels(
            body="y = Conv <group = 2> (b, K)", constants="int64[4] i = {1,0,3,2}, float[2,2,1,1] K"
        ),
        "the Gather is not a permutation of the channels",
    ),
    Stays("another order", blocks("[0, 1, 3, 2, 5, 4]"), None),
    Stays(
        "blocks that are no squares",
        blocks(apart="{2, 3, 8, 1, 5, 2}", together="{2, 6, 8, 5}"),
        "the blocks are not known to be squares",
    ),
    Stays("other images before", blocks(x="float[2,3,10,8] x"), UNKNOWN),
    Stays("other images behind", blocks(together="{2, 12, 5, 4}"), UNKNOWN),
    Stays(
        "used in between",
        blocks(more=", float[E,F,G,H,I,J] b"),
        "an interior value is a graph output",
    ),
    Stays(
        "elements without a kernel",
        blocks().replace("float[", "int16["),
        "no CPU kernel for SpaceToDepth of these elements",
    ),
    Stays("a piece twice", focus("p, q, r, p"), None),
    Stays("a piece is missing", focus("p, q, r"), None),
    Stays("along another axis", focus(axis=0), None),
    Stays(
        "a piece that ends early",
        focus(body=f"{ROWS} {PIECES}".replace("r1, n1, far", "r1, n1, n8")),
        None,
    ),
    Stays(
        "another step", focus(body=f"{ROWS} {PIECES}".replace("far, n3, n2", "far, n3, n3")), None
    ),
    Stays(
        "of two values",
        focus(
            x="float[N,3,H,W] x, float[N,3,H,W] w",
            body=f"{ROWS} {PIECES}".replace("r1 = Slice (x", "r1 = Slice (w"),
        ),
        None,
    ),
    Stays(
        "the same axis twice",
        focus(body=f"{ROWS} {PIECES}".replace("n3, n2", "n2, n2"), x="float[N,3,8,W] x"),
        None,
    ),
    Stays(
        "bounds from outside",
        focus(x="float[N,3,H,W] x, int64[1] k", body=f"{ROWS} {PIECES}".replace("r1, n1", "r1, k")),
        None,
    ),
    Stays(
        "a piece is used elsewhere",
        focus(more=", float[E,F,G,H] s"),
        "an interior value is a graph output",
    ),
    Stays(
        "channels that are not counted",
        focus(x="float[N,M,4,6] x"),
        "the number of channels is unknown",
    ),
    *[
        Stays(f"an image that may have {what}", focus(x=x), "the image may be smaller than a block")
        for what, x in {
            "a size of 1": "float[N,3,H,W] x",
            "a height of 1": "float[N,3,H,6] x",
            "a width of 1": "float[N,3,4,W] x",
        }.items()
    ],
    Stays(
        "a subgraph uses a piece",
        seen_by_subgraph(focus(x="float[2,3,4,4] x"), "p", "float[2,3,2,2]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "not all channels",
        channels(constants="int64[4] i = {1,0,3,3}, float[2,4,1,1] K"),
        "the Gather is not a permutation of the channels",
    ),
    Stays(
        "groups",
        channels(
            body="y = Conv <group = 2> (b, K)", constants="int64[4] i = {1,0,3,2}, float[2,2,1,1] K"
        ),
        "the Gather is not a permutation of the channels",
    ),
    Stays(
        "some of an unknown number of channels",
        channels().replace("float[N,1,4,6] x", "float[N,C,4,6] x"),
        "the Gather is not known to take all channels",
    ),
    Stays(
        "weights used elsewhere",
        channels(
            body="y = Conv <pads = [1, 1, 1, 1]> (b, K) w = Neg (K)",
            constants="int64[4] i = {1,0,3,2}, float[64,4,3,3] K",
            more=", float[64,4,3,3] w",
        ),
        "large weights are used elsewhere",
    ),
]

FIRES = [
    Fires("blocks", blocks(), ["SpaceToDepth"]),
    *[
        Fires(
            f"blocks, a dynamic batch, written {n}",
            blocks(x="float[N,3,8,10] x", n=n),
            ["SpaceToDepth"],
        )
        for n in ("-1", "0")
    ],
    Fires("PixelUnshuffle", blocks("[0, 1, 3, 5, 2, 4]"), ["SpaceToDepth", "Gather"]),
    Fires(
        "PixelUnshuffle, a dynamic batch",
        blocks("[0, 1, 3, 5, 2, 4]", x="float[N,3,8,10] x", n="-1"),
        ["SpaceToDepth", "Gather"],
    ),
    Fires("YOLOv5", focus(x=IMAGE), ["SpaceToDepth", "Gather"]),
    Fires(
        "YOLOX",
        focus("p, q, r, s", IMAGE, f"{ROWS} {PIECES}"),
        ["SpaceToDepth", "Gather"],
    ),
    Fires("in the order of the operator", focus("p, r, q, s", IMAGE), ["SpaceToDepth"]),
    Fires(
        "both axes at once",
        focus(x=IMAGE, body=MERGED, constants=f", {TWO}"),
        ["SpaceToDepth", "Gather"],
    ),
    Fires(
        "Focus before a Conv",
        focus(then=CONV, constants=WEIGHTS),
        ["SpaceToDepth", "Conv"],
        2,
        sizes={"H": 8, "W": 6},
        edge_values=False,
    ),
    Fires(
        "an image of any size, before a MaxPool and a Conv",
        focus(then="d = MaxPool <kernel_shape = [1, 1]> (c) y = Conv (d, K, B)", constants=WEIGHTS),
        ["SpaceToDepth", "Gather", "MaxPool", "Conv"],
        sizes={"H": 8, "W": 6},
        edge_values=False,
    ),
    Fires("channels in another order", channels(), ["SpaceToDepth", "Conv"], edge_values=False),
    Fires(
        "of a value that is used elsewhere",
        channels(body="y = Conv (b, K) w = Neg (a)", more=", float[E,F,G,H] w"),
        ["SpaceToDepth", "Conv", "Neg"],
        edge_values=False,
    ),
    Fires("opset 10", focus("p, r, q, s", IMAGE), ["SpaceToDepth"], opset=10),
]

test_stays, test_fires = tables("SpaceToDepthFusionPass", STAYS, FIRES, in_functions="less often")
