"""The types of values of a model before it is raised, and declared types that are wrong.

Types of inner values do not belong to a model's interface, and onnx gives up on those that
contradict its inference.
"""

from __future__ import annotations

from contextlib import suppress

import onnx
from onnx import GraphProto, ModelProto, TypeProto

from fusionc.protos import infer_types
from fusionc.shapes.inference import typed_model


def types_of(model: ModelProto) -> dict[str, TypeProto]:
    """The types that onnx infers for the values of the graph; nothing if it gives up on the
    model.
    """
    with suppress(onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError):
        graph = infer_types(model).graph
        return {
            value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)
        }
    return {}


def types_everywhere(model: ModelProto, folder: str) -> dict[str, TypeProto]:
    """The types of values after operators that onnx does not know, and in subgraphs, which onnx
    does not report. A name of values with several types in different graphs is left out.
    """
    found = dict[str, TypeProto]()
    several = set[str]()
    for graph in typed_model(model, folder).graphs:
        for name, value in graph.values.items():
            type_ = value.known_type.proto if value.elem_type else None
            if type_ is None or found.setdefault(name, type_) != type_:
                several.add(name)
    return {name: type_ for name, type_ in found.items() if name not in several}


def drop_contradictions(graph: GraphProto, light: ModelProto) -> dict[str, TypeProto]:
    """The types that onnx infers for the graph, whose copy is `light`. Declarations of inner values
    that contradict them are removed from both.
    """
    del light.graph.value_info[:]
    found = types_of(light)
    kept = [
        v for v in graph.value_info if v.name not in found or not _contradict(v.type, found[v.name])
    ]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    light.graph.value_info.extend(kept)
    return found


def _contradict(declared: TypeProto, found: TypeProto) -> bool:
    """Whether two types of one value cannot both be right."""
    one = declared.tensor_type
    other = found.tensor_type
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
