"""Operators for which onnxruntime has no kernel of its own on a CPU, or a slow one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onnx import TensorProto

from fusionc.inspection.finding import Finding
from fusionc.model.graph import Model, Node
from fusionc.model.operators import is_composite
from fusionc.model.tensors import type_name
from fusionc.runtime.cpu_kernels import has_cpu_kernel

_FLOAT_OF: dict[int, int] = {TensorProto.FLOAT16: TensorProto.FLOAT, TensorProto.BFLOAT16: TensorProto.FLOAT}
_BY_STEPS = ("Loop", "Scan")


def findings(model: Model) -> Iterator[Finding]:
    """What is to say of the nodes of all graphs, by what onnxruntime would do with each."""
    nodes = [node for graph in model.graphs for node in graph.ordered() if node.function is None]
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(_how(node), []).append(node)
    if cast := found.get("cast"):
        read = {value.elem_type for node in cast for value in node.inputs if value is not None}
        types = sorted(type_name(elem_type) for elem_type in read & _FLOAT_OF.keys())
        yield Finding(
            "computed in float32",
            f"no kernel for {' or '.join(types)}: {_counted(cast)}; onnxruntime puts Casts around them",
            "on a CPU a float32 model is faster; keep the weights small by quantization instead",
            _labels(cast),
        )
    if missing := found.get("none"):
        yield Finding(
            "no kernel",
            f"no kernel for what they read: {_counted(missing)}; onnxruntime will not load the model",
            "export with other element types, or raise the model with --target_opset",
            _labels(missing),
        )
    if written := found.get("written out"):
        yield Finding(
            "written out when the model is loaded",
            f"no kernel of their own: {_counted(written)}; onnxruntime runs the operators that they are made of",
            "convert with --enable_graph_kernel, which generates one kernel for each",
            _labels(written),
        )
    if steps := [node for node in nodes if node.is_op(*_BY_STEPS)]:
        yield Finding(
            "computed step by step",
            f"a subgraph is run anew for every step: {_counted(steps)}",
            "export what they compute as one operator, as LSTM, GRU or CumSum, or unrolled where the steps are few",
            _labels(steps),
        )
    if flat := [n for n in nodes if n.is_op("Conv") and n.inputs[0] is not None and n.inputs[0].rank == 3]:
        yield Finding(
            "convolutions over one axis",
            f"not in onnxruntime's blocked layout, which is faster: {_counted(flat)}",
            "convert: Conv1dToConv2dPass makes those of float32 convolutions over two axes",
            _labels(flat),
        )


def _how(node: Node) -> str:
    version, types = node.graph.opset_of(node.domain), [0 if v is None else v.elem_type for v in node.inputs]
    if node.is_op("Constant") or has_cpu_kernel(node.op, node.domain, version or 1, *types):
        return "a kernel"
    if is_composite(node.op, node.domain, version):
        return "written out"
    wider = [_FLOAT_OF.get(type_, type_) for type_ in types]
    if wider != types and has_cpu_kernel(node.op, node.domain, version or 1, *wider):
        return "cast"
    is_known = all(type_ or value is None for type_, value in zip(types, node.inputs, strict=True))
    return "none" if is_known and node.domain == "" else "unknown"


def _counted(nodes: list[Node]) -> str:
    counts = Counter(node.op for node in nodes)
    return ", ".join(f"{times} {op}" for op, times in sorted(counts.items()))


def _labels(nodes: list[Node]) -> tuple[str, ...]:
    return tuple(node.label() for node in nodes)
