"""onnx-graphsurgeon's calls: the same on a graph of fusionc, or an error that says what to use
instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from harness import parse

import fusionc
from fusionc.custom import replacement
from fusionc.model.graph import Constant
from fusionc.model.graphsurgeon import MISSING, WORKS
from fusionc.shapes.inference import typed_model

MODEL = parse(
    """agraph (float[N,4] x, bool c) => (float[N,6] y, float z) <float[4] w = {1, 2, 3, 4}> {
        a = Add (x, w)
        b = Mul (a, a)
        e, f = Split <axis = 1, num_outputs = 2> (b)
        k = Clip (e, , lower)
        lower = Constant <value = float {3}> ()
        z = If (c) <
            then_branch = t () => (float t1) { t1 = ReduceSum <keepdims = 0> (a) },
            else_branch = u () => (float u1) { u1 = Constant <value = float {3}> () }
        >
        n = LeakyRelu <alpha = 0.5> (e)
        y = Concat <axis = 1> (k, f, n)
        g, h = my.own.Pair <mode = "fast", sizes = [1, 2]> (f)
    }""",
    opset=18,
)
MODEL.graph.node[0].name = "first"
Named = dict[str, Any]


def names(values: Any) -> list[str]:
    return [
        value.name or value.op if isinstance(value, gs.Node) else value.name for value in values
    ]


def given(values: Any) -> list[str]:
    """The names of inputs and outputs, "" for what is left out."""
    return ["" if value is None else value.name for value in values]


def makers(graph: Any) -> Named:
    return {given(node.outputs)[0]: node for node in graph.nodes}


def attributes(node: Any) -> Named:
    """Without tensors and graphs, which are of another kind here."""
    return {
        name: value
        for name, value in node.attrs.items()
        if isinstance(value, int | float | str | list)
    }


def each(found: Named, question: Callable[[Any], Any]) -> Named:
    return {name: question(item) for name, item in found.items()}


# For each name in WORKS: what it says of all nodes, values, constants or graphs of a model, in a
# form to compare.
QUESTIONS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "Node": {
        "op": lambda n: n.op,
        "name": lambda n: n.name,
        "domain": lambda n: n.domain,
        "attrs": attributes,
        "inputs": lambda n: given(n.inputs),
        "outputs": lambda n: given(n.outputs),
        "i()": lambda n: [
            n.i(t).op for t, value in enumerate(n.inputs) if value is not None and value.inputs
        ],
        "o()": lambda n: {
            n.o(c, t).op for t, value in enumerate(n.outputs) for c in range(len(value.outputs))
        },
        "subgraphs()": lambda n: [
            [inner.op for inner in body.nodes] for body in n.subgraphs(recursive=True)
        ],
        "AttributeRef": lambda n: n.AttributeRef,
    },
    "Tensor": {
        "name": lambda t: t.name,
        "inputs": lambda t: names(t.inputs),
        "outputs": lambda t: sorted(set(names(t.outputs))),
        "shape": lambda t: None if t.shape is None else list(t.shape),
        "dtype": lambda t: t.dtype and np.dtype(t.dtype),
        "i()": lambda t: t.i().name if t.inputs and t.inputs[0].inputs else None,
        "o()": lambda t: t.o().name if len(set(names(t.outputs))) == 1 else None,
        "is_empty()": lambda t: t.is_empty(),
        "DYNAMIC": lambda t: t.DYNAMIC,
    },
    "Constant": {"values": lambda t: t.values.tolist()},
    "Graph": {
        "nodes": lambda g: sorted(node.op for node in g.nodes),
        "inputs": lambda g: names(g.inputs),
        "outputs": lambda g: names(g.outputs),
        "opset": lambda g: g.opset,
    },
}
INFERRED = ("shape", "dtype")  # graphsurgeon knows only what is declared


def things(kind: str, graph: Any, values: Named) -> Named:
    if kind == "Graph":
        return {"main": graph}
    if kind == "Node":
        return makers(graph)
    return {name: v for name, v in values.items() if kind == "Tensor" or isinstance(v, gs.Constant)}


def test_every_name_that_works_is_compared() -> None:
    assert {kind: set(found) for kind, found in QUESTIONS.items()} == {
        kind: set(found) for kind, found in WORKS.items()
    }


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, found in WORKS.items() for name in found]
)
def test_what_works_says_the_same(kind: str, name: str) -> None:
    theirs = gs.import_onnx(MODEL)
    ours = typed_model(MODEL, "").main
    question = QUESTIONS[kind][name]
    expected = each(things(kind, theirs, theirs.tensors()), question)
    found = each(things(kind, ours, ours.values), question)
    if name in INFERRED:
        # of an operator that nobody knows
        assert {key for key, item in found.items() if item is None} == {"g", "h"}
        expected = {key: item for key, item in expected.items() if item is not None}
        found = {key: found[key] for key in expected}
    assert expected and found == expected


def public(kind: type, thing: Any) -> Iterator[str]:
    """The public names of a class of graphsurgeon and of its objects, as the tables write them."""
    for name in {*dir(kind), *vars(thing)}:
        if not name.startswith("_"):
            is_call = callable(getattr(kind, name, None)) and not isinstance(
                getattr(kind, name), type
            )
            yield f"{name}()" if is_call else name


def test_the_tables_have_every_name_of_graphsurgeon() -> None:
    graph = gs.import_onnx(MODEL)
    values = graph.tensors()
    for kind, thing, bases in (
        (gs.Node, graph.nodes[0], ("Node",)),
        (gs.Variable, values["x"], ("Tensor", "Variable")),
        (gs.Constant, values["w"], ("Tensor", "Constant")),
        (gs.Graph, graph, ("Graph",)),
    ):
        known = {
            name for base in bases for table in (WORKS, MISSING) for name in table.get(base, ())
        }
        assert known == set(public(kind, thing)), kind


@pytest.mark.parametrize(
    ("kind", "call"), [(kind, call) for kind, found in MISSING.items() for call in found]
)
def test_what_is_missing_says_what_to_use(kind: str, call: str) -> None:
    graph = typed_model(MODEL, "").main
    value = graph.values["x"]
    constant = graph.values["w"]
    thing: Any = {
        "Node": makers(graph)["a"],
        "Variable": value,
        "Constant": constant,
        "Graph": graph,
    }[kind]
    name = call.removesuffix("()")
    assert not hasattr(thing, name)
    with pytest.raises(AttributeError) as caught:
        getattr(thing, name)()
    assert (
        f".{call} of onnx-graphsurgeon is not available here: {MISSING[kind][call]}"
        in f"{caught.value}"
    )


def _set(what: str, value: object) -> Callable[[Any], None]:
    return lambda thing: setattr(thing, what, value)


CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "node.op =": ("a", _set("op", "Sub")),
    "node.name =": ("a", _set("name", "other")),
    "node.domain =": ("a", _set("domain", "my.own")),
    "node.attrs =": ("e", _set("attrs", {})),
    "node.attrs[] =": ("e", lambda n: n.attrs.__setitem__("axis", 0)),
    "node.attrs.update": ("e", lambda n: n.attrs.update(axis=0)),
    "del node.attrs[]": ("e", lambda n: n.attrs.__delitem__("axis")),
    "node.inputs =": ("a", _set("inputs", [])),
    "node.inputs.append": ("a", lambda n: n.inputs.append(None)),
    "node.inputs[] =": ("a", lambda n: n.inputs.__setitem__(0, None)),
    "node.inputs +=": ("a", lambda n: n.inputs.__iadd__([None])),
    "node.outputs.clear": ("a", lambda n: n.outputs.clear()),
    "tensor.name =": ("x", _set("name", "other")),
    "tensor.shape =": ("x", _set("shape", [1, 4])),
    "tensor.dtype =": ("x", _set("dtype", np.float16)),
    "tensor.inputs =": ("x", _set("inputs", [])),
    "tensor.outputs.clear": ("x", lambda t: t.outputs.clear()),
    "tensor.inputs.append": ("x", lambda t: t.inputs.append(None)),
    "constant.values =": ("w", _set("values", np.zeros(4))),
    "graph.nodes =": ("", _set("nodes", [])),
    "graph.nodes.append": ("", lambda g: g.nodes.append(None)),
    "graph.nodes.remove": ("", lambda g: g.nodes.remove(None)),
    "graph.nodes.clear": ("", lambda g: g.nodes.clear()),
    "graph.nodes[0]": ("", lambda g: g.nodes[0]),
    "graph.inputs =": ("", _set("inputs", [])),
    "graph.outputs =": ("", _set("outputs", [])),
    "graph.outputs.append": ("", lambda g: g.outputs.append(None)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_would_change_the_graph_is_refused(what: str) -> None:
    graph = typed_model(MODEL, "").main
    name, change = CHANGES[what]
    thing = makers(graph).get(name) or graph.values.get(name) or graph
    before = (
        len(graph.nodes),
        given(graph.inputs),
        given(graph.outputs),
        dict(makers(graph)["e"].attrs),
    )
    with pytest.raises(TypeError, match=r"a pass |graph\.ordered"):
        change(thing)
    assert before == (
        len(graph.nodes),
        given(graph.inputs),
        given(graph.outputs),
        dict(makers(graph)["e"].attrs),
    )
    assert given(makers(graph)["a"].inputs) == ["x", "w"] and graph.values["x"].name == "x"


OWN = """import fusionc
import onnx_graphsurgeon as gs
from fusionc.rewrite import Match, Pattern, op, var

