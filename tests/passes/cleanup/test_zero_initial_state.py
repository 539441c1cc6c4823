from dataclasses import replace

from harness import Fires, Stays, assert_same_numbers, optimize, parse, pass_of, tables

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
SHAPE = "n = Shape <start = 1, end = 2> (x) t = Concat <axis = 0> (one, n, four)"


def graph(
    state: str,
    op: str = "LSTM",
    inputs: str = ", , h, c",
    more: str = "",
    type_: str = "float",
    zero: str = "0",
) -> str:
    """A recurrence of 3 steps at least, 5 elements in, 4 out, whose state is made by `state`."""
    rows = 4 * GATES[op]
    return (
        f"agraph ({type_}[S,B,5] x{more}) => ({type_}[S,1,B,4] y, {type_}[1,B,4] l)"
        f"<{type_}[1,{rows},5] W, {type_}[1,{rows},4] R, int64[1] one = {{1}}, int64[1] four = {{4}}, {type_} z = {{{zero}}},"
        f" int64[1] axis = {{0}}, {type_}[1,1,4] row = {{0, 0, 0, 0}}> "
        f"{{ {state} y, l = {op} <hidden_size = 4> (x, W, R, {inputs}) }}"
    )


EXPANDED = f"{SHAPE} h = Expand (z, t)"
FILLED = f"{SHAPE} h = ConstantOfShape <value = float[1] {{0}}> (t)"
STAYS = [
    Stays("ones", graph(EXPANDED, "GRU", ", , h", zero="1"), None),
    Stays("filled with ones", graph(FILLED.replace("{0}", "{1}"), "GRU", ", , h"), None),
    Stays("−0", graph(EXPANDED, "RNN", ", , h", zero="-0.0"), None),
    Stays("a state from outside", graph("", "GRU", ", , h", more=", float[1,B,4] h"), None),
    Stays(
        "a sum", graph(f"{EXPANDED.replace('h =', 'g =')} h = Add (g, row)", "GRU", ", , h"), None
    ),
    Stays("no state", graph("", inputs=""), None),
    Stays(
        "joined with others",
        graph(
            f"{SHAPE} g = Expand (z, t) h = Concat <axis = 1> (g, o)",
            "GRU",
            ", , h",
            more=", float[1,0,4] o",
        ),
        None,
    ),
]
FIRES = [
    *(Fires(f"{op}, expanded", graph(EXPANDED, op, ", , h"), [op]) for op in GATES),
    Fires("filled", graph(FILLED, "GRU", ", , h"), ["GRU"]),
    Fires(
        "filled without a value", graph(f"{SHAPE} h = ConstantOfShape (t)", "GRU", ", , h"), ["GRU"]
    ),
    Fires("both states of an LSTM", graph(EXPANDED, inputs=", , h, h"), ["LSTM"]),
    Fires("one of two", graph(EXPANDED, inputs=", , h, c", more=", float[1,B,4] c"), ["LSTM"]),
    Fires("the other one", graph(EXPANDED, inputs=", , c, h", more=", float[1,B,4] c"), ["LSTM"]),
    Fires(
        "moved and joined",
        graph(
            f"{SHAPE} d = ConstantOfShape <value = int64[1] {{0}}> (t) e = Cast <to = 1> (d) f = Unsqueeze (e, axis) "
            "g, i = Split <axis = 3, num_outputs = 2> (f) j = Concat <axis = 3> (g, i) h = Squeeze (j, axis)",
            "GRU",
            ", , h",
        ),
        ["GRU"],
    ),
    Fires(
        "a constant",
        graph("", "GRU", ", , row").replace("[S,B,5]", "[S,1,5]").replace(",B,4]", ",1,4]"),
        ["GRU"],
    ),
    Fires(
        "lengths stay",
        graph(EXPANDED, "RNN", ", k, h", more=", int32[B] k"),
        ["RNN"],
        sizes={"S": 3, "B": 2},
    ),
    Fires(
        "opset 13",
        graph(
            EXPANDED.replace(
                "n = Shape <start = 1, end = 2> (x)", "m = Shape (x) n = Slice (m, one, two)"
            ),
            "GRU",
            ", , h",
        ).replace("int64[1] axis", "int64[1] two = {2}, int64[1] axis"),
        ["GRU"],
        opset=13,
    ),
]

QUANTIZED = (
    f"agraph (float[S,B,5] x) => (float[S,1,B,4] y) <int8[1,5,16] W, int8[1,4,16] R, float[1] s = {{0.01}},"
    f" int8[1] p = {{0}}, float z = {{0}}, int64[1] one = {{1}}, int64[1] four = {{4}}> {{ {EXPANDED}"
    " y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4> (x, W, R, , , h, h, , s, p, s, p) }"
)

# A recurrence without steps, or without a batch, ends the process in onnxruntime 1.32, with a state or without.
FIRES = [replace(case, zero_sizes=False) for case in FIRES]
test_stays, test_fires = tables("ZeroInitialStatePass", STAYS, FIRES)


def test_onnxruntimes_own_lstm_needs_no_zeros_either() -> None:
    """In the body of a function, its types would be unknown."""
    model = parse(QUANTIZED)
    result, _ = optimize(model, [pass_of("ZeroInitialStatePass")])
    (node,) = result.graph.node
    assert not any(node.input[5:7])
    assert_same_numbers(model, result, "bitwise", {})
