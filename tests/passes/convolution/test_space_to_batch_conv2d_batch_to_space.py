from harness import Fires, Stays, seen_by_subgraph, tables

SWAP = "Transpose <perm = [1, 0, 2, 3]>"


def graph(
    conv: str = "Conv (d, W, B)",
    apart: str = "SpaceToDepth <blocksize = 2> (b)",
    together: str = "DepthToSpace <blocksize = 2> (f)",
    first: str = SWAP,
    last: str = SWAP,
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,8,8] x",
    swap: str = SWAP,
) -> str:
    return (
        f"agraph ({x}) => (float[k,l,m,n] y) <{W}, float[4] B> {{ b = {first} (x) c = {apart} d = {SWAP} (c) "
        f"e = {conv} f = {swap} (e) g = {together} y = {last} (g) }}"
    )


STAYS = [
    Stays(
        "strides",
        graph("Conv <strides = [2, 2]> (d, W, B)", x="float[N,3,10,10] x"),
        "the Conv has strides",
    ),
    Stays(
        "computed padding",
        graph('Conv <auto_pad = "SAME_UPPER"> (d, W, B)'),
        "the Conv computes its own padding",
    ),
    Stays(
        "another block",
        graph(apart="SpaceToDepth <blocksize = 4> (b)", x="float[N,3,16,16] x"),
        "the block sizes differ",
    ),
    Stays(
        "another order",
        graph(together='DepthToSpace <blocksize = 2, mode = "CRD"> (f)'),
        "the blocks are in another order",
    ),
    Stays("another permutation", graph(swap="Transpose <perm = [1, 0, 3, 2]>"), None),
    Stays(
        "used elsewhere",
        graph().replace("] y)", "] y, float[o,p,q,r] z)").replace("f = ", "z = Neg (e) f = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses the Conv",
        seen_by_subgraph(graph(), "e", "float[o,p,q,r]"),
        "an interior value is used elsewhere",
    ),
]

NHWC = {
    "first": "Transpose <perm = [3, 0, 1, 2]>",
    "last": "Transpose <perm = [1, 2, 3, 0]>",
    "x": "float[N,8,8,3] x",
}
FIRES = [
    Fires("channels first", graph(), ["Conv"]),
    Fires("channels last", graph(**NHWC), ["Transpose", "Conv", "Transpose"]),
    Fires("no bias, VALID", graph('Conv <auto_pad = "VALID"> (d, W)'), ["Conv"]),
    Fires("pads", graph("Conv <pads = [1, 0, 2, 1]> (d, W, B)"), ["Conv"]),
    Fires(
        "dilations", graph("Conv <dilations = [1, 2]> (d, W, B)", x="float[N,3,8,12] x"), ["Conv"]
    ),
    Fires(
        "a block of three, DCR written out",
        graph(
            "Conv (d, W)",
            "SpaceToDepth <blocksize = 3> (b)",
            'DepthToSpace <blocksize = 3, mode = "DCR"> (f)',
            x="float[N,3,9,12] x",
        ),
        ["Conv"],
    ),
    Fires("depthwise", graph("Conv <group = 3> (d, W)", W="float[3,1,3,3] W"), ["Conv"]),
    Fires(
        "weights from outside",
        graph("Conv (d, V, B)", x="float[N,3,8,8] x, float[4,3,3,3] V"),
        ["Conv"],
    ),
    Fires(
        "unknown height and width", graph(x="float[N,3,H,K] x"), ["Conv"], sizes={"H": 6, "K": 8}
    ),
    Fires("no permutation written", graph(last="Transpose"), ["Conv", "Transpose"]),
    Fires("opset 11", graph(), ["Conv"], opset=11),
    Fires("opset 22", graph(), ["Conv"], opset=22),
]

test_stays, test_fires = tables("SpaceToBatchConv2dBatchToSpacePass", STAYS, FIRES)
