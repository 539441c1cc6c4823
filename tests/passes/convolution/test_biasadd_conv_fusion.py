from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    op: str,
    conv: str = "Conv (x, W)",
    c: str = "float[4,1,1] c",
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,6,6] x",
) -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y) <{W}, float[4] B, {c}> {{ a = {conv} y = {op} }}"


def vector(
    spread: str = "Unsqueeze (b, k)",
    b: str = "float[4] b",
    k: str = "int64[2] k = {1, 2}",
    conv: str = "Conv (x, W)",
    add: str = "Add (a, c)",
    more: str = "",
) -> str:
    """A vector from outside behind a convolution by weights from outside."""
    interface = (
        f"(float[N,3,6,6] x, {b}, float[4,3,3,3] W, float[3,4,2,2] V) => (float[p,q,r,s] y{more})"
    )
    return f"agraph {interface} <{k}, float[4,3,3,3] K> {{ a = {conv} c = {spread} y = {add} }}"


NO_VECTOR = "the addend is not known to have one number for each channel"
WRONG = "the constant has neither one number nor one number for each channel"
STAYS = [
    *[
        Stays(name, graph_, reason)
        for name, graph_, reason in (
            ("a vector along the width", vector(k="int64[2] k = {0, 1}"), NO_VECTOR),
            ("a vector along the height", vector(k="int64[1] k = {1}"), NO_VECTOR),
            ("a vector of unknown length", vector(b="float[M] b"), NO_VECTOR),
            ("a vector of one number", vector(b="float[1] b"), NO_VECTOR),
            (
                "a matrix",
                vector("Reshape (b, k)", "float[2,2] b", "int64[3] k = {4,1,1}"),
                NO_VECTOR,
            ),
            (
                "a vector beside constant weights",
                vector(conv="Conv (x, K)"),
                "with constant weights, onnxruntime's blocked layout needs a constant bias",
            ),
            ("a vector subtracted", vector(add="Sub (a, c)"), None),
            ("a vector behind a bias", vector(conv="Conv (x, W, b)"), None),
            (
                "a vector, the convolution is used",
                vector(more=", float[t,u,v,w] a"),
                "an interior value is a graph output",
            ),
        )
    ],
    Stays(
        "a vector of a rank too high",
        vector("Reshape (b, k)", k="int64[5] k = {1,1,4,1,1}").replace("[p,q,r,s]", "[p,q,r,s,t]"),
        NO_VECTOR,
    ),
    Stays("along the width", graph("Add (a, c)", c="float[4] c"), WRONG),
    Stays("a whole feature map", graph("Add (a, c)", c="float[4,4,4] c"), WRONG),
    Stays(
        "a rank too high",
        graph("Add (a, c)", c="float[1,1,4,1,1] c").replace("[a,b,c,d]", "[1,a,b,c,d]"),
        WRONG,
    ),
    Stays("c minus the convolution", graph("Sub (c, a)"), None),
    Stays(
        "a residual",
        "agraph (float[N,3,6,6] x, float[4,1,1] c) => (float[N,a,b,d] y) <float[4,3,3,3] W> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        None,
    ),
    Stays(
        "a graph output",
        "agraph (float[N,3,6,6] x) => (float[N,4,4,4] y, float[N,4,4,4] a) <float[4,3,3,3] W, float c> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        "an interior value is a graph output",
    ),
    Stays(
        "a default that the caller may override",
        "agraph (float[N,3,6,6] x, float[1] c = {2}) => (float[N,a,b,d] y) <float[4,3,3,3] W> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        None,
    ),
    Stays(
        "weights from outside, of unknown channels",
        "agraph (float[N,3,6,6] x, float[M,3,3,3] W) => (float[N,a,b,d] y) <float c> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        "the sizes of the weights are unknown",
    ),
    Stays(
        "a subgraph uses the convolution",
        seen_by_subgraph(graph("Add (a, c)"), "a", "float[N,4,4,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "more channels than the convolution has", graph("Add (a, c)", W="float[1,3,3,3] W"), WRONG
    ),
    Stays(
        "a bias from outside",
        "agraph (float[N,3,6,6] x, float[4] B) => (float[N,a,b,d] y) <float[4,3,3,3] W, float c> "
        "{ a = Conv (x, W, B) y = Add (a, c) }",
        None,
    ),
    Stays(
        "weights of which the shape is computed",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,d] y) <float[4] sizes = {4,3,3,3}, float c> "
        "{ s = Cast <to = 7> (sizes) W = ConstantOfShape <value = float[1] {0.5}> (s) a = Conv (x, W) y = Add (a, c) }",
        "the sizes of the weights are unknown",
    ),
    Stays(
        "aligned at an axis, before opset 7",
        graph("Add <broadcast = 1, axis = 1> (a, c)", c="float[4] c", x="float[2,3,6,6] x").replace(
            "[a,b,c,d]", "[2,4,4,4]"
        ),
        None,
        opset=6,
    ),
    Stays(  # 31743 are the bits of 65504, the largest number
        "a bias that float16 cannot hold",
        "agraph (float16[N,3,6,6] x) => (float16[N,a,b,d] y) "
        "<float16[4,3,3,3] W, float16[4] B = {31743,0,0,0}, float16 c = {31743}> { a = Conv (x, W, B) y = Add (a, c) }",
        "a constant would overflow in float16",
    ),
    Stays(
        "a rank too high, the channels in the right place",
        "agraph (float[1,3,6,6] x) => (float[a,b,d,e,f] y) <float[4,3,3,3] W, float[1,4,1,1,1] c> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        WRONG,
    ),
    Stays(
        "weights of which the rank is computed",
        """agraph (float[N,3,6,6] x) => (float[N,a,b,d] y)
           <float[108] w, float[4] sizes = {4,3,3,3}, bool[4] k = {1,1,1,1}, float c> {
            s = Cast <to = 7> (sizes)
            t = Compress (s, k)
            W = Reshape (w, t)
            a = Conv (x, W)
            y = Add (a, c)
        }""",
        "the rank of the weights is unknown",
    ),
]

