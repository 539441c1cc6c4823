import onnx
from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    outer: str = "p, q = Split <axis = 1> (x, s)",
    inner: str = "u, v = Split <axis = 1> (q, t)",
    sizes: str = "int64[2] s = {2,4}, int64[2] t = {1,3}",
    outputs: str = "float[N,a] p, float[N,b] u, float[N,c] v",
    more: str = "",
    inputs: str = "float[N,6] x",
) -> str:
    return f"agraph ({inputs}) => ({outputs}) <{sizes}> {{ {outer} {inner} {more} }}"


def function(first: str, second: str) -> onnx.ModelProto:
    """Two Splits in a function: the axis of one of them is its attribute k."""
    axes = [f"axis: int = @{axis}" if axis == "k" else f"axis = {axis}" for axis in (first, second)]
    model: onnx.ModelProto = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 18, "functions" : 1]>
        agraph (float[4,8] x) => (float[a,b] y) {{ y = functions.own <k = 0> (x) }}
        <domain: "functions", opset_import: ["" : 18]>
        own <k> (a) => (u) {{
            p, q = Split <{axes[0]}, num_outputs = 2> (a)
            u, v = Split <{axes[1]}, num_outputs = 2> (q)
        }}
    """)
    return model


STAYS = [
    Stays(
        "sizes that are no vector",
        graph(sizes="int64[2] s = {2,4}, int64[2,1] t = {1,3}"),
        "the sizes are unknown",
        valid=False,
    ),
    Stays(
        "fewer sizes than pieces",
        graph(sizes="int64[2] s = {2,4}, int64[1] t = {4}"),
        "the sizes are unknown",
        valid=False,
    ),
    Stays(
        "another axis",
        graph(
            inner="u, v = Split <axis = 0> (q, t)",
            inputs="float[4,6] x",
            outputs="float[4,a] p, float[b,c] u, float[d,e] v",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "the piece is used as a whole",
        graph(more="w = Neg (q)", outputs="float[N,a] p, float[N,b] u, float[N,c] w"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the piece is a graph output",
        graph(outputs="float[N,a] p, float[N,b] u, float[N,4] q"),
        "an interior value is a graph output",
    ),
    Stays(
        "sizes from outside",
        graph(sizes="int64[2] t = {1,3}", inputs="float[N,6] x, int64[2] s"),
        "the sizes are unknown",
    ),
    Stays(
        "equal pieces of an unknown dimension",
        graph(
            "p, q = Split <axis = 1, num_outputs = 2> (x)",
            "u, v = Split <axis = 1, num_outputs = 2> (q)",
            "int64 unused = {0}",
            inputs="float[N,M] x",
        ),
        "the sizes are unknown",
    ),
    Stays(
        "a subgraph uses the piece",
        seen_by_subgraph(graph(), "q", "float[N,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "two Splits of one piece",
        graph(
            more="d, e = Split <axis = 1> (q, t)",
            outputs="float[N,a] p, float[N,b] u, float[N,c] e",
        ),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the outer one is outside of the subgraph",
        """agraph (float[2,8] x, bool c) => (float[2,2] y) {
            p, q = Split <axis = 1, num_outputs = 2> (x)
            y = If (c) <then_branch = t () => (float[2,2] u) { u, v = Split <axis = 1, num_outputs = 2> (q) },
                        else_branch = e () => (float[2,2] w) { w, z = Split <axis = 1, num_outputs = 2> (p) }>
        }""",
        None,
    ),
    Stays(
        "sizes that the caller may override",
        graph(sizes="int64[2] t = {1,3}", inputs="float[N,6] x, int64[2] s = {2,4}"),
        "the sizes are unknown",
    ),
    Stays(
        "axes that only the rank makes equal",
        """agraph (float[M] x, int64[K] k) => (float[a,b] p, float[c,d] u, float[e,f] v)
           <int64[2] s = {2,4}, int64[2] t = {1,3}> {
            r = Reshape (x, k)
            p, q = Split <axis = 1> (r, s)
            u, v = Split <axis = -1> (q, t)
        }""",
        "the axes of the two operators differ",
    ),
    Stays(
        "more pieces than there can be",
        graph(
            "p, q, r, w = Split <axis = 1, num_outputs = 4> (x)",
            "u, v = Split <axis = 1, num_outputs = 2> (q)",
            "int64 unused = {0}",
            inputs="float[N,5] x",
        ),
        "the sizes are unknown",
        valid=False,
    ),
    Stays(
        "something between them", graph(inner="k = Neg (q) u, v = Split <axis = 1> (k, t)"), None
    ),
    Stays(
        "axes from the back of an unknown rank",
        """agraph (float[M] x, int64[K] k) => (float[a,b] p, float[c,d] u, float[e,f] v)
           <int64[2] s = {2,4}, int64[2] t = {1,3}> {
            r = Reshape (x, k)
            p, q = Split <axis = -1> (r, s)
            u, v = Split <axis = -2> (q, t)
        }""",
        "the axes of the two operators differ",
    ),
    Stays(
        "sizes of the second from outside",
        graph(sizes="int64[2] s = {2,4}", inputs="float[N,6] x, int64[2] t"),
        "the sizes are unknown",
    ),
    Stays("the axis of the first is a parameter of a function", lambda: function("k", "1"), None),
    Stays("the axis of the second is a parameter of a function", lambda: function("1", "k"), None),
]

FIRES = [
    Fires("the last piece", graph(), ["Split"]),
    Fires(
        "the first piece",
        graph(
            inner="u, v = Split <axis = 1> (p, t)",
            sizes="int64[2] s = {4,2}, int64[2] t = {1,3}",
            outputs="float[N,a] q, float[N,b] u, float[N,c] v",
        ),
        ["Split"],
    ),
    Fires("a negative axis", graph(inner="u, v = Split <axis = -1> (q, t)"), ["Split"]),
    Fires("some pieces unused", graph(outputs="float[N,c] v"), ["Split"]),
    Fires(
        "equal pieces",
        graph(
            "p, q = Split <axis = 1, num_outputs = 2> (x)",
            "u, v = Split <axis = 1, num_outputs = 2> (q)",
            "int64 unused = {0}",
        ),
        ["Split"],
    ),
    Fires("an empty piece", graph(sizes="int64[2] s = {2,4}, int64[2] t = {0,4}"), ["Split"]),
    Fires(
        "three deep",
        graph(
            more="e, f = Split <axis = 1> (v, w)",
            sizes="int64[2] s = {2,4}, int64[2] t = {1,3}, int64[2] w = {2,1}",
            outputs="float[N,a] p, float[N,b] e, float[N,c] f",
        ),
        ["Split"],
        2,
    ),
    Fires(
        "opset 11",
        graph(
            "p, q = Split <axis = 1, split = [2, 4]> (x)",
            "u, v = Split <axis = 1, split = [1, 3]> (q)",
            "int64 unused = {0}",
        ),
        ["Split"],
        opset=11,
    ),
    Fires(
        "opset 13, equal pieces",
        graph(
            "p, q = Split <axis = 1> (x)",
            "u, v = Split <axis = 1> (q)",
            "int64 unused = {0}",
            inputs="float[N,8] x",
        ),
        ["Split"],
        opset=13,
    ),
    Fires(
        "the outer value is used in between",
        graph(more="w = Relu (p)", outputs="float[N,a] w, float[N,b] u, float[N,c] v"),
        ["Split", "Relu"],
    ),
    Fires(
        "a smaller last piece",
        graph(
            "p, q = Split <axis = 1, num_outputs = 2> (x)",
            "u, v = Split <axis = 1, num_outputs = 2> (p)",
            "int64 unused = {0}",
            outputs="float[N,a] q, float[N,b] u, float[N,c] v",
            inputs="float[N,5] x",
        ),
        ["Split"],
    ),
    Fires(
        "two pieces, both cut",
        graph(
            more="e, f = Split <axis = 1> (p, w)",
            sizes="int64[2] s = {2,4}, int64[2] t = {1,3}, int64[2] w = {1,1}",
            outputs="float[N,a] f, float[N,b] u, float[N,c] v",
        ),
        ["Split"],
        2,
    ),
    Fires(
        "along an unknown dimension",
        "agraph (float[M,3] x) => (float[a,3] p, float[b,3] u, float[c,3] v) <int64[2] s = {2,4}, int64[2] t = {1,3}> "
        "{ p, q = Split (x, s) u, v = Split (q, t) }",
        ["Split"],
        sizes={"M": 6},
    ),
    Fires(
        "strings",
        graph().replace("float[", "string["),
        ["Split"],
    ),
    Fires("integers", graph().replace("float[", "int64["), ["Split"]),
    Fires(
        "a piece of a single one",
        graph(
            "q = Split <axis = 1, num_outputs = 1> (x)",
            "u, v = Split <axis = 1> (q, t)",
            "int64[2] t = {2,4}",
            outputs="float[N,b] u, float[N,c] v",
        ),
        ["Split"],
    ),
    Fires(
        "opset 7, IR version 3",
        graph(
            "p, q = Split <axis = 1> (x)",
            "u, v = Split <axis = 1> (q)",
            "int64 unused = {0}",
            inputs="float[N,8] x",
        ),
        ["Split"],
        opset=7,
        ir_version=3,
    ),
]

test_stays, test_fires = tables("ZSplitVDFusionPass", STAYS, FIRES, in_functions="less often")
