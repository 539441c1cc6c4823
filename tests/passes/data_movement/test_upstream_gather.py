from harness import Fires, Stays, optimize, parse, pass_of, seen_by_subgraph, tables

CONSTANTS = (
    "int64 i0 = {0}, int64 i3 = {3}, int64 last = {-1}, int64[1] n0 = {0}, int64[1] n1 = {1}, int64[1] n2 = {2}, "
    "int64[1] m1 = {-1}, int64[1] far = {9223372036854775807}, int64[3] few = {0, 5, -1}, int64[8] many = {0,1,2,3,4,5,6,7}"
)


def graph(
    body: str,
    take: str = "y = Gather <axis = 1> (v, i0)",
    x: str = "float[N,16,128] x",
    y: str = "float[A,B] y",
    constants: str = "",
) -> str:
    return f"agraph ({x}) => ({y}) <{CONSTANTS}{constants and ', '}{constants}> {{ {body} {take} }}"


NORM = "v = LayerNormalization (x, G, B)"
GB = "float[128] G, float[128] B"
W = "float[128,64] W"
SLICE = "y = Slice (v, n0, n1, n1)"
THREE = "float[A,B,C] y"
ATTENTION = "s = MatMul (q, k) t = Add (s, mask) p = Softmax (t) v = MatMul (p, w)"
QKW = "float[N,4,16,32] q, float[N,4,32,16] k, float[N,4,16,32] w"

STAYS = [
    Stays(
        "used elsewhere",
        graph(NORM + " z = Neg (v)", constants=GB, y="float[A,B] y, float[A,B,C] z"),
        None,
    ),
    Stays("a graph output", graph(NORM, constants=GB, y="float[A,B] y, float[A,B,C] v"), None),
    Stays(
        "a subgraph uses it", seen_by_subgraph(graph("v = Relu (x)"), "v", "float[N,16,128]"), None
    ),
    Stays("more than half", graph("v = Relu (x)", "y = Slice (v, n1, far, n1)", y=THREE), None),
    Stays(
        "the axis that is normalized",
        graph(NORM, "y = Gather <axis = 2> (v, i0)", constants=GB),
        None,
    ),
    Stays("the axis of Softmax", graph("v = Softmax <axis = 1> (x)"), None),
    Stays("axes of an old Softmax", graph("v = Softmax <axis = 0> (x)"), None, opset=12),
    Stays("not worth it", graph("v = Relu (x)", x="float[N,4,4] x"), None),
    Stays(
        "shape arithmetic",
        "agraph (float[N,M] x) => (int64 y) <int64 i = {0}, int64 two = {2}> { s = Shape (x) v = Mul (s, two) y = Gather (v, i) }",
        None,
    ),
    Stays(
        "rows that may be broadcast",
        graph("v = Add (x, z)", x="float[N,M,128] x, float[N,K,128] z"),
        None,
    ),
    Stays(
        "an index of several axes",
        graph(
            "v = Relu (x)",
            "y = Gather <axis = 1> (v, k)",
            y="float[A,B,C,D] y",
            constants="int64[1,1] k = {0}",
        ),
        None,
    ),
    Stays(
        "bounds from outside",
        graph(
            "v = Relu (x)", "y = Slice (v, k, n1, n1)", x="float[N,16,128] x, int64[1] k", y=THREE
        ),
        None,
    ),
    Stays(
        "the rows of a convolution",
        graph(
            "v = Conv (x, W)",
            "y = Gather <axis = 2> (v, i0)",
            x="float[N,8,16,32] x",
            y=THREE,
            constants="float[8,8,3,1] W",
        ),
        None,
    ),
    Stays(
        "steps of a convolution",
        graph(
            "v = Conv <strides = [2, 2]> (x, W)",
            "y = Gather <axis = 2> (v, i0)",
            x="float[N,8,16,32] x",
            y=THREE,
            constants="float[8,8,1,1] W",
        ),
        None,
    ),
    Stays(
        "channels of groups",
        graph(
            "v = Conv <group = 2> (x, W)",
            x="float[N,8,16,32] x",
            y=THREE,
            constants="float[8,4,1,1] W",
        ),
        None,
    ),
    Stays("what is reduced", graph("v = ReduceSum (x, n1)", "y = Gather <axis = 1> (v, i0)"), None),
    Stays(
        "rows cut by a Reshape",
        graph("u = Relu (x) v = Reshape (u, s)", constants="int64[3] s = {0, 8, 256}"),
        None,
    ),
    Stays("the joined axis", graph("v = Concat <axis = 1> (x, x)"), None),
    Stays(
        "the squeezed axis comes from nowhere",
        graph("u = Relu (x) v = Unsqueeze (u, n1)", y="float[A,B,C] y"),
        None,
    ),
    Stays(
        "steps backwards",
        graph(
            "v = Relu (x)",
            "y = Slice (v, few1, few0, n1, m1)",
            y=THREE,
            constants="int64[1] few1 = {2}, int64[1] few0 = {0}",
        ),
        None,
    ),
]

