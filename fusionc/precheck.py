"""ATC's mode 3: would a model run on the target? Operator by operator, without running or changing it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fusionc.disk.load import load
from fusionc.disk.onnx_checker import fault_of
from fusionc.model import operators
from fusionc.model.graph import Node
from fusionc.model.tensors import type_name
from fusionc.runtime.cpu_kernels import has_cpu_kernel, has_operator, way_to_run
from fusionc.shapes.inference import typed_model

_UNSUPPORTED, _INVALID = 1, 2  # ATC's codes for an operator that there is not, and for one that cannot take its inputs


def precheck(path: Path, target: str) -> dict[str, Any]:
    """The content of ATC's check_result.json: how many operators there are, pass and fail, and each with its causes.

    `cause` beside these is what onnx.checker has against the model as a whole. Raises FusioncError where the file is no
    model.
    """
    model = typed_model(load(path), os.fspath(path.parent), target)
    nodes = [node for graph in model.graphs for node in graph.ordered()]
    entries = [_entry(node) for node in nodes]
    failed = sum(entry["result"] == "failed" for entry in entries)
    fault = fault_of(path)
    result: dict[str, Any] = {
        "name": model.main.proto.name or path.stem,
        "result": "failed" if failed or fault is not None else "success",
        "total": len(entries),
        "pass": len(entries) - failed,
        "fail": failed,
        "op": entries,
    }
    if fault is not None:
        result["cause"] = [{"code": _INVALID, "message": fault}]
    return result


def _entry(node: Node) -> dict[str, Any]:
    causes = [{"code": code, "message": message} for code, message in _causes(node)]
    name, result = operators.qualified(node.op, node.domain), "failed" if causes else "success"
    entry: dict[str, Any] = {"name": node.label(), "type": name, "result": result}
    return entry | ({"cause": causes} if causes else {})


def _causes(node: Node) -> Iterator[tuple[int, str]]:
    model, version = node.graph.model, node.graph.opset_of(node.domain)
    if model.is_for_onnxruntime and node.domain == operators.MICROSOFT:
        version = version or 1  # the one that there is, whether the model says so or not
    if node.function is not None:
        return
    schema, name = operators.schema(node.op, node.domain, version), operators.qualified(node.op, node.domain)
    place = f"version {version} of {node.domain or 'the standard operators'}"
    if not version:
        yield _INVALID, f"the model does not say which version of {node.domain or 'the standard operators'} it uses"
    elif schema is None and not (model.is_for_onnxruntime and has_operator(node.op, node.domain, version)):
        yield _UNSUPPORTED, f"{name} is not an operator of {place}"
    elif model.is_for_onnxruntime and not node.is_op("Constant"):  # which onnxruntime makes an initializer
        types = [0 if value is None else value.elem_type for value in node.inputs]
        if way_to_run(node.op, node.domain, version, types) != "none":
            return
        if not has_cpu_kernel(node.op, node.domain, version):
            yield _UNSUPPORTED, f"onnxruntime has no CPU kernel of {name} in {place}"
        else:
            taken = ", ".join(type_name(type_) if type_ else "?" for type_ in types)
            yield _INVALID, f"onnxruntime has no CPU kernel of {name} for inputs of the types {taken}"
