from harness import Fires, Stays, tables


def graph(
    body: str, x: str = "float[N,1,3] x", y: str = "float[N,3] y", k: str = "int64[1] k = {1}"
) -> str:
    return f"agraph ({x}) => ({y}) <{k}> {{ {body} }}"


def twice(
    name: str,
    kind: str = "int32",
    first: str = "",
    second: str = "",
    y: str = "N",
    k: str = "int64[1] k = {2}, int64[1] l = {1}",
) -> str:
    body = f"a = {name} <{first}> (x, k) y = {name} <{second}> (a, l)"
    return graph(body.replace(" <>", ""), f"{kind}[N,M,3] x", f"{kind}[{y}] y", k)


FLOATS = "the order of the reductions matters for floating-point numbers"
DROP = "keepdims = 0"
KEEP = "keepdims = 1"
STAYS = [
    Stays(
        "of a single number",
        graph(
            "a = ReduceL2 <keepdims = 0> (x) y = Unsqueeze (a, k)",
            "float x",
            "float[1] y",
            "int64[1] k = {0}",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "more than one element",
        graph("y = ReduceSum <keepdims = 0> (x, k)", "float[N,2,3] x"),
        None,
    ),
    Stays("an unknown size", graph("y = ReduceSum <keepdims = 0> (x, k)", "float[N,M,3] x"), None),
    Stays(
        "all axes",
        graph("y = ReduceSum <keepdims = 0> (x)", y="float y", k="int64[1] k = {0}"),
        None,
    ),
    *[
        Stays(
            f"a {name} of −0 that is divided by",
            graph(f"a = {name} <keepdims = 0> (x, k) y = Reciprocal (a)"),
            "a later division depends on the sign of a zero",
        )
        for name in ("ReduceSum", "ReduceMean")
    ],
    Stays("a norm", graph("y = ReduceL2 <keepdims = 0> (x, k)"), None),
    Stays(
        "axes from outside",
        "agraph (float[1,1,1] x, int64[1] k) => (float[A,B,C] y) { y = ReduceMax (x, k) }",
        None,
    ),
    Stays(
        "other axes put back",
        graph(
            "a = ReduceSum <keepdims = 0> (x, k) y = Unsqueeze (a, l)",
            "float[N,2,3] x",
            "float[1,N,3] y",
            "int64[1] k = {1}, int64[1] l = {0}",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "one axis of two put back",
        graph(
            "a = ReduceSum <keepdims = 0> (x, k) y = Unsqueeze (a, l)",
            "float[N,2,3] x",
            "float[N,1] y",
            "int64[2] k = {1, 2}, int64[1] l = {1}",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "other axes dropped",
        graph(
            "a = ReduceMax <keepdims = 1> (x, k) y = Squeeze (a, l)",
            "float[1,2,3] x",
            "float[1,3] y",
            "int64[1] k = {1}, int64[1] l = {0}",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "whatever is 1 is dropped",
        graph(
            "a = ReduceMax <keepdims = 1> (x, k) y = Squeeze (a)", "float[4,2,3] x", "float[4,3] y"
        ),
        "the axes are not constant",
    ),
    Stays(
        "put back where nothing was dropped",
        graph(
            "a = ReduceMax <keepdims = 1> (x, k) y = Unsqueeze (a, k)",
            "float[4,2,3] x",
            "float[4,1,1,3] y",
        ),
        None,
    ),
    Stays(
        "the reduced value is used elsewhere",
        graph(
            "a = ReduceMax <keepdims = 0> (x, k) y = Unsqueeze (a, k) z = Abs (a)",
            "float[N,2,3] x",
            "float[N,1,3] y, float[N,3] z",
        ),
        "an interior value is used elsewhere",
    ),
    Stays(
        "axes of the Reduce from outside",
        "agraph (float[N,2,3] x, int64[1] k) => (float[A,B,C] y) <int64[1] l = {1}> { a = ReduceMax <keepdims = 0> (x, k) y = Unsqueeze (a, l) }",
        "the axes are not constant",
    ),
    Stays("a sum of sums", twice("ReduceSum", "float", DROP, DROP), FLOATS),
    Stays(
        "a maximum of floats, where a NaN may be lost",
        twice("ReduceMax", "float", DROP, DROP),
        FLOATS,
    ),
    Stays("a mean of means", twice("ReduceMean", "float", DROP, DROP), None),
    Stays(
        "the largest of the smallest",
        graph(
            "a = ReduceMin <keepdims = 0> (x, k) y = ReduceMax <keepdims = 0> (a, l)",
            "float[N,M,3] x",
            "float[N] y",
            "int64[1] k = {2}, int64[1] l = {1}",
        ),
        None,
    ),
    Stays(
        "only the outer keeps",
        twice("ReduceMax", first=DROP, second=KEEP, y="N,1"),
        "only one of the two Reduces has keepdims",
    ),
    Stays(
        "only the inner keeps",
        twice("ReduceMax", first=KEEP, second=DROP, y="N,1"),
        "only one of the two Reduces has keepdims",
    ),
    Stays(
        "used between",
        graph(
            "a = ReduceMax <keepdims = 0> (x, k) y = ReduceMax <keepdims = 0> (a, l) z = Abs (a)",
            "float[N,M,3] x",
            "float[N] y, float[N,M] z",
            "int64[1] k = {2}, int64[1] l = {1}",
        ),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    *[
        Fires(
            f"Reduce{n} of one",
            graph(f"a = Reduce{n} <keepdims = 0> (x, k) y = Abs (a)"),
            ["Squeeze", "Abs"],
        )
        for n in ("Sum", "Mean", "Max", "Min", "Prod")
    ],
    Fires(
        "kept",
        graph("a = ReduceSum <keepdims = 1> (x, k) y = Abs (a)", y="float[N,1,3] y"),
        ["Abs"],
    ),
    Fires(
        "kept by default",
        graph("a = ReduceMax (x, k) y = Abs (a)", y="float[N,1,3] y", k="int64[1] k = {-2}"),
        ["Abs"],
    ),
    Fires(
        "all axes of one",
        graph(
            "a = ReduceMean <keepdims = 0> (x) y = Abs (a)",
            "float[1,1] x",
            "float y",
            "int64[1] k = {0}",
        ),
        ["Squeeze", "Abs"],
    ),
    Fires(
        "no axes",
        graph(
            "a = ReduceSum <noop_with_empty_axes = 1> (x) y = Abs (a)",
            y="float[N,1,3] y",
            k="int64[1] k = {0}",
        ),
        ["Abs"],
    ),
    Fires(
        "integers of one",
        graph("y = ReduceSum <keepdims = 0> (x, k)", "int64[N,1,3] x", "int64[N,3] y"),
        ["Squeeze"],
    ),
    Fires("of rank 0", graph("a = ReduceSum (x) y = Abs (a)", "float x", "float y"), ["Abs"]),
    *[
        Fires(
            f"Reduce{n} put back",
            graph(
                f"a = Reduce{n} <keepdims = 0> (x, k) y = Unsqueeze (a, k)",
                "float[N,2,3] x",
                "float[N,1,3] y",
            ),
            [f"Reduce{n}"],
        )
        for n in ("Sum", "Mean", "L2", "LogSumExp")
    ],
    Fires(
        "two axes put back",
        graph(
            "a = ReduceMean <keepdims = 0> (x, k) y = Unsqueeze (a, l)",
            "float[N,2,3] x",
            "float[N,1,1] y",
            "int64[2] k = {2, 1}, int64[2] l = {-2, -1}",
        ),
        ["ReduceMean"],
    ),
    Fires(
        "ArgMax put back",
        graph(
            "a = ArgMax <axis = -2, keepdims = 0> (x) y = Unsqueeze (a, k)",
            "float[N,2,3] x",
            "int64[N,1,3] y",
        ),
        ["ArgMax"],
        zero_sizes=False,
    ),  # there onnxruntime forgets to drop the dimension
    Fires(
        "dropped at last",
        graph(
            "a = ReduceMean (x, k) y = Squeeze (a, l)",
            "float[N,2,3] x",
            k="int64[1] k = {1}, int64[1] l = {-2}",
        ),
        ["ReduceMean"],
    ),
    Fires(
        "ArgMin dropped at last",
        graph("a = ArgMin <axis = 1> (x) y = Squeeze (a, k)", "float[N,2,3] x", "int64[N,3] y"),
        ["ArgMin"],
    ),
    Fires("the largest of the largest", twice("ReduceMax", first=DROP, second=DROP), ["ReduceMax"]),
    Fires(
        "the smallest of the smallest",
        twice("ReduceMin", first=KEEP, second=KEEP, y="N,1,1"),
        ["ReduceMin"],
    ),
    Fires(
        "the first axis at last",
        twice("ReduceMax", first=DROP, second=DROP, y="M", k="int64[1] k = {2}, int64[1] l = {0}"),
        ["ReduceMax"],
    ),
    Fires(
        "an axis behind the dropped one",
        twice("ReduceMax", first=DROP, second=DROP, k="int64[1] k = {1}, int64[1] l = {-1}"),
        ["ReduceMax"],
        zero_sizes=False,
    ),
    Fires(
        "the inner axes again",
        twice("ReduceMax", first=KEEP, second=DROP, k="int64[1] k = {2}, int64[2] l = {1, 2}"),
        ["ReduceMax"],
    ),
    Fires("sums of integers", twice("ReduceSum", "int32", DROP, DROP), ["ReduceSum"]),
    Fires(
        "products of integers", twice("ReduceProd", "int64", KEEP, KEEP, "N,1,1"), ["ReduceProd"]
    ),
    *[
        Fires(
            f"of one, opset {o}",
            graph("a = ReduceSum <axes = [1], keepdims = 0> (x) y = Abs (a)", k="float k = {1}"),
            ["Squeeze", "Abs"],
            opset=o,
        )
        for o in (7, 11)
    ],
    Fires(
        "of one, opset 13",
        graph("a = ReduceMax <axes = [1], keepdims = 0> (x) y = Abs (a)"),
        ["Squeeze", "Abs"],
        opset=13,
    ),
    Fires(
        "put back, opset 11",
        graph(
            "a = ReduceMean <axes = [1], keepdims = 0> (x) y = Unsqueeze <axes = [-2]> (a)",
            "float[N,2,3] x",
            "float[N,1,3] y",
        ),
        ["ReduceMean"],
        opset=11,
    ),
    Fires(
        "put back, opset 13",
        graph(
            "a = ReduceMean <axes = [1], keepdims = 0> (x) y = Unsqueeze (a, k)",
            "float[N,2,3] x",
            "float[N,1,3] y",
        ),
        ["ReduceMean"],
        opset=13,
    ),
    Fires(
        "twice, opset 13",
        graph(
            "a = ReduceMax <axes = [2], keepdims = 0> (x) y = ReduceMax <axes = [1], keepdims = 0> (a)",
            "int32[N,M,3] x",
            "int32[N] y",
        ),
        ["ReduceMax"],
        opset=13,
    ),
    Fires(
        "sums, opset 11",
        graph(
            "a = ReduceSum <axes = [2], keepdims = 0> (x) y = ReduceSum <axes = [1], keepdims = 0> (a)",
            "int32[N,M,3] x",
            "int32[N] y",
        ),
        ["ReduceSum"],
        opset=11,
    ),
]

test_stays, test_fires = tables("AReduceSumFusionPass", STAYS, FIRES, in_functions="never")
