import onnx
from harness import Fires, Stays, seen_by_subgraph, tables

TWICE = "agraph (float[N,3] x, float[N,3] z) => (float[N,3] y) {{ a = {} b = {} y = Sub (a, b) }}"


def two_calls(op: str, first: str = "own (x)", second: str = "own (x)") -> onnx.ModelProto:
    """The difference of two calls of a function of which the body is this operator."""
    name = first.split()[0]
    inputs = "ab"[: 1 + first.count(",")]
    model: onnx.ModelProto = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 18, "functions" : 1]>
        agraph (float[N,3] x, float[N,3] z) => (float[N,3] y)
        {{ p = functions.{first} q = functions.{second} y = Sub (p, q) }}
        <domain: "functions", opset_import: ["" : 18]>
        {name} ({", ".join(inputs)}) => (c) {{ c = {op} ({", ".join(inputs)}) }}
    """)
    return model


STAYS = [
    Stays(
        "other attributes",
        TWICE.format("LeakyRelu <alpha = 0.1> (x)", "LeakyRelu <alpha = 0.2> (x)"),
        None,
    ),
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
    *[
        Stays(
            f"both are graph outputs, {name}",
            f"agraph (float[4,3] x) => (float[p,q] a, float[p,q] b{outputs}) {{ {body} }}",
            "the result is a graph output and needs a name of its own",
        )
        for name, outputs, body in (
            ("of Identity", "", "a = Identity (x) b = Identity (x)"),
            ("of Flatten", "", "a = Flatten (x) b = Flatten (x)"),
            (
                "and several of them",
                ", float[r,s] c, float[r,s] d",
                "a, c = Split <num_outputs = 2> (x) b, d = Split <num_outputs = 2> (x)",
            ),
        )
    ],
    Stays(
        "a custom operator",
        "agraph (float[N,3] x) => (float[N,3] y) { a = my.own.Thing (x) b = my.own.Thing (x) y = Sub (a, b) }",
        None,
    ),
    *[
        Stays(
            f"{op} of nothing",
            TWICE.format(f"{op} <shape = [2, 3]> ()", f"{op} <shape = [2, 3]> ()"),
            None,
        )
        for op in ("RandomNormal", "RandomUniform")
    ],
    Stays(
        "a function with a random operator in it",
        lambda: two_calls("RandomUniformLike"),
        None,
    ),
    Stays(
        "If with equal branches",
        """agraph (float[N,3] x, bool c) => (float[N,3] y) {
            a = If (c) <then_branch = t () => (float[N,3] p) { p = Neg (x) },
                        else_branch = e () => (float[N,3] q) { q = Abs (x) }>
            b = If (c) <then_branch = t () => (float[N,3] p) { p = Neg (x) },
                        else_branch = e () => (float[N,3] q) { q = Abs (x) }>
            y = Sub (a, b)
        }""",
        None,
    ),
    Stays(
        "the same inputs at other places",
        "agraph (float[N,3] x, float c) => (float[N,3] y) { a = Clip (x, c) b = Clip (x, , c) y = Sub (a, b) }",
        None,
    ),
    Stays(
        "a Split without sizes into three and into two",
        "agraph (float[N,M] x) => (float[N,a] y, float[N,b] z) "
        "{ p, q, r = Split <axis = 1> (x) s, t = Split <axis = 1> (x) y = Neg (p) z = Neg (s) }",
        None,
        opset=13,
    ),
    Stays(
        "batch normalization in training and not",
        """agraph (float[N,3,4,4] x) => (float[N,3,4,4] y) <float[3] s, float[3] b, float[3] m, float[3] v> {
            p, a, c, d, e = BatchNormalization (x, s, b, m, v)
            q = BatchNormalization (x, s, b, m, v)
            y = Sub (p, q)
        }""",
        None,
        opset=9,
    ),
    # Of −0 and +0 the result is the first one, and 1/x tells them apart.
    *[
        Stays(f"{op} commuted", TWICE.format(f"{op} (x, z)", f"{op} (z, x)"), None)
        for op in ("Max", "Min")
    ],
    Stays(
        "a sum of three in another order",
        "agraph (float[N,3] x, float[N,3] z) => (float[N,3] y) <float[3] c> "
        "{ a = Sum (x, z, c) b = Sum (z, x, c) y = Sub (a, b) }",
        None,
    ),
    Stays(
        "a function that has the name of a commutative operator",
        lambda: two_calls("Sub", "Add (x, z)", "Add (z, x)"),
        None,
    ),
    Stays(
        "an output that only one of them has",
        "agraph (float[N,3] x) => (float[N,3] y) "
        "{ a, m = Dropout (x) b, = Dropout (x) c = Where (m, a, b) y = Neg (c) }",
        None,
    ),
    Stays(
        "Constant nodes",
        "agraph (float[N] x) => (float[N] y) { a = Constant <value_float = 2.0> () b = Constant <value_float = 2.0> () "
        "c = Mul (x, a) y = Add (c, b) }",
        None,
    ),
]

FIRES = [
    Fires(
        "both are graph outputs",
        "agraph (float[N,3] x) => (float[N,3] a, float[N,3] b) { a = Relu (x) b = Relu (x) }",
        ["Relu", "Identity"],
    ),
    Fires(
        "what makes them, too",
        "agraph (float[N,3] x) => (float[N,3] a, float[N,3] b, float[N,3] c) "
        "{ p = Exp (x) q = Exp (x) a = Relu (p) b = Relu (q) r = Exp (x) c = Relu (r) }",
        ["Exp", "Relu", "Identity", "Identity"],
        4,
    ),
    Fires(
        "one output of several is that of the graph",
        "agraph (float[4,3] x) => (float[2,3] a, float[2,3] b, float[2,3] y) "
        "{ a, p = Split <num_outputs = 2> (x) b, q = Split <num_outputs = 2> (x) y = Sub (p, q) }",
        ["Split", "Identity", "Sub"],
    ),
    Fires(
        "inputs that are left out, or not written",
        "agraph (float[N,3] x, float l) => (float[N,3] y) "
        "{ a = Clip (x, l) b = Clip (x, l, ) c = Clip (x) d = Clip (x, , ) y = Sum (a, b, c, d) }",
        ["Clip", "Clip", "Sum"],
        2,
    ),
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
    *[
        Fires(f"{op} commuted", TWICE.format(f"{op} (x, z)", f"{op} (z, x)"), [op, "Sub"])
        for op in ("Mul", "Sum", "Mean")
    ],
    Fires(
        "a comparison commuted",
        "agraph (float[N] x, float[N] z) => (bool[N] y) { a = Equal (x, z) b = Equal (z, x) y = Xor (a, b) }",
        ["Equal", "Xor"],
    ),
    Fires("one value twice", TWICE.format("Mul (x, x)", "Mul (x, x)"), ["Mul", "Sub"]),
    Fires(
        "attributes in another order",
        TWICE.format(
            "HardSigmoid <alpha = 0.3, beta = 0.4> (x)", "HardSigmoid <beta = 0.4, alpha = 0.3> (x)"
        ),
        ["HardSigmoid", "Sub"],
    ),
    Fires(
        "three times",
        "agraph (float[N,3] x) => (float[N,3] y) { a = Neg (x) b = Neg (x) c = Neg (x) y = Sum (a, b, c) }",
        ["Neg", "Sum"],
        2,
    ),
    Fires(
        "a subgraph uses the second",
        seen_by_subgraph(
            "agraph (float[N,3] x) => (float[N,3] y) { a = Relu (x) b = Relu (x) y = Neg (a) }",
            "b",
            "float[N,3]",
        ),
        ["Relu", "Neg", "If"],
        inside_if=False,  # it has an If of its own
    ),
    Fires("calls of a function", lambda: two_calls("Relu"), ["own", "Sub"]),
    Fires(
        "sequences",
        """agraph (float[4,3] x) => (float[4,3] y) {
            a = SplitToSequence (x)
            b = SplitToSequence (x)
            c = ConcatFromSequence <axis = 0> (a)
            d = ConcatFromSequence <axis = 0> (b)
            y = Sub (c, d)
        }""",
        ["SplitToSequence", "ConcatFromSequence", "Sub"],
        2,
    ),
    Fires(
        "opset 9, IR version 3",
        TWICE.format("Relu (x)", "Relu (x)"),
        ["Relu", "Sub"],
        opset=9,
        ir_version=3,
    ),
]

test_stays, test_fires = tables("CommonSubexpressionEliminationPass", STAYS, FIRES)
