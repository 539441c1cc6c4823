"""Every node and tensor of a model, wherever it is."""

from __future__ import annotations

from collections.abc import Iterator

from everything import everything
from google.protobuf.message import Message
from harness import parse
from onnx import NodeProto, TensorProto

from fusionc.protos import nodes_of, reads_of, tensors_of, training_nodes


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
        kept, every = list(found), list(held(model, kind))
        assert len(kept) == len(every) > 5 and {id(m) for m in kept} == {id(m) for m in every}


def test_training_nodes_are_not_those_of_the_model() -> None:
    model = everything()
    kept, training = list(training_nodes(model)), [n for i in model.training_info for n in held(i, NodeProto)]
    assert training and {id(node) for node in kept} == {id(node) for node in training}


def test_what_a_node_reads() -> None:
    model = parse("""agraph (float[N] x, float[N] w, bool c) => (float[N] z) {
        z = If (c) <then_branch = t () => (float[N] p) { x = Neg (w) h = Relu (x) p = Add (h, h) },
                    else_branch = e () => (float[N] w) { }> }""")
    assert reads_of(model.graph.node[0]) == {"c", "w"}
    clip = parse("agraph (float[N] x, float hi) => (float[N] y) { y = Clip (x, , hi) }").graph.node[0]
    assert reads_of(clip) == {"x", "hi"}
