from harness import Fires, Stays, all_nodes, effected, optimize, parse, pass_of, tables

STAYS = [
    Stays("everything is needed", "agraph (float[N,3] x) => (float[N,3] y) <float[3] c> { y = Add (x, c) }", None),
    Stays(
        "a random operator", "agraph (float[N,3] x) => (float[N,3] y) { d = RandomNormalLike (x) y = Relu (x) }", None
    ),
    Stays("a custom operator", "agraph (float[N,3] x) => (float[N,3] y) { d = my.own.Log (x) y = Relu (x) }", None),
    Stays("an input nobody reads", "agraph (float[N,3] x, float[3] z) => (float[N,3] y) { y = Relu (x) }", None),
    Stays("no output at all", "agraph (float[N,3] x) => () { y = Relu (x) }", None),
    Stays(
        "a value that only a subgraph uses",
        """agraph (float[N,3] x, bool c) => (float[N,3] y) {
            a = Relu (x)
            y = If (c) <then_branch = t () => (float[N,3] p) { p = Neg (a) },
                        else_branch = e () => (float[N,3] q) { q = Abs (x) }>
        }""",
        None,
    ),
    Stays(
        "unused initializers are inputs before IR version 4",
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] c> { y = Relu (x) }",
        None,
        opset=9,
        ir_version=3,
    ),
]

FIRES = [
    Fires("a node", "agraph (float[N,3] x) => (float[N,3] y) { d = Neg (x) y = Relu (x) }", ["Relu"]),
    Fires("a chain", "agraph (float[N,3] x) => (float[N,3] y) { d = Neg (x) e = Abs (d) y = Relu (x) }", ["Relu"]),
    Fires(
        "a constant", "agraph (float[N,3] x) => (float[N,3] y) <float[3] c> { y = Relu (x) }", ["Relu"], inside_if=False
    ),
]  # the constant stays outside the If, so that there is one, not two

test_stays, test_fires = tables("PrunePass", STAYS, FIRES)


def test_an_unused_function_goes_and_a_used_one_stays() -> None:
    def model():
        import onnx

        return onnx.parser.parse_model("""
            <ir_version: 10, opset_import: ["" : 18, "own" : 1]>
            agraph (float[N,3] x) => (float[N,3] y) { y = own.outer (x) }
            <domain: "own", opset_import: ["" : 18, "own" : 1]> outer (a) => (b) { b = own.inner (a) }
            <domain: "own", opset_import: ["" : 18]> inner (a) => (b) { b = Relu (a) }
            <domain: "own", opset_import: ["" : 18]> unused (a) => (b) { b = Relu (a) }
        """)

    result, counts = optimize(parse(model), [pass_of("PrunePass")])
    assert effected(counts) == 1
    assert [function.name for function in result.functions] == ["outer", "inner"]
    assert len(list(all_nodes(result))) == 3
