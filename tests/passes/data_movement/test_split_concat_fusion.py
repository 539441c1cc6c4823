from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    concat: str,
    split: str = "p, q = Split <axis = 1, num_outputs = 2> (r)",
    x: str = "float[N,4] x",
    more: str = "",
    y: str = "",
) -> str:
    out = ",".join("abcdef"[: x.count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y{y}) {{ r = Relu (x) {split} z = {concat} y = Neg (z) {more} }}"


STAYS = [
    Stays("another order", graph("Concat <axis = 1> (q, p)"), None),
    Stays("a piece twice", graph("Concat <axis = 1> (p, q, q)"), None),
    Stays(
        "not all pieces",
        graph(
            "Concat <axis = 1> (p, q)",
            "p, q, s = Split <axis = 1, num_outputs = 3> (r)",
            "float[N,6] x",
        ),
        None,
    ),
    Stays(
        "a piece is used elsewhere",
        graph("Concat <axis = 1> (p, q)", more="w = Abs (p)", y=", float[N,2] w"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "another axis, unequal pieces",
        graph(
            "Concat <axis = 0> (p, q)",
            "p, q = Split <axis = 1, num_outputs = 2> (r)",
            "float[N,4] x",
        )
        .replace("num_outputs = 2> (r)", "num_outputs = 2> (r)")
        .replace("float[N,4] x", "float[N,M] x"),
        "the pieces are not known to be equal",
    ),
    Stays(
        "another axis, two unknown dimensions",
        graph(
            "Concat <axis = 1> (p, q)",
            "p, q = Split <axis = 2, num_outputs = 2> (r)",
            "float[N,M,4] x",
        ),
        "more than one dimension is unknown",
    ),
    Stays(
        "a subgraph uses a piece",
        seen_by_subgraph(graph("Concat <axis = 1> (p, q)"), "p", "float[N,2]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a piece is a graph output",
        graph("Concat <axis = 1> (p, q)", y=", float[N,2] p"),
        "an interior value is a graph output",
    ),
    Stays(
        "another axis, no elements",
        graph("Concat <axis = 0> (p, q)", x="float[0,4] x"),
        "a dimension is 0, which Reshape would copy",
    ),
    Stays(
        "another axis, sizes from outside",
        graph(
            "Concat <axis = 0> (p, q)", "p, q = Split <axis = 1> (r, s)", "float[N,4] x, int64[2] s"
        ).replace("[a,b,c] y", "[a,b] y"),
        "the pieces are not known to be equal",
    ),
    Stays(
        "another axis, sizes that differ",
        "agraph (float[2,4] x) => (float[a,b] y) <int64[2] s = {4,0}> "
        "{ p, q = Split <axis = 1> (x, s) y = Concat <axis = 0> (p, q) }",
        "the pieces are not known to be equal",
        valid=False,
    ),
    Stays(
        "axes that only the rank makes equal",
        """agraph (float[M] x, int64[K] k) => (float[a,b] y) {
            r = Reshape (x, k)
            p, q = Split <axis = 1, num_outputs = 2> (r)
            y = Concat <axis = -1> (p, q)
        }""",
        "the rank is unknown",
    ),
    Stays(
        "another axis before opset 5",
        "agraph (float[2,4] x) => (float[a,b] y) { p, q = Split <axis = 1> (x) y = Concat <axis = 0> (p, q) }",
        "onnx rejects the new Reshape",
        opset=4,
    ),
    Stays(
        "pieces of two Splits",
        graph(
            "Concat <axis = 1> (p, t)",
            "p, q = Split <axis = 1, num_outputs = 2> (r) s, t = Split <axis = 1, num_outputs = 2> (r)",
        ),
        None,
    ),
    Stays(
        "another axis of an unknown rank",
        """agraph (float[M] x, int64[K] k) => (float[a,b] y) <int64[2] s = {2,2}> {
            r = Reshape (x, k)
            p, q = Split <axis = 1> (r, s)
            y = Concat <axis = 0> (p, q)
        }""",
        "the rank is unknown",
    ),
    Stays(
        "axes from the back of an unknown rank",
        """agraph (float[M] x, int64[K] k) => (float[a,b] y) {
            r = Reshape (x, k)
            p, q = Split <axis = -1, num_outputs = 2> (r)
            y = Concat <axis = -2> (p, q)
        }""",
        "the rank is unknown",
    ),
]

MOVED = ["Relu", "Reshape", "Transpose", "Reshape", "Neg"]
FIRES = [
    Fires("the same axis", graph("Concat <axis = 1> (p, q)"), ["Relu", "Neg"]),
    Fires("a negative axis", graph("Concat <axis = -1> (p, q)"), ["Relu", "Neg"]),
    Fires(
        "unequal pieces of the same axis",
        graph(
            "Concat <axis = 1> (p, q)",
            "p, q = Split <axis = 1, num_outputs = 2> (r)",
            "float[N,5] x",
        ),
        ["Relu", "Neg"],
    ),
    Fires("the batch", graph("Concat <axis = 0> (p, q)"), MOVED),
    Fires("to a later axis", graph("Concat <axis = 2> (p, q)", x="float[N,4,3] x"), MOVED),
    Fires(
        "to an earlier axis",
        graph(
            "Concat <axis = 1> (p, q)",
            "p, q = Split <axis = 3, num_outputs = 2> (r)",
            "float[N,3,5,4] x",
        ),
        MOVED,
    ),
    Fires(
        "three pieces, opset 11",
        graph("Concat <axis = 2> (p, q, s)", "p, q, s = Split <axis = 1> (r)", "float[N,6,3] x"),
        MOVED,
        opset=11,
    ),
    Fires(
        "from and to the unknown dimension",
        graph(
            "Concat <axis = 0> (p, q)",
            "p, q = Split <axis = 2, num_outputs = 2> (r)",
            "float[N,3,4] x",
        ),
        MOVED,
    ),
    Fires(
        "the batch, dynamic",
        graph("Concat <axis = 0> (p, q)", x="float[N,4] x"),
        MOVED,
        sizes={"N": 1},
    ),
    Fires(
        "sizes written out",
        graph(
            "Concat <axis = 0> (p, q)",
            "k = Constant <value_ints = [2, 2]> () p, q = Split <axis = 1> (r, k)",
        ),
        MOVED,
    ),
    Fires(
        "the same axis, sizes that the caller may override",
        """agraph (float[N,4] x, int64[2] s = {1,3}) => (float[N,4] y) {
            r = Relu (x)
            p, q = Split <axis = 1> (r, s)
            z = Concat <axis = 1> (p, q)
            y = Neg (z)
        }""",
        ["Relu", "Neg"],
    ),
    Fires(
        "the same axis of an unknown rank",
        """agraph (float[N,4] x) => (float[M,K] y) {
            s = Shape (x)
            t = Abs (s)
            r = Reshape (x, t)
            p, q = Split <axis = 1, num_outputs = 2> (r)
            z = Concat <axis = 1> (p, q)
            y = Neg (z)
        }""",
        ["Shape", "Abs", "Reshape", "Neg"],
    ),
    Fires(
        "one piece, another axis",
        graph("Concat <axis = 0> (p)", "p = Split <axis = 1, num_outputs = 1> (r)"),
        MOVED,
    ),
    Fires(
        "strings",
        """agraph (string[N,4] x) => (string[N,8] y) {
            p, q = Split <axis = 1, num_outputs = 2> (x)
            z = Concat <axis = 1> (p, q)
            y = Concat <axis = 1> (z, x)
        }""",
        ["Concat"],
    ),
    Fires(
        "integers, another axis",
        graph("Concat <axis = 0> (p, q)").replace("float[", "int32[").replace("Relu", "Abs"),
        ["Abs", *MOVED[1:]],
    ),
    Fires(
        "the result is a graph output",
        """agraph (float[N,4] x) => (float[N,4] y) {
            r = Relu (x)
            p, q = Split <axis = 1, num_outputs = 2> (r)
            y = Concat <axis = 1> (p, q)
        }""",
        ["Relu"],
    ),
    Fires(
        "opset 13",
        graph("Concat <axis = 0> (p, q)", "p, q = Split <axis = 1> (r)"),
        MOVED,
        opset=13,
    ),
    Fires(
        "opset 7, IR version 3",
        graph("Concat <axis = 0> (p, q)", "p, q = Split <axis = 1> (r)"),
        MOVED,
        opset=7,
        ir_version=3,
    ),
]

test_stays, test_fires = tables("SplitConcatFusionPass", STAYS, FIRES, in_functions="less often")
