import onnx
from harness import Fires, Stays, optimize, parse, pass_of, tables
from onnx import helper


def model(
    body: list[onnx.NodeProto],
    call: str = "y = own.f (x)",
    opset: int = 18,
    attributes: list[str] | None = None,
) -> onnx.ModelProto:
    made = parse(f"agraph (float[N,4] x) => (float[N,4] y) {{ {call} }}")
    imports = [helper.make_opsetid("", opset)]
    made.functions.append(
        helper.make_function("own", "f", ["a"], ["b"], body, imports, attributes or [])
    )
    return made


def reference() -> onnx.ModelProto:
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    node.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    return model([node], "y = own.f <slope = 0.25> (x)", attributes=["slope"])


def nested() -> onnx.ModelProto:
    made = model(
        [helper.make_node("g", ["a"], ["m"], domain="own"), helper.make_node("Abs", ["m"], ["b"])]
    )
    made.functions[0].opset_import.add(domain="own", version=1)
    body = [helper.make_node("Neg", ["a"], ["b"])]
    made.functions.append(
        helper.make_function("own", "g", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    )
    return made


CONDITION = helper.make_node(
    "Constant", [], ["c"], value=helper.make_tensor("c", onnx.TensorProto.BOOL, [], [True])
)
BRANCHES = {
    name: helper.make_graph(
        [helper.make_node(op, ["a"], [name])],
        name,
        [],
        [helper.make_tensor_value_info(name, 1, None)],
    )
    for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
}


def with_an_output_that_is_not_given() -> onnx.ModelProto:
    """The second output is the second input, which the call leaves out."""
    made = model([helper.make_node("Neg", ["a"], ["b"])], "y, z = own.f (x)")
    made.functions[0].input.append("c")
    made.functions[0].output.append("c")
    return made


def named(op: str, domain: str) -> onnx.ModelProto:
    """A function that has the name of an operator; onnxruntime runs the operator."""
    made = model([helper.make_node("Neg", ["a"], ["b"])], f"y = {domain and domain + '.'}{op} (x)")
    made.functions[0].domain = domain
    made.functions[0].name = op
    if domain:
        made.opset_import.add(domain=domain, version=1)
    return made


NAMED = "the runtime has an operator of this name, which it may run instead"
STAYS = [
    Stays("the name of a standard operator", lambda: named("Relu", ""), NAMED),
    Stays("the name of an operator of onnxruntime", lambda: named("Gelu", "com.microsoft"), NAMED),
    Stays(
        "an output of the body is an input that the call omits",
        with_an_output_that_is_not_given,
        "an output of the body is an input that the call omits",
        valid=False,
    ),
    Stays(
        "control flow",
        lambda: model([CONDITION, helper.make_node("If", ["c"], ["b"], **BRANCHES)]),
        "the function contains control flow",
    ),
    Stays(
        "the body contains an operator of another opset",
        lambda: model([helper.make_node("Softmax", ["a"], ["b"])], opset=11),
        "the body contains an operator of another opset",
        valid=False,
    ),
]

FIRES = [
    Fires(
        "two nodes",
        lambda: model(
            [helper.make_node("Neg", ["a"], ["m"]), helper.make_node("Exp", ["m"], ["b"])]
        ),
        ["Neg", "Exp"],
    ),
    Fires("an attribute", reference, ["LeakyRelu"]),
    Fires(
        "an older opset of the same meaning",
        lambda: model([helper.make_node("Neg", ["a"], ["b"])], opset=17),
        ["Neg"],
    ),
    Fires("a function that calls another", nested, ["Neg", "Abs"], effected=2, inside_if=False),
]

# It inlines the function that the case is in, too.
test_stays, test_fires = tables("FunctionInlinePass", STAYS, FIRES, in_functions="once more")


def test_a_function_goes_with_its_last_call() -> None:
    body = [helper.make_node("Neg", ["a"], ["b"])]
    once = model(body)
    twice = model(body, "z = own.f (x) y = own.f (z)")
    for before, rewrites, left in ((once, 1, 0), (twice, 2, 0)):
        result, counts = optimize(before, [pass_of("FunctionInlinePass")])
        assert (sum(count.effected for count in counts), len(result.functions)) == (rewrites, left)
