"""Files that do not contain a model, and graphs that are broken or only look broken."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

from harness import parse
from hostile_case import SIMPLE, UNVERIFIED, Case, model
from onnx import AttributeProto, ModelProto, helper

DAMAGED = (
    "E13005: the file is not an ONNX model, or it is damaged",
    "where: m.onnx",
    "export or copy the model again",
)

CUT = ("E13005: the model is cut off: it has ", "where: m.onnx", "copy or download the model again")


def _bytes(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "m.onnx").write_bytes(content)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes(found) + bytes([number])


def _nested(depth: int) -> bytes:
    """A graph in an attribute of a node of a graph, and so on. protobuf refuses too many levels."""
    content = b""
    for _ in range(depth):
        for field in (6, 5, 1):  # g, attribute, node
            content = _varint(field << 3 | 2) + _varint(len(content)) + content
    return b"\x08\x08" + _varint(7 << 3 | 2) + _varint(len(content)) + content


def _opset(*versions: int, domain: str = "") -> Callable[[ModelProto], object]:
    def change(m: ModelProto) -> None:
        del m.opset_import[:]
        for version in versions:
            m.opset_import.add(domain=domain, version=version)

    return change


def _node(
    operator: str, inputs: list[str], outputs: list[str], **attributes: object
) -> Callable[[ModelProto], object]:
    return lambda m: m.graph.node.append(helper.make_node(operator, inputs, outputs, **attributes))


def _change(statement: Callable[[ModelProto], object]) -> Callable[[Path], object]:
    return model(statement)


_SELF_CALLING = """agraph (float[N] x) => (float[N] y) { y = own.f (x) }
<domain: "own", opset_import: ["" : 18, "own" : 1]> f (a) => (b) { b = own.f (a) }"""
_LOOKS_OUTSIDE = """agraph (float[N] x, bool c) => (float[N] y) {
  y = If (c) <then_branch = t () => (float[N] p) { q = Relu (x) p = Neg (q) },
              else_branch = e () => (float[N] r) { r = Relu (q) }> }"""
_IF = """agraph (float[N] x, bool c) => (float[N] y) {
  u = If (c) <then_branch = t () => (float[N] p) { p = Relu (x) }, else_branch = e () => (float[N] q) { q = Neg (x) }>
  y = Relu (x) }"""

_BYTES = parse(SIMPLE).SerializeToString()
_TEXT = str(parse(SIMPLE)).encode()


def _attribute(operator: str, **fields: object) -> Callable[[ModelProto], object]:
    """Adds a node with a wrong attribute."""

    def change(m: ModelProto) -> None:
        node = m.graph.node.add(op_type=operator, input=["x"], output=["u"])
        node.attribute.append(AttributeProto(**fields))

    return change


def _cycle(m: ModelProto) -> None:
    m.graph.node[0].input[0] = "i"


def _no_order(m: ModelProto) -> None:
    m.graph.node.insert(0, m.graph.node.pop())


def _twice(kind: str) -> Callable[[ModelProto], object]:
    def change(m: ModelProto) -> None:
        field = getattr(m.graph, kind)
        field.add().CopyFrom(field[0])

    return change


def _names(m: ModelProto) -> None:
    for node in m.graph.node:
        node.name = "same"


def _twice_the_attribute(m: ModelProto) -> None:
    node = helper.make_node("LeakyRelu", ["x"], ["u"], alpha=0.5)
    node.attribute.append(node.attribute[0])
    m.graph.node.append(node)


def _empty_if(m: ModelProto) -> None:
    node = m.graph.node[0]
    del node.input[:]
    del node.output[:]
    for attribute in node.attribute:
        attribute.g.ClearField("node")
        attribute.g.ClearField("output")


def _type_of_subgraph(m: ModelProto) -> None:
    m.graph.node[0].attribute[0].type = AttributeProto.INT


CASES = [
    Case("an empty file", _bytes(b""), ("E13005: the file is empty",)),
    Case("a file of zeros", _bytes(bytes(1000)), DAMAGED),
    Case("a file of ones", _bytes(b"\xff" * 1000), DAMAGED),
    Case("text", _bytes(b"hello\n" * 100), DAMAGED),
    Case("JSON", _bytes(b'{"graph": {}}'), ("E13005: the file is JSON",)),
    Case("the text form of a model", _bytes(_TEXT), DAMAGED),
    Case("a model in gzip", _bytes(gzip.compress(_BYTES)), ("E13005", "gunzip")),
    *(
        Case(f"the first {n} bytes of a model", _bytes(_BYTES[:n]), CUT)
        for n in (7, 50, len(_BYTES) - 1)
    ),
    Case("the first byte of a model", _bytes(_BYTES[:1]), DAMAGED),
    Case("a model with junk behind it", _bytes(_BYTES + b"\xff\xff"), DAMAGED),
    Case("a number that does not end", _bytes(b"\x08" + b"\xff" * 20), DAMAGED),
    Case("a length beyond the file", _bytes(b"\x08\x08\x3a" + b"\xff" * 4 + b"\x07"), CUT),
    Case("graphs in graphs, 2,000 deep", _bytes(_nested(2000)), DAMAGED),
    Case("graphs in graphs, 30 deep", _bytes(_nested(30)), (), UNVERIFIED),
    Case("a model without a graph", model(lambda m: m.ClearField("graph")), DAMAGED),
    Case("a cycle", model(_cycle), ("E13005", "form a cycle", "where: graph 'agraph', at node")),
    Case("a node that uses itself", model(_node("Relu", ["s"], ["s"])), ("E13005", "form a cycle")),
    Case(
        "an input that nothing makes",
        model(_node("Relu", ["nothing"], ["u"])),
        ("E13005", "nothing"),
    ),
    Case(
        "an output that nothing makes",
        model(lambda m: setattr(m.graph.output[0], "name", "nothing")),
        ("E13005", "nothing"),
    ),
    Case(
        "a value made twice",
        model(_node("Relu", ["x"], ["a"])),
        ("E13005", "'a' is given to two values"),
    ),
    Case(
        "an input made again",
        model(_node("Relu", ["x"], ["x"])),
        ("E13005", "'x' is given to two values"),
    ),
    Case(
        "a weight made again",
        model(_node("Relu", ["x"], ["w"])),
        ("E13005", "'w' is given to two values"),
    ),
    Case("an input twice", model(_twice("input")), ("E13005", "'x' is given to two values")),
    Case("an output twice", model(_twice("output")), (), 0),
    Case("a weight twice", model(_twice("initializer")), (), 0),
    Case("nodes of one name", model(_names), (), UNVERIFIED),
    Case("nodes in no order", model(_no_order), (), 0),
    Case("no nodes", model(lambda m: m.graph.ClearField("node")), ("E13005",)),
    Case("no outputs", model(lambda m: m.graph.ClearField("output")), (), UNVERIFIED),
    Case(
        "an input without a name",
        model(lambda m: setattr(m.graph.input[0], "name", "")),
        ("E13005",),
    ),
    Case(
        "an output without a name",
        model(lambda m: setattr(m.graph.output[0], "name", "")),
        ("E13005",),
    ),
    Case(
        "an input without a type",
        model(lambda m: m.graph.input[0].ClearField("type")),
        (),
        UNVERIFIED,
    ),
    Case(
        "a node without inputs",
        model(_node("Relu", [], ["u"])),
        ("E13005", "'u' (Relu) has 0 inputs, not 1"),
    ),
    Case(
        "a node with empty inputs",
        model(_node("Relu", [""], ["u"])),
        ("E13005", "has inputs without a name"),
    ),
    Case(
        "one of any number of inputs is empty",
        model(_node("Sum", ["x", ""], ["u"])),
        ("E13005", "has inputs without"),
    ),
    Case(
        "a node with too many inputs",
        model(_node("Relu", ["x", "x", "x"], ["u"])),
        ("E13005", "has 3 inputs, not 1"),
    ),
    Case(
        "a node with empty outputs",
        model(_node("Relu", ["x"], [""])),
        ("E13005", "has outputs without a name"),
    ),
    Case(
        "a node without outputs",
        model(_node("Relu", ["x"], [])),
        ("E13005", "has 0 outputs, not 1"),
    ),
    Case(
        "a node with too many outputs",
        model(_node("Relu", ["x"], ["u", "v"])),
        ("E13005", "has 2 outputs, not 1"),
    ),
    Case(
        "a flag that is neither 0 nor 1",
        model(_node("ReduceMean", ["x"], ["u"], keepdims=2)),
        ("E13005", "has an attribute 'keepdims' that is 2, neither 0 nor 1"),
    ),
    Case(
        "a Conv of no groups",
        model(_node("Conv", ["x", "x"], ["u"], group=0)),
        ("E13005", "has 0 groups"),
    ),
    Case(
        "a Split with more outputs than it says",
        model(_node("Split", ["x"], ["u", "v", ""], num_outputs=2)),
        ("E13005", "has 3 outputs, but num_outputs is 2"),
    ),
    *(
        Case(
            f"an Einsum of {text!r}",
            model(_node("Einsum", ["x"], ["u"], equation=text)),
            ("E13005", "the equation"),
        )
        for text in ("-`", "a.->a", "a1->a", "-a->", "a.....")
    ),
    Case("an Einsum of spaces", model(_node("Einsum", ["x"], ["u"], equation=" a -> a ")), (), 0),
    Case("a node without an operator", model(_node("", ["x"], ["u"])), (), UNVERIFIED),
    Case("an operator that there is not", model(_node("Rlu", ["x"], ["u"])), (), UNVERIFIED),
    Case(
        "an operator of nobody's",
        model(_node("Own", ["x"], ["u"], domain="nobody")),
        (),
        UNVERIFIED,
    ),
    Case(
        "an attribute of another type",
        model(_attribute("LeakyRelu", name="alpha", type=AttributeProto.INT, i=1)),
        ("E13005", "'alpha' of type INT, not FLOAT"),
    ),
    Case(
        "an attribute without a type",
        model(_attribute("LeakyRelu", name="alpha", f=1.0)),
        ("E13005", "'alpha' of type UNDEFINED, not FLOAT"),
    ),
    Case(
        "an attribute without a name",
        model(_attribute("LeakyRelu", type=AttributeProto.FLOAT, f=1.0)),
        ("E13005", "has an attribute ''"),
    ),
    Case(
        "an attribute with text for a number",
        model(_attribute("LeakyRelu", name="alpha", type=AttributeProto.STRING, s=b"1")),
        ("E13005", "'alpha' of type STRING, not FLOAT"),
    ),
    Case(
        "an attribute that there is not",
        model(_attribute("Relu", name="own", type=AttributeProto.INT, i=1)),
        ("E13005", "has an attribute 'own'"),
    ),
    Case(
        "an attribute of a function outside one",
        model(_attribute("LeakyRelu", name="alpha", type=AttributeProto.FLOAT, ref_attr_name="a")),
        ("E13005", "is not in a function"),
    ),
    Case(
        "axes that there are not",
        model(_node("Transpose", ["x"], ["u"], perm=[5, -7, 2**62])),
        (),
        UNVERIFIED,
    ),
    Case(
        "a permutation of nothing",
        model(_node("Transpose", ["x"], ["u"], perm=[0, 0])),
        (),
        UNVERIFIED,
    ),
    Case("a Constant without a value", model(_node("Constant", [], ["u"])), (), UNVERIFIED),
    Case(
        "a Constant with two values",
        model(_node("Constant", [], ["u"], value_int=1, value_float=1.0)),
        (),
        0,
    ),
    Case(
        "an attribute twice", model(_twice_the_attribute), ("E13005", "has two attributes 'alpha'")
    ),
    Case(
        "an attribute that is needed",
        model(_node("Cast", ["x"], ["u"])),
        ("E13005", "lacks the attribute 'to'"),
    ),
    Case("a node without inputs and outputs", model(_node("MatMul", [], [])), (), 0),
    Case("opset 0", model(_opset(0)), (), UNVERIFIED),
    Case("opset -1", model(_opset(-1)), (), UNVERIFIED),
    Case("opset 9999", model(_opset(9999)), ("E13005", "knows opsets up to")),
    Case("opset 2^62", model(_opset(2**62)), ("E13005", "version 4611686018427387904")),
    Case("no opset", model(_opset()), ("E13005", "does not import an ONNX opset")),
    Case("two opsets", model(_opset(18, 17)), (), 0),
    Case(
        "an opset of another domain",
        model(_opset(1, domain="own")),
        ("E13005", "does not import an ONNX opset"),
    ),
    Case("IR version 0", model(lambda m: setattr(m, "ir_version", 0)), (), 0),
    Case("IR version -1", model(lambda m: setattr(m, "ir_version", -1)), (), 0),
    Case("IR version 99", model(lambda m: setattr(m, "ir_version", 99)), (), UNVERIFIED),
    Case("no IR version", model(lambda m: m.ClearField("ir_version")), (), UNVERIFIED),
    Case(
        "a function that calls itself",
        model(lambda m: None, _SELF_CALLING),
        ("E13005", "'f' calls itself"),
    ),
    Case(
        "a branch that uses a value of the other",
        model(lambda m: None, _LOOKS_OUTSIDE),
        ("E13005", "'q'"),
    ),
    Case("an If without inputs and outputs", model(_empty_if, _IF), (), 0),
    Case(
        "a branch that is no graph",
        model(_type_of_subgraph, _IF),
        ("E13005", "'then_branch' of type INT, not GRAPH"),
    ),
]
