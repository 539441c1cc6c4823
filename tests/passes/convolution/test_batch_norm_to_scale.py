from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str,
    c: str = "float[3,1,1] c",
    x: str = "float[N,3,4,4] x",
    statistics: str = "float[3] s, float[3] o, float[3] m, float[3] v",
) -> str:
    out = ",".join("abdef"[: x.split(" x")[0].count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y) <{statistics}, {c}> {{ {body.replace('BN', 'BatchNormalization')} }}"


AFTER = "n = BN (x, s, o, m, v) y = {} (n, c)"
BEFORE = "n = {} (x, c) y = BN (n, s, o, m, v)"
WRONG = "the constant has neither one number nor one number for each channel"
ENLARGES = "the constant may enlarge the value that it is combined with"
STAYS = [
    Stays("along the width", graph(AFTER.format("Mul"), "float[4] c"), WRONG),
    Stays("along the height, before", graph(BEFORE.format("Add"), "float[4,1] c"), WRONG),
    Stays(
        "a rank too high",
        graph(AFTER.format("Mul"), "float[1,1,3,1,1] c").replace("[a,b,d,e]", "[1,a,b,d,e]"),
        WRONG,
    ),
    Stays(
        "what makes channels out of one",
        graph(BEFORE.format("Mul"), x="float[N,1,4,4] x"),
        ENLARGES,
    ),
    Stays("what may make channels", graph(BEFORE.format("Add"), x="float[N,C,4,4] x"), ENLARGES),
    Stays("c minus", graph("n = BN (x, s, o, m, v) y = Sub (c, n)"), None),
    Stays("c divided by", graph("n = Div (c, x) y = BN (n, s, o, m, v)"), None),
    Stays(
        "divided by zero", graph(AFTER.format("Div"), "float c = {0}"), "the factor is not finite"
    ),
    Stays(
        "an infinite addend",
        graph(BEFORE.format("Add"), "float c = {inf}"),
        "the addend is not finite",
    ),
    Stays(
        "a variance below zero",
        graph(
            AFTER.format("Add"),
            statistics="float[3] s, float[3] o, float[3] m, float[3] v = {1,-1,1}",
        ),
        "the addend is not finite",
    ),
    Stays(
        "training mode",
        graph(AFTER.format("Mul"))
        .replace("n = Batch", "n, p, q = Batch")
        .replace("ation (", "ation <training_mode = 1> ("),
        "the BatchNormalization is in training mode",
    ),
    Stays(
        "from outside",
        graph(
            AFTER.format("Mul").replace("(n, c)", "(n, w)"), x="float[N,3,4,4] x, float[3,1,1] w"
        ),
        None,
    ),
    Stays(
        "used elsewhere",
        graph(AFTER.format("Mul"))
        .replace("] y)", "] y, float[N,3,4,4] z)")
        .replace("y = ", "z = Neg (n) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses it",
        seen_by_subgraph(graph(AFTER.format("Mul")), "n", "float[N,3,4,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(graph(BEFORE.format("Mul")), "n", "float[N,3,4,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "an unknown rank",
        "agraph (float[K] k, int64[L] r) => (float[a,b,d,e] y) <float[3] s, float[3] o, float[3] m, float[3] v, float c> "
        "{ x = Reshape (k, r) n = BatchNormalization (x, s, o, m, v) y = Mul (n, c) }",
        "the rank is unknown",
    ),
    Stays(
        "float16 would overflow",
        graph(
            AFTER.format("Mul"),
            "float[1] c = {31743}",
            statistics="float[3] s = {31743,31743,31743}, float[3] o, float[3] m, float[3] v",
        ).replace("float[", "float16["),
        "a constant would overflow in float16",
    ),
]

ONE = ["BatchNormalization"]
FIRES = [
    *[Fires(f"{op} behind", graph(AFTER.format(op)), ONE) for op in ("Mul", "Div", "Add", "Sub")],
    *[Fires(f"{op} before", graph(BEFORE.format(op)), ONE) for op in ("Mul", "Div", "Add", "Sub")],
    Fires("commuted", graph("n = Mul (c, x) p = BN (n, s, o, m, v) y = Add (c, p)"), ONE, 2),
    Fires(
        "all around",
        graph("p = Sub (x, c) q = Div (p, c) n = BN (q, s, o, m, v) r = Mul (n, c) y = Add (r, c)"),
        ONE,
        4,
    ),
    Fires("a scalar", graph(AFTER.format("Mul"), "float c = {0.3}"), ONE),
    Fires(
        "a scalar before, unknown channels",
        graph(BEFORE.format("Add"), "float[1] c = {0.3}", "float[N,C,4,4] x"),
        ONE,
        sizes={"C": 3},
    ),
    Fires("rank 2", graph(AFTER.format("Add"), "float[3] c", "float[N,3] x"), ONE),
    Fires("rank 3, before", graph(BEFORE.format("Mul"), "float[1,3,1] c", "float[N,3,K] x"), ONE),
    Fires("epsilon", graph(AFTER.format("Add").replace("BN", "BN <epsilon = 0.1>")), ONE),
    Fires("float16", graph(AFTER.format("Mul")).replace("float[", "float16["), ONE),
    Fires("opset 9, IR version 3", graph(BEFORE.format("Mul")), ONE, opset=9, ir_version=3),
    Fires("opset 22", graph(AFTER.format("Sub")), ONE, opset=22),
]

test_stays, test_fires = tables("BatchNormToScalePass", STAYS, FIRES, in_functions="never")
