"""The operators of an area as a model. If a kernel does not support the sizes of a run, it runs
this model instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
from onnx import helper

from fusionc.graph_kernel.area import Area
from fusionc.model.operators import MICROSOFT
from fusionc.model.tensors import to_proto
from fusionc.protos import part_model

_IR_VERSION = 8  # onnxruntime accepts this version with every opset of areas


def operators_as_model(area: Area) -> bytes:
    """The model. It does not contain declared sizes or the area's names of values.

    The names of inputs and outputs are p0, p1, … in order, so that equal areas give equal models.
    """
    names: dict[str, str] = {}
    for name in (*area.inputs, *area.outputs):
        names[name] = f"p{len(names)}"
    nodes = [_renamed(node, names) for node in area.nodes]

    def declared(ends: Sequence[str]) -> Iterator[onnx.ValueInfoProto]:
        for name in ends:
            yield helper.make_tensor_value_info(names[name], area.values[name].dtype, None)

    model = part_model(
        "operators",
        nodes,
        {"": area.opset, MICROSOFT: 1},
        declared(area.inputs),
        declared(area.outputs),
        (to_proto(array, names[name]) for name, array in area.constants.items() if name in names),
        ir_version=_IR_VERSION,
    )
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _renamed(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    made = onnx.NodeProto(op_type=node.op_type, domain=node.domain, attribute=node.attribute)
    made.input.extend(name and names.setdefault(name, f"v{len(names)}") for name in node.input)
    made.output.extend(name and names.setdefault(name, f"v{len(names)}") for name in node.output)
    return made


def text_of(data: bytes) -> str:
    """A C string literal with these bytes."""
    plain = {
        *range(ord("0"), ord("9") + 1),
        *range(ord("A"), ord("Z") + 1),
        *range(ord("a"), ord("z") + 1),
    }
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in data) + '"'
