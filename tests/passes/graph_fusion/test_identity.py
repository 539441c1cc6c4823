from harness import Fires, Stays, tables

BETWEEN = "agraph (float[N,3] x) => (float[N,3] y) {{ a = Relu (x) b = {} y = Neg (b) }}"

STAYS = [
    Stays(
        "from an input to an output",
        "agraph (float[N,3] x) => (float[N,3] y) { y = Identity (x) }",
        "the result is a graph output and needs a name of its own",
    ),
    Stays(
        "from an output to an output",
        "agraph (float[N,3] x) => (float[N,3] a, float[N,3] y) { a = Relu (x) y = Identity (a) }",
        "the result is a graph output and needs a name of its own",
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
]

FIRES = [
    Fires("Identity", BETWEEN.format("Identity (a)"), ["Relu", "Neg"]),
    *[
        Fires(op, BETWEEN.format(f"{op} (a)"), ["Relu", "Neg"])
        for op in ("Sum", "Max", "Min", "Mean", "Concat <axis = 1>")
    ],
    Fires("Einsum", BETWEEN.format('Einsum <equation = "i j -> i j"> (a)'), ["Relu", "Neg"]),
    Fires("Einsum without an arrow", BETWEEN.format('Einsum <equation = "ab"> (a)'), ["Relu", "Neg"]),
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
]

test_stays, test_fires = tables("IdentityPass", STAYS, FIRES)