FIRES = [
    Fires("a vector", vector(), ["Conv"]),
    Fires(
        "a vector, commuted",
        vector("Unsqueeze (b, k)", k="int64[3] k = {0,2,3}", add="Add (c, a)"),
        ["Conv"],
    ),
    Fires("a vector, reshaped", vector("Reshape (b, k)", k="int64[4] k = {1,-1,1,1}"), ["Conv"]),
    Fires(
        "a vector behind a ConvTranspose",
        vector(conv="ConvTranspose (x, V)", k="int64[2] k = {1, 2}"),
        ["ConvTranspose"],
    ),
    Fires("a vector that is used", vector(more=", float[t,u,v] c"), ["Unsqueeze", "Conv"]),
    Fires(
        "a vector, opset 11",
        vector("Unsqueeze <axes = [1, 2]> (b)", k="float k"),
        ["Conv"],
        opset=11,
    ),
    *[
        Fires(
            f"weights from outside, {name}",
            f"agraph (float[N,3,6,6] x, float[{W}] W) => (float[N,a,b,d] y) <float[4,1,1] c, float[4] B> "
            f"{{ a = {conv} (x, W{bias}) y = Sub (a, c) }}",
            [conv],
        )
        for name, conv, W, bias in (
            ("without a bias", "Conv", "4,3,3,3", ""),
            ("with one", "Conv", "4,3,3,3", ", B"),
            ("transposed", "ConvTranspose", "3,4,2,2", ""),
        )
    ],
    Fires(
        "weights that are computed",
        "agraph (float[N,3,6,6] x, float[1,3,3,3] w) => (float[N,a,b,d] y) <float[4,1,1,1] f, float[4,1,1] c> "
        "{ W = Mul (w, f) a = Conv (x, W) y = Add (c, a) }",
        ["Mul", "Conv"],
    ),
    Fires("per channel", graph("Add (a, c)"), ["Conv"]),
    Fires("commuted", graph("Add (c, a)"), ["Conv"]),
    Fires("with a leading one", graph("Add (a, c)", c="float[1,4,1,1] c"), ["Conv"]),
    Fires("to a bias", graph("Add (a, c)", "Conv (x, W, B)"), ["Conv"]),
    Fires("a scalar", graph("Add (a, c)", c="float c = {0.3}"), ["Conv"]),
    Fires("one element", graph("Add (a, c)", c="float[1,1] c = {0.3}"), ["Conv"]),
    Fires("subtracted", graph("Sub (a, c)", "Conv (x, W, B)"), ["Conv"]),
    Fires(
        "3-D",
        graph("Add (a, c)", c="float[4,1,1,1] c", W="float[4,3,2,2,2] W", x="float[N,3,4,4,4] x"),
        ["Conv"],
    ),
    Fires(
        "depthwise",
        graph("Add (a, c)", "Conv <group = 4> (x, W)", W="float[4,1,3,3] W", x="float[N,4,6,6] x"),
        ["Conv"],
    ),
    Fires(
        "ConvTranspose",
        graph("Add (a, c)", "ConvTranspose (x, W, B)", W="float[3,4,2,2] W"),
        ["ConvTranspose"],
    ),
    Fires("float16", graph("Add (a, c)").replace("float[", "float16["), ["Conv"]),
    Fires("opset 9, IR version 3", graph("Add (a, c)"), ["Conv"], opset=9, ir_version=3),
    Fires(
        "the result is used twice",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,d] y) <float[4,3,3,3] W, float c> "
        "{ a = Conv (x, W) z = Add (a, c) y = Mul (z, z) }",
        ["Conv", "Mul"],
    ),
    Fires(
        "1-D",
        graph("Add (a, c)", c="float[4,1] c", W="float[4,3,3] W", x="float[N,3,6] x"),
        ["Conv"],
    ),
    Fires(
        "grouped",
        graph("Sub (a, c)", "Conv <group = 2, pads = [1, 1, 1, 1]> (x, W)", x="float[N,6,H,6] x"),
        ["Conv"],
    ),
    Fires("one channel", graph("Add (a, c)", c="float[1,1,1] c", W="float[1,3,3,3] W"), ["Conv"]),
    Fires(
        "added twice",
        graph("Add (b, c)")
        .replace("y = ", "b = Sub (c, a) y = ")
        .replace("Sub (c, a)", "Add (c, a)"),
        ["Conv"],
        2,
    ),
    Fires(
        "a grouped ConvTranspose with padded output",
        graph(
            "Sub (a, c)",
            "ConvTranspose <group = 2, strides = [2, 2], output_padding = [1, 1]> (x, W)",
            W="float[6,2,2,2] W",
            x="float[N,6,4,4] x",
        ),
        ["ConvTranspose"],
    ),
    Fires(
        "weights too large to be stored",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,d] y) <int64[4] s = {4,3,3,3}, float[4,1,1] c> "
        "{ W = ConstantOfShape <value = float[1] {0.5}> (s) a = Conv (x, W) y = Add (a, c) }",
        ["ConstantOfShape", "Conv"],
    ),
    Fires("opset 22", graph("Add (a, c)"), ["Conv"], opset=22),
]

test_stays, test_fires = tables("AABiasaddConvFusion", STAYS, FIRES, in_functions="never")
