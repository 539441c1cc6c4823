"""Mode 3 of ATC (Ascend's model converter): whether a model would run on the target, operator by
operator. The model is neither run nor changed.

If the target is onnxruntime, loading decides: a model that onnxruntime loads passes, and a model
that it does not load fails, whatever is known about single operators.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fusionc.disk.load import load
from fusionc.disk.onnx_checker import fault_of
from fusionc.model import operators
from fusionc.model.graph import Node
from fusionc.model.tensors import type_name
from fusionc.runtime.cpu_kernels import has_cpu_kernel, has_operator, way_to_run
from fusionc.runtime.runner import fault_of_loading
from fusionc.shapes.inference import typed_model

# ATC's codes for an unknown operator, and for an operator that does not accept its inputs
_UNSUPPORTED = 1
_INVALID = 2
_Cause = tuple[int, str]  # a code and a message


def precheck(path: Path, target: str) -> dict[str, Any]:
    """The content of ATC's check_result.json: how many operators there are, how many pass and fail,
    and the causes of each failure.

    The model has a `cause` of its own unless operators have another: the error of onnx.checker if
    the target is any runtime, and otherwise onnxruntime's error. Raises FusioncError if the file is
    not a model.
    """
    model = typed_model(load(path), os.fspath(path.parent), target)
    nodes = [node for graph in model.graphs for node in graph.ordered()]
    if model.is_for_onnxruntime:
        fault = fault_of_loading(path, level="all")
        causes = [] if fault is None else _causes_of_loading(nodes, fault)
    else:
        fault = fault_of(path)
        causes = [list(_causes(node)) for node in nodes]
    entries = list(map(_entry, nodes, causes or [[]] * len(nodes)))
    failed = sum(entry["result"] == "failed" for entry in entries)
    return {
        "name": model.main.proto.name or path.stem,
        "result": "failed" if failed or fault is not None else "success",
        "total": len(entries),
        "pass": len(entries) - failed,
        "fail": failed,
        "op": entries,
        **_own_cause(fault, causes),
    }


def _causes_of_loading(nodes: Sequence[Node], fault: str) -> list[list[_Cause]]:
    """For each node, why it prevents onnxruntime from loading the model. If no such node is known,
    the nodes that the message names get the message.
    """
    causes = [list(_causes(node)) for node in nodes]
    if any(causes):
        return causes
    named = set(re.findall(r"""[("'](.+?)[)"']""", fault))
    return [[(_INVALID, fault)] if node.name in named else [] for node in nodes]


def _own_cause(fault: str | None, causes: Sequence[Sequence[_Cause]]) -> dict[str, Any]:
    """The fault of the whole model. Empty if operators say the same in other words."""
    messages = {message for given in causes for _, message in given}
    if fault is None or (messages and fault not in messages):
        return {}
    return {"cause": [{"code": _INVALID, "message": fault}]}


def _entry(node: Node, given: Sequence[_Cause]) -> dict[str, Any]:
    causes = [{"code": code, "message": message} for code, message in given]
    name = operators.qualified(node.op, node.domain)
    result = "failed" if causes else "success"
    entry: dict[str, Any] = {"name": node.label(), "type": name, "result": result}
    return entry | ({"cause": causes} if causes else {})


def _causes(node: Node) -> Iterator[_Cause]:
    if node.function is not None:
        return
    is_for_onnxruntime = node.graph.model.is_for_onnxruntime
    version = node.graph.opset_of(node.domain)
    if is_for_onnxruntime and node.domain == operators.MICROSOFT:
        version = version or 1  # the domain has only this version, even if the model imports none
    domain = node.domain or "the standard operators"
    if not version:
        yield _INVALID, f"the model does not say which version of {domain} it uses"
    elif not _is_defined(node, version):
        name = operators.qualified(node.op, node.domain)
        yield _UNSUPPORTED, f"{name} is not an operator of version {version} of {domain}"
    elif is_for_onnxruntime and not node.is_op("Constant"):  # onnxruntime makes it an initializer
        yield from _lack_of_kernel(node, version, domain)


def _is_defined(node: Node, version: int) -> bool:
    """Whether ONNX, or the runtime that the model is for, knows the operator of a node."""
    if operators.schema(node.op, node.domain, version) is not None:
        return True
    return node.graph.model.is_for_onnxruntime and has_operator(node.op, node.domain, version)


def _lack_of_kernel(node: Node, version: int, domain: str) -> Iterator[_Cause]:
    """Why onnxruntime cannot run a node. Yields nothing if onnxruntime has a kernel for it."""
    types = [0 if value is None else value.elem_type for value in node.inputs]
    if way_to_run(node.op, node.domain, version, types) != "none":
        return
    lack = f"onnxruntime has no CPU kernel of {operators.qualified(node.op, node.domain)}"
    if has_cpu_kernel(node.op, node.domain, version):
        names = ", ".join(type_name(type_) if type_ else "?" for type_ in types)
        yield _INVALID, f"{lack} for inputs of the types {names}"
    else:
        yield _UNSUPPORTED, f"{lack} in version {version} of {domain}"
