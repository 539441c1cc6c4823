import onnx
from harness import Fires, Stays, all_nodes, effected, optimize, parse, pass_of, tables

UNUSED = "agraph (float[N,3] x) => (float[N,3] y) <float c> { y = Relu (x) }"


def annotated() -> onnx.ModelProto:
    model = parse(UNUSED)
    entries = model.graph.quantization_annotation.add(tensor_name="y").quant_parameter_tensor_names
    entries.add(key="SCALE_TENSOR", value="c")
    return model


def trained() -> onnx.ModelProto:
    model = parse(UNUSED)
    training = model.training_info.add()
    training.algorithm.name = "step"
    training.algorithm.node.add(op_type="Neg", input=["c"], output=["new"])
    training.update_binding.add(key="c", value="new")
    return model


def call_of(op: str) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 18, "functions" : 1]>
        agraph (float[N,3] x) => (float[N,3] y) {{ d = functions.own (x) y = Relu (x) }}
        <domain: "functions", opset_import: ["" : 18]> own (a) => (b) {{ b = {op} (a) }}
    """)
    return model


STAYS = [
    Stays(
        "everything is needed",
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] c> { y = Add (x, c) }",
        None,
    ),
    Stays(
        "a random operator",
        "agraph (float[N,3] x) => (float[N,3] y) { d = RandomNormalLike (x) y = Relu (x) }",
        None,
    ),
    Stays(
        "a custom operator",
        "agraph (float[N,3] x) => (float[N,3] y) { d = my.own.Log (x) y = Relu (x) }",
        None,
    ),
    Stays(
        "an input nobody reads",
        "agraph (float[N,3] x, float[3] z) => (float[N,3] y) { y = Relu (x) }",
        None,
    ),
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
    Stays(
        "an If with something random in it",
        """agraph (float[N,3] x, bool c) => (float[N,3] y) {
            d = If (c) <then_branch = t () => (float[N,3] p) { p = RandomNormalLike (x) },
                        else_branch = e () => (float[N,3] q) { q = Abs (x) }>
            y = Relu (x)
        }""",
        None,
    ),
    Stays(
        "a call of a function with something random in it",
        lambda: call_of("RandomNormalLike"),
        None,
    ),
    Stays(
        "Dropout in training mode",
        "agraph (float[N,3] x) => (float[N,3] y) <bool t = {1}> { d, m = Dropout (x, , t) y = Relu (x) }",
        None,
    ),
    Stays(
        "one output of two",
        "agraph (float[N,4] x) => (float[N,2] y) { y, d = Split <axis = 1, num_outputs = 2> (x) }",
        None,
    ),
    Stays(
        "a default that the caller may override, and nobody reads",
        "agraph (float[N,3] x, float[3] c = {1, 2, 3}) => (float[N,3] y) { y = Relu (x) }",
        None,
    ),
    Stays("the scale in a quantization annotation", annotated, None),
    Stays("a weight that training changes", trained, None),
]

FIRES = [
    Fires(
        "a node", "agraph (float[N,3] x) => (float[N,3] y) { d = Neg (x) y = Relu (x) }", ["Relu"]
    ),
    Fires(
        "a chain",
        "agraph (float[N,3] x) => (float[N,3] y) { d = Neg (x) e = Abs (d) y = Relu (x) }",
        ["Relu"],
    ),
    Fires(
        "a constant",
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] c> { y = Relu (x) }",
        ["Relu"],
        inside_if=False,
    ),
    Fires(
        "an If",
        """agraph (float[N,3] x, bool c) => (float[N,3] y) {
            d = If (c) <then_branch = t () => (float[N,3] p) { p = Neg (x) },
                        else_branch = e () => (float[N,3] q) { q = Abs (x) }>
            y = Relu (x)
        }""",
        ["Relu"],
        inside_if=False,  # its nodes would need other names in each branch
    ),
    Fires(
        "a call of a function", lambda: call_of("Abs"), ["Relu"], 2, inside_if=False
    ),  # the function goes once
    Fires(
        "Dropout in inference",
        "agraph (float[N,3] x) => (float[N,3] y) { d, m = Dropout (x) y = Relu (x) }",
        ["Relu"],
    ),
    Fires(
        "a sequence",
        "agraph (float[N,3] x) => (float[N,3] y) { d = SequenceConstruct (x, x) y = Relu (x) }",
        ["Relu"],
    ),
    Fires(
        "a node and its constant",
        "agraph (float[N,3] x) => (float[N,3] y) <float[3] c> { d = Add (x, c) y = Relu (x) }",
        ["Relu"],
    ),
    Fires(
        "opset 9, IR version 3",
        "agraph (float[N,3] x) => (float[N,3] y) { d = Neg (x) y = Relu (x) }",
        ["Relu"],
        opset=9,
        ir_version=3,
    ),
]  # the constant stays outside the If, so that there is one, not two

test_stays, test_fires = tables("PrunePass", STAYS, FIRES)


def test_an_unused_function_goes_and_a_used_one_stays() -> None:
    def model():
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


def test_what_only_training_needs_stays() -> None:
    model = parse(UNUSED.replace("float c", "float c, float d"))
    training = model.training_info.add()
    training.algorithm.name = "step"
    training.algorithm.node.add(op_type="f", domain="own", input=["c"], output=["new"])
    training.update_binding.add(key="d", value="new")
    imports = [onnx.helper.make_opsetid("", 18)]
    body = [onnx.helper.make_node("Neg", ["a"], ["b"])]
    model.functions.append(onnx.helper.make_function("own", "f", ["a"], ["b"], body, imports))
    model.opset_import.add(domain="own", version=1)
    result, counts = optimize(model, [pass_of("PrunePass")])
    assert effected(counts) == 0 and result == model
