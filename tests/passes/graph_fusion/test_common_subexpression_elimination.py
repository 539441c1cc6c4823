from harness import Fires, Stays, tables

TWICE = "agraph (float[N,3] x, float[N,3] z) => (float[N,3] y) {{ a = {} b = {} y = Sub (a, b) }}"

STAYS = [
    Stays("other attributes", TWICE.format("LeakyRelu <alpha = 0.1> (x)", "LeakyRelu <alpha = 0.2> (x)"), None),
    Stays("other inputs", TWICE.format("Relu (x)", "Relu (z)"), None),
    Stays("operands of Sub swapped", TWICE.format("Sub (x, z)", "Sub (z, x)"), None),
    Stays(
        "Multinomial",
        "agraph (float[N,3] x) => (int32[N,4] y) { a = Multinomial <sample_size = 4> (x) "
        "b = Multinomial <sample_size = 4> (x) y = Sub (a, b) }",
        None,
    ),
    *[
        Stays(op, TWICE.format(f"{op} (x)", f"{op} (x)"), None)
        for op in ("RandomUniformLike", "RandomNormalLike", "Bernoulli")
    ],
    Stays(
        "Dropout in training mode",
        "agraph (float[N,3] x) => (float[N,3] y) <bool t = {1}> "
        "{ a = Dropout (x, , t) b = Dropout (x, , t) y = Sub (a, b) }",
        None,
    ),
    Stays(
        "both are graph outputs",
        "agraph (float[N,3] x) => (float[N,3] a, float[N,3] b) { a = Relu (x) b = Relu (x) }",
        "the result is a graph output and needs a name of its own",
    ),
    Stays(
        "a custom operator",
        "agraph (float[N,3] x) => (float[N,3] y) { a = my.own.Thing (x) b = my.own.Thing (x) y = Sub (a, b) }",
        None,
    ),
]

FIRES = [
    Fires("twice", TWICE.format("Relu (x)", "Relu (x)"), ["Relu", "Sub"]),
    Fires("commuted", TWICE.format("Add (x, z)", "Add (z, x)"), ["Add", "Sub"]),
    Fires(
        "a chain",
        "agraph (float[N,3] x) => (float[N,3] y) { a = Relu (x) b = Relu (x) c = Neg (a) d = Neg (b) y = Add (c, d) }",
        ["Relu", "Neg", "Add"],
        2,
    ),
    Fires(
        "one of them is a graph output",
        "agraph (float[N,3] x) => (float[N,3] y, float[N,3] b) { a = Relu (x) b = Relu (x) y = Neg (a) }",
        ["Relu", "Neg"],
    ),
    Fires(
        "several outputs, some unused",
        """agraph (float[N,4] x) => (float[N,2] y) {
            a, b = Split <axis = 1, num_outputs = 2> (x)
            c, d = Split <axis = 1, num_outputs = 2> (x)
            y = Add (a, d)
        }""",
        ["Split", "Add"],
    ),
]

test_stays, test_fires = tables("CommonSubexpressionEliminationPass", STAYS, FIRES)