def find(graph):
    for node in graph.nodes:
        if node.op == "Neg" and node.outputs[0].outputs and node.o().op == "Relu" and isinstance(node.i(), gs.Node):
            yield Match(graph, [node.o()], [node.o().outputs[0]], {{"neg": node}})

class OwnPass(fusionc.Pass):
    patterns = (Pattern("OwnPattern", find=find),)

    def rewrite(self, m, new):
        node = m.neg.o(){call}
        return new.LeakyRelu(node.inputs[0], alpha=0.0)
"""


def test_a_users_pass_that_knows_graphsurgeon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "agraph (float[N] x) => (float[N] y) { a = Exp (x) b = Neg (a) c = Relu (b) y = Sin (c) }"
    )
    onnx.save(parse(text), "in.onnx")
    try:
        Path("own.py").write_text(OWN.format(call=""))
        report = fusionc.convert("in.onnx", output="out.onnx", custom_passes=["own.py"])
        assert [node.op_type for node in onnx.load("out.onnx").graph.node] == [
            "Exp",
            "Neg",
            "LeakyRelu",
            "Sin",
        ]
        assert report.verification is not None and report.verification.startswith("equal in ")
        Path("own.py").write_text(OWN.format(call=".copy()"))
        with pytest.raises(
            fusionc.FusioncError,
            match=r"OwnPass failed: AttributeError: Node\.copy\(\) of .* like=node",
        ):
            fusionc.convert("in.onnx", output="other.onnx", custom_passes=["own.py"])
    finally:
        replacement.REGISTERED.clear()


def test_the_names_that_are_told_exist() -> None:
    """What the tables say to use is there."""
    graph = typed_model(MODEL, "").main
    node = makers(graph)["a"]
    value = graph.values["x"]
    constant = graph.values["w"]
    assert graph.ordered()[0].op == "Add" and [n.op for n in graph.of_operator("Mul")] == ["Mul"]
    assert (
        graph.opset_of("") == graph.opset == 18
        and graph.model.ir_version
        and graph.proto.name == "agraph"
    )
    assert (
        graph.model.functions == {}
        and graph.proto.doc_string == ""
        and graph.model.proto.producer_name == ""
    )
    assert value.elem_type == 1 and value.known_type.shape is not None and node.attr("axis") is None
    assert isinstance(constant, Constant) and isinstance(constant.data, onnx.TensorProto)
    assert graph.values["y"].is_output
    assert set(graph.nodes) == set(graph.ordered())
