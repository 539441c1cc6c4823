"""Every node and tensor of a model, wherever it is, and the shapes that onnx infers without listing
long vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from everything import everything
from google.protobuf.message import Message
from harness import parse
from onnx import NodeProto, TensorProto

from fusionc.protos import (
    infer_types,
    initialized,
    inputs_to_feed,
    nodes_of,
    reads_of,
    tensors_of,
    training_nodes,
)


def held(message: Message, kind: type) -> Iterator[Message]:
    """All messages of a kind that a message holds, found without knowing any field."""
    if isinstance(message, kind):
        yield message
    for field, value in message.ListFields():
        for part in value if field.is_repeated else [value]:
            if isinstance(part, Message):
                yield from held(part, kind)


def test_every_node_and_tensor_is_found_once() -> None:
    model = everything()
    for found, kind in ((nodes_of(model), NodeProto), (tensors_of(model), TensorProto)):
        kept = list(found)
        every = list(held(model, kind))
        assert len(kept) == len(every) > 5 and {id(m) for m in kept} == {id(m) for m in every}


def test_training_nodes_are_not_those_of_the_model() -> None:
    model = everything()
    kept = list(training_nodes(model))
    training = [n for i in model.training_info for n in held(i, NodeProto)]
    assert training and {id(node) for node in kept} == {id(node) for node in training}


def test_what_a_caller_must_feed() -> None:
    graph = parse(
        "agraph (float[2] x, float[2] w = {1,2}, float[9] v) => (float[2] y) { y = Add (x, w) }"
    ).graph
    assert [value.name for value in inputs_to_feed(graph)] == ["x", "v"]
    graph.sparse_initializer.add().values.name = "v"
    assert [value.name for value in inputs_to_feed(graph)] == ["x"] and initialized(graph) == {
        "w",
        "v",
    }


def test_what_a_node_reads() -> None:
    model = parse("""agraph (float[N] x, float[N] w, bool c) => (float[N] z) {
        z = If (c) <then_branch = t () => (float[N] p) { x = Neg (w) h = Relu (x) p = Add (h, h) },
                    else_branch = e () => (float[N] w) { }> }""")
    assert reads_of(model.graph.node[0]) == {"c", "w"}
    clip = parse("agraph (float[N] x, float hi) => (float[N] y) { y = Clip (x, , hi) }").graph.node[
        0
    ]
    assert reads_of(clip) == {"x", "hi"}


@pytest.mark.parametrize(
    ("inputs", "dims"),
    [
        ("float[4] x, float[7] v", [4, 4]),
        ("float[4] x, float[4000000000000] v", [4]),
        ("float[4] x, float[1000, 4000000000] m", [4, 4]),
    ],
)
def test_long_vectors_are_not_listed(inputs: str, dims: list[int]) -> None:
    more = "w = Neg (m)" if inputs.endswith("m") else "w = Mul (v, one_f)"
    model = parse(
        f"agraph ({inputs}) => (float y) <int64[1] one = {{4}}, float[1] one_f = {{1}}> "
        f"{{ s = Shape (x) t = Concat <axis = 0> (s, one) r = Expand (x, t) {more} y = ReduceSum "
        f"<keepdims = 0> (r) }}"
    )
    types = {value.name: value.type.tensor_type for value in infer_types(model).graph.value_info}
    assert [dim.dim_value for dim in types["r"].shape.dim if dim.HasField("dim_value")] == dims
    assert types["w"].shape.dim[0].dim_value in (7, 4000000000000, 1000)