FIRES = [
    Fires(
        "rows and columns of one value",
        graph(
            "a = Relu (x) b = Transpose (a) v = Add (a, b)",
            "y = Gather (v, i0)",
            "float[128,128] x",
            "float[128] y",
        ),
        ["Relu", "Gather", "Transpose", "Gather", "Add", "Squeeze"],
    ),
    Fires(
        "the first token", graph(NORM, constants=GB), ["Gather", "LayerNormalization", "Squeeze"]
    ),
    Fires(
        "the last token",
        graph(NORM, "y = Gather <axis = -2> (v, last)", constants=GB),
        ["Gather", "LayerNormalization", "Squeeze"],
    ),
    Fires(
        "the last token, with every axis written, as tf2onnx does",
        graph(
            NORM,
            "y = Slice (v, s, e, axes)",
            constants=GB
            + ", int64[3] s = {0, -1, 0}, int64[3] e = {2147483647, 2147483647, 2147483647}, int64[3] axes = {0, 1, 2}",
            y=THREE,
        ),
        ["Slice", "LayerNormalization"],
    ),
    Fires(
        "some tokens",
        graph(NORM, "y = Gather <axis = 1> (v, few)", constants=GB, y=THREE),
        ["Gather", "LayerNormalization"],
    ),
    Fires(
        "a token from outside",
        graph(NORM, "y = Gather <axis = 1> (v, k)", x="float[N,16,128] x, int32 k", constants=GB),
        ["Unsqueeze", "Gather", "LayerNormalization", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "opset 11: a token from outside",
        graph("v = Relu (x)", "y = Gather <axis = 1> (v, k)", x="float[N,32,128] x, int32 k"),
        ["Unsqueeze", "Gather", "Relu", "Squeeze"],
        opset=11,
        edge_values=False,
    ),
    Fires(
        "tokens from outside",
        graph(
            NORM,
            "y = Gather <axis = 1> (v, k)",
            x="float[N,16,128] x, int64[2] k",
            constants=GB,
            y=THREE,
        ),
        ["Gather", "LayerNormalization"],
        edge_values=False,
    ),
    Fires("Slice", graph(NORM, SLICE, constants=GB, y=THREE), ["Slice", "LayerNormalization"]),
    Fires(
        "Slice with steps",
        graph(NORM, "y = Slice (v, n1, far, n1, n2)", constants=GB, y=THREE),
        ["Slice", "LayerNormalization"],
    ),
    Fires(
        "Slice, opset 9",
        graph("v = Relu (x)", "y = Slice <axes = [1], starts = [0], ends = [1]> (v)", y=THREE),
        ["Slice", "Relu"],
        opset=9,
    ),
    Fires(
        "the last of an unknown number",
        graph(NORM, "y = Slice (v, m1, far, n1)", "float[N,S,128] x", constants=GB, y=THREE),
        ["Slice", "LayerNormalization"],
    ),
    Fires(
        "the first of an unknown number",
        graph(NORM, SLICE, "float[N,S,128] x", constants=GB, y=THREE),
        ["Slice", "LayerNormalization"],
    ),
    Fires(
        "a token of an unknown number",
        graph(NORM, x="float[N,S,128] x", constants=GB),
        ["Gather", "LayerNormalization", "Squeeze"],
        zero_sizes=False,
    ),
    Fires(
        "of the batch",
        graph(NORM, "y = Gather (v, i0)", "float[8,16,128] x", constants=GB),
        ["Gather", "LayerNormalization", "Squeeze"],
    ),
    Fires(
        "a feed-forward layer",
        graph(
            "a = MatMul (x, W) b = Add (a, C) c = Div (b, r) d = Erf (c) e = Add (d, one) f = Mul (b, e) g = MatMul (f, V) h = Add (g, D) v = Add (x, h)",
            constants="float[128,64] W, float[64] C, float r = {1.41}, float[1] one = {1}, float[64,128] V, float[128] D",
        ),
        ["Gather", "MatMul", "Add", "Div", "Erf", "Add", "Mul", "MatMul", "Add", "Add", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "queries",
        graph(ATTENTION, "y = Gather <axis = 2> (v, i0)", QKW + ", float[N,1,1,16] mask", THREE),
        ["Gather", "MatMul", "Add", "Softmax", "MatMul", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "queries with a mask of their own",
        graph(ATTENTION, "y = Gather <axis = 2> (v, i0)", QKW + ", float[16,16] mask", THREE),
        ["Gather", "MatMul", "Gather", "Add", "Softmax", "MatMul", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "heads joined",
        graph(
            "p = Softmax (x) q = MatMul (p, w) r = Transpose <perm = [0, 2, 1, 3]> (q) v = Reshape (r, s)",
            x="float[N,4,16,16] x, float[N,4,16,32] w",
            constants="int64[3] s = {0, 16, 128}",
        ),
        ["Gather", "Softmax", "MatMul", "Transpose", "Reshape", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "heads joined, an open batch",
        graph(
            "r = Abs (x) v = Reshape (r, s)",
            x="float[N,16,8,32] x",
            constants="int64[3] s = {-1, 16, 256}",
        ),
        ["Gather", "Abs", "Reshape", "Squeeze"],
    ),
    Fires(
        "heads joined, open rows",
        graph(
            "r = Abs (x) v = Reshape (r, s)",
            SLICE,
            "float[2,16,8,32] x",
            THREE,
            "int64[3] s = {2, -1, 256}",
        ),
        ["Slice", "Abs", "Reshape"],
    ),
    Fires(
        "columns of a product",
        graph("v = MatMul (x, W)", "y = Gather <axis = 2> (v, i0)", constants=W),
        ["Gather", "MatMul", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "the batch of a product",
        graph("v = MatMul (x, w)", x="float[4,16,8,32] x, float[16,32,8] w", y=THREE),
        ["Gather", "Gather", "MatMul", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "the rows of a Gemm",
        graph(
            "v = Gemm (x, W, C)",
            "y = Slice (v, n0, n1, n0)",
            "float[16,128] x",
            constants=W + ", float[64] C",
        ),
        ["Slice", "Gemm"],
        edge_values=False,
    ),
    Fires(
        "the rows of a Gemm, turned",
        graph(
            "v = Gemm <transA = 1> (x, W, C)",
            "y = Slice (v, n0, n1, n0)",
            "float[128,16] x",
            constants=W + ", float[16,64] C",
        ),
        ["Slice", "Slice", "Gemm"],
        edge_values=False,
    ),
    Fires(
        "the columns of a Gemm",
        graph(
            "v = Gemm <transB = 1> (x, W, C)",
            "y = Slice (v, n0, n1, n1)",
            "float[N,64] x",
            constants=W + ", float[128] C",
        ),
        ["Slice", "Slice", "Gemm"],
        edge_values=False,
    ),
    Fires(
        "pixels of a convolution",
        graph(
            "v = Conv (x, W, C)",
            "y = Gather <axis = 2> (v, i3)",
            "float[N,8,16,32] x",
            THREE,
            "float[8,8,1,1] W, float[8] C",
        ),
        ["Gather", "Conv", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "channels of a convolution",
        graph(
            "v = Conv <pads = [1, 1, 1, 1]> (x, W, C)",
            SLICE,
            "float[N,8,16,32] x",
            "float[A,B,C,D] y",
            "float[8,8,3,3] W, float[8] C",
        ),
        ["Slice", "Slice", "Conv"],
        edge_values=False,
    ),
    Fires(
        "channels of a convolution without a bias",
        graph(
            "v = Conv (x, W)", SLICE, "float[N,8,16,32] x", "float[A,B,C,D] y", "float[8,8,1,1] W"
        ),
        ["Slice", "Conv"],
        edge_values=False,
    ),
    Fires(
        "embeddings",
        graph(
            "e = Gather (T, x) v = Add (e, P)",
            x="int64[N,16] x",
            constants="float[3,128] T, float[16,128] P",
        ),
        ["Gather", "Gather", "Gather", "Add", "Squeeze"],
    ),
    Fires(
        "mean over another axis",
        graph(
            "r = Relu (x) v = ReduceMean (r, n2)", SLICE, "float[N,16,8,16] x", "float[A,B,C,D] y"
        ),
        ["Slice", "Relu", "ReduceMean"],
    ),
    Fires(
        "sum that drops an axis",
        graph(
            "r = Relu (x) v = ReduceSum <keepdims = 0> (r, n1)", SLICE, "float[N,8,16,16] x", THREE
        ),
        ["Slice", "Relu", "ReduceSum"],
    ),
    Fires(
        "Squeeze and Unsqueeze",
        graph(
            "r = Relu (x) s = Squeeze (r, n0) t = Unsqueeze (s, n2) v = Tanh (t)",
            SLICE.replace("n1, n1", "n1, n0"),
            "float[1,16,128] x",
            THREE,
        ),
        ["Slice", "Relu", "Squeeze", "Unsqueeze", "Tanh"],
    ),
    Fires(
        "along another axis than it is joined",
        graph(
            "r = Relu (x) c = Concat <axis = 2> (r, w) v = Tanh (c)",
            SLICE,
            "float[N,16,64] x, float[N,16,64] w",
            THREE,
        ),
        ["Slice", "Relu", "Slice", "Concat", "Tanh"],
    ),
    Fires(
        "an old Softmax",
        graph("v = Softmax <axis = 2> (x)", SLICE, y=THREE),
        ["Slice", "Softmax"],
        opset=12,
        edge_values=False,
    ),
    Fires(
        "Softmax along an earlier axis",
        graph("v = Softmax <axis = 0> (x)", SLICE, y=THREE),
        ["Slice", "Softmax"],
        edge_values=False,
    ),
    Fires(
        "what is used whole and row by row",
        graph(
            "t = Transpose <perm = [0, 2, 1]> (x) s = MatMul (x, t) v = Softmax (s)",
            x="float[N,16,128] x",
        ),
        ["Transpose", "Gather", "MatMul", "Softmax", "Squeeze"],
        edge_values=False,
    ),
    Fires(
        "Where",
        graph(
            "b = Less (x, w) v = Where (b, x, zero)",
            SLICE,
            "float[N,16,128] x, float[128] w",
            THREE,
            "float zero = {0}",
        ),
        ["Slice", "Less", "Where"],
    ),
]

test_stays, test_fires = tables("UpstreamGatherPass", STAYS, FIRES, in_functions="never")


def test_a_layer_normalization_of_an_opset_without_it_which_onnxruntime_runs() -> None:
    graph = """agraph (float[N,S,4] x) => (float[N,4] y) <float[4] g, int64 i = {0}, float[N,S,4] n> {
        n = LayerNormalization (x, g) r = Relu (n) y = Gather <axis = 1> (r, i) }"""
    result, _ = optimize(parse(graph, 13), [pass_of("UpstreamGatherPass")])
    assert result.graph.node[0].op_type == "LayerNormalization"
