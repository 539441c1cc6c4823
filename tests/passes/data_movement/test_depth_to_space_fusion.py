from harness import Fires, Stays, seen_by_subgraph, tables

DCR = "[0, 3, 4, 1, 5, 2]"
CRD = "[0, 1, 4, 2, 5, 3]"
BLOCKS = {DCR: "{N, 2, 2, 3, 4, 5}", CRD: "{N, 3, 2, 2, 4, 5}"}


def graph(
    order: str = CRD,
    x: str = "float[2,12,4,5] x",
    apart: str = "",
    together: str = "{N, 3, 8, 10}",
    n: str = "2",
    more: str = "",
) -> str:
    constants = f"int64[6] s = {apart or BLOCKS[order]}, int64[4] t = {together}".replace("N", n)
    body = f"a = Reshape (x, s) b = Transpose <perm = {order}> (a) y = Reshape (b, t)"
    return f"agraph ({x}) => (float[A,B,C,D] y{more}) <{constants}> {{ {body} }}"


UNKNOWN = "the shapes are not known to be those of blocks"
STAYS = [
    Stays("another order", graph("[0, 1, 4, 3, 5, 2]", apart="{2, 3, 2, 2, 4, 5}"), None),
    Stays(
        "blocks that are no squares",
        graph(apart="{2, 2, 2, 3, 4, 5}", together="{2, 2, 8, 15}"),
        "the blocks are not known to be squares",
    ),
    Stays(
        "blocks of one pixel",
        graph(apart="{2, 12, 1, 1, 4, 5}", together="{2, 12, 4, 5}"),
        "the blocks are not known to be squares",
    ),
    Stays("other images before", graph(x="float[2,12,5,4] x"), UNKNOWN),
    Stays("other images behind", graph(together="{2, 3, 10, 8}"), UNKNOWN),
    Stays("columns of the wrong size", graph(DCR, together="{2, 8, 3, 10}"), UNKNOWN),
    Stays(
        "another rank before",
        graph(x="float[24,4,5] x"),
        "the shapes are not those of images cut into blocks",
    ),
    Stays(
        "another rank behind",
        graph(together="{2, 3, 80, 1}")
        .replace("int64[4] t = {2, 3, 80, 1}", "int64[3] t = {2, 3, 80}")
        .replace(",D", ""),
        "the shapes are not those of images cut into blocks",
    ),
    Stays("two unknown dimensions", graph(x="float[N,12,M,5] x", n="-1"), UNKNOWN),
    Stays(
        "elements without a kernel",
        graph().replace("float[", "int16["),
        "no CPU kernel for DepthToSpace of these elements",
    ),
    Stays("opset 9 has one mode only", graph(), "onnx rejects the new DepthToSpace", opset=9),
    Stays(
        "used in between",
        graph(more=", float[E,F,G,H,I,J] b"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses it",
        seen_by_subgraph(graph(), "a", "float[2,3,2,2,4,5]"),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    Fires("by columns", graph(CRD), ["DepthToSpace"]),
    Fires(
        "an empty batch",
        graph(CRD, "float[0,12,4,5] x", "{0, 3, 2, 2, 4, 5}", "{0, 3, 8, 10}"),
        ["DepthToSpace"],
    ),
    Fires("by depth", graph(DCR), ["DepthToSpace"]),
    *[
        Fires(
            f"a dynamic batch, written {n}",
            graph(order, "float[N,12,4,5] x", n=n),
            ["DepthToSpace"],
        )
        for order in (CRD, DCR)
        for n in ("-1", "0")
    ],
    Fires(
        "a channel that follows",
        graph(CRD, "float[N,12,4,5] x", together="{0, -1, 8, 10}", n="0"),
        ["DepthToSpace"],
    ),
    Fires(
        "blocks of three",
        graph(CRD, "float[2,18,4,5] x", "{2, 2, 3, 3, 4, 5}", "{2, 2, 12, 15}"),
        ["DepthToSpace"],
    ),
    Fires("doubles", graph(DCR).replace("float[", "double["), ["DepthToSpace"]),
    Fires("opset 9", graph(DCR), ["DepthToSpace"], opset=9),
    Fires("opset 11", graph(CRD), ["DepthToSpace"], opset=11),
    Fires("for any runtime", graph(CRD), ["DepthToSpace"], target="onnx"),
]

test_stays, test_fires = tables("DepthToSpaceFusionPass", STAYS, FIRES)
