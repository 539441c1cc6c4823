"""What nodes say of themselves is read wherever it stands."""

from __future__ import annotations

import onnx

from fusionc.protos.node_origin import Origin, doc_line, origin_of


def test_a_node_that_no_pass_has_made_says_nothing() -> None:
    assert (
        origin_of(
            onnx.NodeProto(
                op_type="Relu", doc_string="made by hand: fusionc.pass=A; fusionc.from=b"
            )
        )
        is None
    )


def test_metadata_are_read_and_every_line_of_a_doc_string() -> None:
    node = onnx.NodeProto(
        doc_string=f"by hand\n{doc_line(Origin(('A',), ('a', 'b')))}\nfusionc.pass=B; fusionc.from=b,c"
    )
    assert origin_of(node) == Origin(("A", "B"), ("a", "b", "c"))
    node.metadata_props.add(key="fusionc.pass", value="C,A")
    node.metadata_props.add(key="fusionc.from", value="d")
    assert origin_of(node) == Origin(("A", "B", "C"), ("a", "b", "c", "d"))
