"""--keep_nodes: no pass changes or removes these nodes, and no area takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import all_nodes, parse

import fusionc
from fusionc.errors import UsageError
from fusionc.options import options_of
from fusionc.requested.kept_nodes import KeptNodes
from fusionc.shapes.inference import typed_model

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

CONV = """agraph (float[1,2,4,4] x) => (float[1,2,4,4] y)
    <float[2,2,1,1] w = {1, 2, 3, 4}, float[2] b = {1, 2}> {
    [conv] c = Conv (x, w, b) [relu] r = Relu (c) [first_id] i = Identity (r)
    [first_neg] n = Neg (i) [_second_neg] y = Neg (n) }"""
NAMES = {"conv", "relu", "first/id", "first/neg", "/second/neg"}


def model(text: str = CONV) -> onnx.ModelProto:
    proto = parse(text)
    for node in proto.graph.node:  # the parser allows no slashes
        node.name = node.name.replace("_", "/")
    return proto


def kept(names: Any, text: str = CONV) -> set[str]:
    proto = model(text)
    nodes = KeptNodes.read(names)
    nodes.require_known(proto)
    return {node.label() for node in nodes.nodes_in(typed_model(proto, ""))}


def converted(keep_nodes: Any, text: str = CONV, **options: Any) -> onnx.ModelProto:
    onnx.save(model(text), "in.onnx")
    fusionc.convert("in.onnx", output="out.onnx", keep_nodes=keep_nodes, **options)
    return onnx.load("out.onnx")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, set()),
        ("conv; relu", {"conv", "relu"}),
        (["first/id"], {"first/id"}),
        ("first/", {"first/id", "first/neg"}),
        ("second/", {"/second/neg"}),
        ("*neg", {"first/neg", "/second/neg"}),
        ("*", NAMES),
    ],
)
def test_names_patterns_and_scopes(names: Any, expected: set[str]) -> None:
    assert kept(names) == expected


def test_a_file_of_names() -> None:
    Path("keep.txt").write_text("conv\n\n first/ \n")
    Path("second").mkdir()
    options = options_of("in.onnx", keep_nodes="keep.txt")
    assert options.keep_nodes == Path("keep.txt")
    assert options_of("in.onnx", keep_nodes="second/").keep_nodes == "second/"
    with pytest.raises(UsageError, match="files that are read are never written over"):
        options_of("in.onnx", output="keep.onnx", keep_nodes=Path("keep.onnx"))
    assert kept(Path("keep.txt")) == {"conv", "first/id", "first/neg"}


def test_nodes_without_a_name_and_in_subgraphs() -> None:
    text = """agraph (bool c, float[4] x) => (float[4] y) {
        y = If (c) <then_branch = t () => (float[4] a) { a = Relu (x) },
                    else_branch = e () => (float[4] b) { b = Neg (x) }> }"""
    assert kept("Relu:a;If:y", text) == {"Relu:a", "If:y"}


def test_kept_nodes_are_in_the_result_as_they_were() -> None:
    before = {node.name: node for node in model().graph.node}
    without = [node.name for node in converted(None, verify=False).graph.node]
    assert "first/id" not in without and "relu" not in without
    after = {node.name: node for node in converted("relu;first/").graph.node}
    for name in ("relu", "first/id", "first/neg"):
        assert after[name] == before[name]


def test_a_refused_rewrite_is_counted() -> None:
    onnx.save(model(), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", keep_nodes="relu", verify=False)
    reasons = {reason for count in report.patterns for reason in count.refused}
    assert "--keep_nodes keeps one of its nodes as it is" in reasons


# Without --keep_nodes the node `kept` is not in the result.
REMOVED_WITH_OTHERS = {
    "around the node": """agraph (float[4] x) => (float[4] y) <bool yes = {1}> {
        y = If (yes) <then_branch = t () => (float[4] a) { [kept] a = Relu (x) },
                      else_branch = e () => (float[4] b) { b = Neg (x) }> }""",
    "before the last consumer": """agraph (float[2,3] x) => (int64[2] y) {
        [kept] k = Relu (x) r = Neg (k) y = Shape (r) }""",
    "unused": """agraph (float[4] x) => (float[4] y) { [kept] k = Relu (x) y = Neg (x) }""",
    "constant": """agraph (float[4] x) => (float[4] y) <float c = {2}> {
        [kept] k = Neg (c) y = Add (x, k) }""",
}


@pytest.mark.parametrize("name", REMOVED_WITH_OTHERS)
def test_nodes_are_not_removed_with_others(name: str) -> None:
    text = REMOVED_WITH_OTHERS[name]
    (before,) = (node for node in all_nodes(model(text)) if node.name == "kept")
    after = [
        node for node in all_nodes(converted("kept", text, verify=False)) if node.name == "kept"
    ]
    assert after == [before]
    others = all_nodes(converted(None, text, verify=False))
    assert not any(node == before for node in others)


def test_no_area_takes_them() -> None:
    chain = """agraph (float[64,64] x) => (float[64,64] y) { [a] a = Exp (x) [b] b = Tanh (a)
        [c] c = Exp (b) [d] d = Tanh (c) [e] e = Neg (d) [f] y = Sigmoid (e) }"""
    result = converted("c", chain, target="onnx", graph_kernel_flags="--opt_level=2", verify=False)
    assert [node.name for node in result.graph.node if node.domain == ""] == ["c"]
    assert len(result.graph.node) == 3


@pytest.mark.parametrize(
    ("names", "what", "code"),
    [
        ("conf", "no node of the model has the name conf", "E10016"),
        ("third/", "no node of the model has the name third/", "E10016"),
        (" ; ", "no node is named", "E10001"),
        ([], "no node is named", "E10001"),
        (Path("none.txt"), "the file of --keep_nodes does not exist", "E10410"),
        ("none.txt", "no node of the model has the name none.txt", "E10016"),
    ],
)
def test_wrong_uses(names: Any, what: str, code: str) -> None:
    with pytest.raises(UsageError, match=what) as raised:
        converted(names)
    assert (raised.value.exit_code, raised.value.code) == (2, code) and raised.value.hint
