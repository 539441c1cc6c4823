"""Compute nodes whose inputs are constants, all of them in one run of onnxruntime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx

from fusionc.model.graph import Edge, Node, Value
from fusionc.model.operators import MICROSOFT, QUANTIZATION, is_pure
from fusionc.model.tensors import to_proto

Array = np.ndarray[Any, Any]
_LARGE = 16 * 1024  # bytes


def can_evaluate(node: Node) -> bool:
    """Whether computing this node ahead is sound and onnxruntime could do it: a pure standard operator."""
    return (
        node.domain == ""
        and node.op not in QUANTIZATION
        and node.op != "Constant"
        and not node.bodies
        and not node.has_references
        and is_pure(node)
        and _divides_safely(node)
        and all(o is None or (o.dtype is not None and o.dtype.type.__module__ == "numpy") for o in node.outputs)
    )


def _divides_safely(node: Node) -> bool:
    """Whether no integer division here ends the process: by zero, or of the lowest number by −1."""
    if node.op not in ("Div", "Mod") or node.inputs[1] is None:
        return True
    dtype, divisor = node.inputs[1].dtype, node.inputs[1].constant()
    if dtype is not None and dtype.kind not in "iu":
        return True
    return divisor is not None and not np.isin(divisor, [0, -1] if divisor.dtype.kind == "i" else [0]).any()


def needed_inputs(node: Node) -> tuple[Edge | None, ...]:
    """The inputs whose elements a node reads. Of what CastLike casts to, only the type matters, which is known."""
    return node.inputs[:1] if node.op == "CastLike" else node.inputs


def evaluate(wanted: Sequence[Node], available: Sequence[Node]) -> dict[Node, dict[Value, Array]]:
    """The used outputs of the wanted nodes; `available` are the nodes that may be computed for that, in order.

    All in one run; where that fails, in two halves and so on, and what onnxruntime cannot compute is missing.
    """
    if not wanted:
        return {}
    needed = set(wanted)
    for node in reversed(available):
        if node in needed:
            needed.update(v.producer for v in needed_inputs(node) if v is not None and v.producer is not None)
    nodes = [node for node in available if node in needed]
    try:
        return _run(wanted, nodes)
    except Exception:  # onnxruntime raises many types, and one node spoils a whole run
        half = len(wanted) // 2
        return {**evaluate(wanted[:half], nodes), **evaluate(wanted[half:], nodes)} if half else {}


def _run(wanted: Sequence[Node], nodes: Sequence[Node]) -> dict[Node, dict[Value, Array]]:
    """The same, by one run of exactly these nodes."""
    import onnxruntime

    used = {node: [o for o in node.outputs if o is not None and o.is_used] for node in wanted}
    targets = [value for values in used.values() for value in values]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1  # the same sums in the same order every time
    options.log_severity_level = 4
    model, feeds = _model(nodes, targets)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    arrays = dict(zip(targets, session.run([value.name for value in targets], feeds), strict=True))
    if any(not isinstance(array, np.ndarray) for array in arrays.values()):
        raise TypeError("a result is no tensor")
    return {node: {value: arrays[value] for value in values} for node, values in used.items()}


def _model(nodes: Sequence[Node], targets: Iterable[Value]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of these nodes, and the large constants, which are handed over without writing them into it."""
    graph = nodes[0].graph
    model = onnx.ModelProto(ir_version=10)
    for domain, version in graph.opsets.items():
        if domain in ("", MICROSOFT):
            model.opset_import.add(domain=domain, version=version)
    model.graph.name = "constants"
    constants = dict.fromkeys(v for node in nodes for v in needed_inputs(node) if v is not None and v.is_constant)
    feeds: dict[str, Array] = {}
    for constant in constants:
        array = constant.constant()
        assert array is not None
        if array.nbytes > _LARGE and array.dtype.type.__module__ == "numpy" and array.dtype.kind in "biuf":
            model.graph.input.add(name=constant.name).type.tensor_type.elem_type = constant.elem_type
            feeds[constant.name] = np.ascontiguousarray(array)
        else:
            model.graph.initializer.append(to_proto(array, constant.name))
    for node in nodes:
        copy = model.graph.node.add(op_type=node.op, attribute=node.proto.attribute)
        if node.op == "CastLike":
            copy.op_type = "Cast"
            copy.attribute.append(onnx.helper.make_attribute("to", node.outputs[0].elem_type if node.outputs[0] else 0))
        copy.input.extend("" if v is None else v.name for v in needed_inputs(node))
        copy.output.extend("" if v is None else v.name for v in node.outputs)
    for value in targets:
        model.graph.output.add(name=value.name).type.tensor_type.elem_type = value.elem_type
    return model, feeds
