from harness import Fires, Stays, tables

BETWEEN = "agraph (float[N,3] x) => (float[N,3] y) {{ a = Relu (x) b = {} y = Neg (b) }}"

NAMED = "the result is a graph output and needs a name of its own"

STAYS = [
    Stays(
        "from an input to an output",
        "agraph (float[N,3] x) => (float[N,3] y) { y = Identity (x) }",
        NAMED,
    ),
    Stays(
        "from an output to an output",
        "agraph (float[N,3] x) => (float[N,3] a, float[N,3] y) { a = Relu (x) y = Identity (a) }",
        NAMED,
    ),
    Stays("two inputs", BETWEEN.format("Sum (a, a)"), None),
    Stays(
        "an Einsum that transposes",
        'agraph (float[3,3] x) => (float[3,3] y) { a = Relu (x) b = Einsum <equation = "ij->ji"> (a) y = Neg (b) }',
        None,
    ),
    Stays(
        "an Einsum that sorts its axes",
        'agraph (float[3,3] x) => (float[3,3] y) { a = Relu (x) b = Einsum <equation = "ba"> (a) y = Neg (b) }',
        None,
    ),
    Stays(
        "an Einsum of a diagonal",
        'agraph (float[3,3] x) => (float[3] y) { a = Relu (x) b = Einsum <equation = "ii->i"> (a) y = Neg (b) }',
        None,
    ),
    Stays(
        "an Einsum with a sum",
        'agraph (float[3,3] x) => (float[3] y) { a = Relu (x) b = Einsum <equation = "ij->i"> (a) y = Neg (b) }',
        None,
    ),
    Stays(
        "a constant that is a graph output",
        "agraph (float[N,3] x) => (float[N,3] z, float[3] y) <float[3] c> { z = Add (x, c) y = Identity (c) }",
        NAMED,
    ),
    Stays(
        "a branch hands out a value of the graph around it",
        """agraph (float[N,3] x, bool c) => (float[N,3] y) {
            a = Relu (x)
            y = If (c) <then_branch = t () => (float[N,3] p) { p = Identity (a) },
                        else_branch = e () => (float[N,3] q) { q = Neg (a) }>
        }""",
        NAMED,
    ),
    Stays(
        "a loop hands its condition on",
        """agraph (float[N,3] x, int64 n, bool c) => (float[N,3] y) {
            y = Loop (n, c, x) <body = b (int64 i, bool go, float[N,3] s) => (bool on, float[N,3] t)
                                { on = Identity (go) t = Neg (s) }>
        }""",
        NAMED,
    ),
    Stays("a custom operator of that name", BETWEEN.format("my.own.Identity (a)"), None),
    Stays(
        "an Einsum of two inputs",
        BETWEEN.format('Einsum <equation = "ij,ij->ij"> (a, x)'),
        None,
    ),
    Stays(
        "a trace",
        'agraph (float[3,3] x) => (float y) { a = Relu (x) b = Einsum <equation = "ii"> (a) y = Neg (b) }',
        None,
    ),
]

FIRES = [
    Fires("Identity", BETWEEN.format("Identity (a)"), ["Relu", "Neg"]),
    *[
        Fires(op, BETWEEN.format(f"{op} (a)"), ["Relu", "Neg"])
        for op in ("Sum", "Max", "Min", "Mean", "Concat <axis = 1>")
    ],
    Fires("Einsum", BETWEEN.format('Einsum <equation = "i j -> i j"> (a)'), ["Relu", "Neg"]),
    Fires(
        "Einsum without an arrow", BETWEEN.format('Einsum <equation = "ab"> (a)'), ["Relu", "Neg"]
    ),
    Fires(
        "a chain",
        "agraph (float[N,3] x) => (float[N,3] y) { a = Relu (x) b = Identity (a) c = Identity (b) y = Neg (c) }",
        ["Relu", "Neg"],
        2,
    ),
    Fires(
        "a graph output takes over the name",
        "agraph (float[N,3] x) => (float[N,3] y) { a = Relu (x) b = Neg (a) y = Identity (b) }",
        ["Relu", "Neg"],
    ),
    Fires(
        "the value is used beside the output",
        "agraph (float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Relu (x) y = Identity (a) z = Neg (a) }",
        ["Relu", "Neg"],
    ),
    Fires(
        "a value that a subgraph uses",
        """agraph (float[N,3] x, bool c) => (float[N,3] y) {
            a = Relu (x)
            b = Identity (a)
            y = If (c) <then_branch = t () => (float[N,3] p) { p = Neg (b) },
                        else_branch = e () => (float[N,3] q) { q = Abs (b) }>
        }""",
        ["Relu", "If"],
        inside_if=False,  # the case is one
    ),
    Fires(
        "a sequence",
        """agraph (float[2,3] x) => (float[2,3] y) {
            s = SequenceConstruct (x)
            t = Identity (s)
            y = ConcatFromSequence <axis = 0> (t)
        }""",
        ["SequenceConstruct", "ConcatFromSequence"],
    ),
    Fires(
        "opset 7, IR version 3",
        BETWEEN.format("Identity (a)"),
        ["Relu", "Neg"],
        opset=7,
        ir_version=3,
    ),
    Fires("opset 22", BETWEEN.format("Max (a)"), ["Relu", "Neg"], opset=22),
    Fires("float16", BETWEEN.format("Mean (a)").replace("float[", "float16["), ["Relu", "Neg"]),
    Fires(
        "strings",
        "agraph (string[N] x) => (string[M] y) { a = Concat <axis = 0> (x, x) b = Identity (a) "
        "y = Concat <axis = 0> (b, a) }",
        ["Concat", "Concat"],
    ),
    Fires(
        "a scalar Einsum",
        'agraph (float x) => (float y) { a = Relu (x) b = Einsum <equation = "->"> (a) y = Neg (b) }',
        ["Relu", "Neg"],
    ),
    Fires(
        "the value before it is a graph output",
        "agraph (float[N,3] x) => (float[N,3] y, float[N,3] a) { a = Relu (x) b = Identity (a) y = Neg (b) }",
        ["Relu", "Neg"],
    ),
    Fires(
        "of a graph input and of a constant",
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] c> { a = Identity (x) b = Identity (c) y = Add (a, b) }",
        ["Add"],
        2,
    ),
    Fires(
        "in the body of a loop",
        """agraph (float[N,3] x, int64 n, bool c) => (float[N,3] y) {
            y = Loop (n, c, x) <body = b (int64 i, bool go, float[N,3] s) => (bool on, float[N,3] t)
                                { on = Not (go) u = Identity (s) t = Neg (u) }>
        }""",
        ["Loop"],
    ),
    Fires(
        "an optional value",
        """agraph (float[2,3] x) => (float[2,3] y) {
            s = Optional (x)
            t = Identity (s)
            y = OptionalGetElement (t)
        }""",
        ["Optional", "OptionalGetElement"],
    ),
]

test_stays, test_fires = tables("IdentityPass", STAYS, FIRES)
