"""The types of values of a model before its opset is raised. Wrong declared types are removed.

onnx rejects declared types that contradict its inference. Types of intermediate values do not
belong to the interface of a model, so they may be removed.
"""

from __future__ import annotations

from contextlib import suppress

import onnx
from onnx import GraphProto, ModelProto, TypeProto

from fusionc.protos import infer_types
from fusionc.shapes.inference import typed_model


def types_of(model: ModelProto) -> dict[str, TypeProto]:
    """The types that onnx infers for the values of the main graph, by name. Empty if the inference
    fails.
    """
    with suppress(onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError):
        graph = infer_types(model).graph
        return {
            value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)
        }
    return {}


def types_everywhere(model: ModelProto, folder: str) -> dict[str, TypeProto]:
    """The types of values in all graphs, by name. Unlike onnx's inference, this also finds types in
    subgraphs and after operators that onnx does not know. A name that has different types in
    different graphs is left out.
    """
    types = dict[str, TypeProto]()
    ambiguous = set[str]()
    for graph in typed_model(model, folder).graphs:
        for name, value in graph.values.items():
            type_ = value.known_type.proto if value.elem_type else None
            if type_ is None or types.setdefault(name, type_) != type_:
                ambiguous.add(name)
    return {name: type_ for name, type_ in types.items() if name not in ambiguous}


def drop_contradictions(graph: GraphProto, light: ModelProto) -> dict[str, TypeProto]:
    """The types that onnx infers for the values of the graph, by name. `light` is a model that
    contains a copy of the graph. Declarations of intermediate values that contradict the inferred
    types are removed from the graph and from its copy.
    """
    del light.graph.value_info[:]
    inferred = types_of(light)
    kept = [
        v
        for v in graph.value_info
        if v.name not in inferred or not _contradict(v.type, inferred[v.name])
    ]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    light.graph.value_info.extend(kept)
    return inferred


def _contradict(declared: TypeProto, inferred: TypeProto) -> bool:
    """Whether the declared and the inferred type of a value cannot both be right."""
    one = declared.tensor_type
    other = inferred.tensor_type
    if one.elem_type and other.elem_type and one.elem_type != other.elem_type:
        return True
    if not one.HasField("shape") or not other.HasField("shape"):
        return False
    pairs = list(zip(one.shape.dim, other.shape.dim, strict=False))
    known = [
        (a.dim_value, b.dim_value)
        for a, b in pairs
        if a.HasField("dim_value") and b.HasField("dim_value")
    ]
    return len(one.shape.dim) != len(other.shape.dim) or any(a != b for a, b in known)
