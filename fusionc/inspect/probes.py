"""How onnxruntime runs an operator for which it has no kernel. To find out, it loads a model of
that one node.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import onnx
from onnx import TensorProto, helper

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array, to_proto
from fusionc.protos import part_model
from fusionc.runtime.process import request
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.session_settings import SessionSettings

Way = Literal["kernel", "parts", "float32", "none"]
_SMALL = 64  # an input of at most this many elements may have to be a constant: axes, sizes, limits
_MOST = 100  # the largest number of operators that are probed


class Probes:
    """Probes each kind of node once: an operator with its attributes, types and ranks."""

    def __init__(self) -> None:
        self._ways: dict[bytes, Way] = {}

    def way(self, node: Node) -> Way:
        """How onnxruntime runs the node: as it is, between Casts, as the operators that define it,
        or not at all.
        """
        proto = _alone(node)
        key = proto.SerializeToString(deterministic=True)
        if key not in self._ways:
            if len(self._ways) == _MOST:
                return "parts"
            self._ways[key] = _asked(proto, node)
        return self._ways[key]


def _asked(proto: onnx.ModelProto, node: Node) -> Way:
    with TemporaryDirectory() as folder:
        file = Path(folder, "one.onnx")
        target = Path(folder, "run.onnx")
        onnx.save(proto, file)
        try:
            request("optimized_by", str(file), [], SessionSettings().as_json(), False, str(target))
        except RunError as error:  # another reason, which loading the whole model will show
            return "none" if error.lacks_kernel else "kernel"
        made = {made.op_type for made in onnx.load(target, load_external_data=False).graph.node}
    if node.op not in made:
        return "parts"
    is_half = any(
        value is not None and value.elem_type == TensorProto.FLOAT16 for value in node.inputs
    )
    return "float32" if is_half and "Cast" in made else "kernel"


def _alone(node: Node) -> onnx.ModelProto:
    """A model of this one node. Its inputs keep their ranks, which may matter, but not their sizes.
    Small constants stay constants.
    """
    one = onnx.NodeProto(op_type=node.op, domain=node.domain, attribute=node.proto.attribute)
    inputs = list[onnx.ValueInfoProto]()
    outputs = list[onnx.ValueInfoProto]()
    constants = list[TensorProto]()
    for at, value in enumerate(node.inputs):
        one.input.append("" if value is None else f"i{at}")
        array = _small_constant(value)
        if value is None:
            continue
        if array is not None:
            constants.append(to_proto(array, f"i{at}"))
            continue
        shape = None if value.rank is None else [None] * value.rank
        inputs.append(helper.make_tensor_value_info(f"i{at}", value.elem_type, shape))
    for at, value in enumerate(node.outputs):
        one.output.append("" if value is None else f"o{at}")
        if value is not None:
            outputs.append(onnx.ValueInfoProto(name=f"o{at}"))
    opsets = {"": node.graph.opset}
    if node.domain:
        opsets[node.domain] = node.graph.opset_of(node.domain) or 1
    return part_model("one", [one], opsets, inputs, outputs, constants)


def _small_constant(value: Edge | None) -> Array | None:
    array = None if value is None else value.constant()
    return array if array is not None and array.size <= _SMALL else None
