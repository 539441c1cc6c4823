"""Compute nodes whose inputs are constants, in as few runs of onnxruntime as possible."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx

from fusionc.model.graph import Edge, Node, Value
from fusionc.model.operators import MICROSOFT, QUANTIZATION, is_pure
from fusionc.model.tensors import to_proto
from fusionc.operators.facts import Trait, names_with
from fusionc.runtime.process import insist, request
from fusionc.runtime.run_errors import Crashed, OutOfMemory, Overdue, RunError

Array = np.ndarray[Any, Any]
_LARGE = 16 * 1024  # bytes
# of processor time for one run: what is folded must not depend on what else the machine does
_SECONDS = 10.0
_MOST_MEMORY = 2 << 30  # bytes that a run may take, and what the constants need beside it
_PATIENCE = 4  # nodes that may crash or block onnxruntime before the others are left as they are


def can_evaluate(node: Node) -> bool:
    """Whether computing this node ahead is sound and onnxruntime could do it: a pure standard
    operator.
    """
    return (
        node.domain == ""
        and node.op not in QUANTIZATION
        and node.op != "Constant"
        and not node.bodies
        and not node.has_references
        and is_pure(node)
        and _divides_safely(node)
        and all(
            o is None or (o.dtype is not None and o.dtype.type.__module__ == "numpy")
            for o in node.outputs
        )
    )


def _divides_safely(node: Node) -> bool:
    """Whether no integer division here ends the process: by zero, or of the lowest number by −1."""
    if node.op not in names_with(Trait.DIVIDES) or node.inputs[1] is None:
        return True
    dtype = node.inputs[1].dtype
    divisor = node.inputs[1].constant()
    if dtype is not None and dtype.kind not in "iu":
        return True
    return (
        divisor is not None
        and not np.isin(divisor, [0, -1] if divisor.dtype.kind == "i" else [0]).any()
    )


def needed_inputs(node: Node) -> tuple[Edge | None, ...]:
    """The inputs whose elements a node reads. Of what CastLike casts to, only the type matters,
    which is known.
    """
    return node.inputs[:1] if node.op == "CastLike" else node.inputs


@dataclass
class Evaluated:
    """The used outputs of nodes, and of the others why onnxruntime cannot compute them. It is
    `costly` to try those again that end or block it.
    """

    arrays: dict[Node, dict[Value, Array]] = field(default_factory=dict)
    reasons: dict[Node, str] = field(default_factory=dict)
    costly: list[Node] = field(default_factory=list)


def evaluate(wanted: Sequence[Node], available: Sequence[Node]) -> Evaluated:
    """Compute the wanted nodes; `available` are the nodes that may be computed for that, in order.

    All in one run. Where that fails, one node after the other: then it is known which of them
    fails, and the reason is given for that one. Wanted nodes that depend on it are missing in both
    tables.
    """
    needed = set(wanted)
    for node in reversed(available):
        if node in needed:
            needed.update(
                v.producer for v in needed_inputs(node) if v is not None and v.producer is not None
            )
    nodes = [node for node in available if node in needed]
    if not nodes:
        return Evaluated()
    try:
        known = _run(nodes, {o: None for node in wanted for o in _used(node)}, {})
    except RunError:
        return _one_by_one(set(wanted), nodes)
    return Evaluated({node: {o: known[o] for o in _used(node)} for node in wanted})


def _used(node: Node) -> list[Value]:
    return [o for o in node.outputs if o is not None and o.is_used]


def _one_by_one(wanted: Collection[Node], nodes: Sequence[Node]) -> Evaluated:
    """The same, in as many runs as there are nodes."""
    found = Evaluated()
    known: dict[Edge, Array] = {}
    last_use = {
        v: node
        for node in nodes
        for v in needed_inputs(node)
        if v is not None and v.producer is not None
    }
    for node in nodes:
        inputs = [v for v in needed_inputs(node) if v is not None]
        if all(v.is_constant or v in known for v in inputs):
            if len(found.costly) >= _PATIENCE:
                found.reasons[node] = (
                    "folding was given up here: too many others end or block onnxruntime"
                )
                continue
            try:
                outputs = insist(partial(_run, [node], dict.fromkeys(_used(node)), known))
            except RunError as error:
                found.reasons[node] = _reason(error)
                if isinstance(error, Crashed | Overdue | OutOfMemory):
                    found.costly.append(node)
                continue
            known.update(outputs)
            if node in wanted:
                found.arrays[node] = outputs
        for value in inputs:
            if last_use.get(value) is node and value.producer not in wanted:
                known.pop(value, None)
    return found


def _reason(error: RunError) -> str:
    if isinstance(error, Crashed):
        return "onnxruntime crashes when it computes it"
    if isinstance(error, Overdue):
        return f"onnxruntime takes longer than {_SECONDS:g} s to compute it"
    if isinstance(error, OutOfMemory):
        return "onnxruntime needs too much memory to compute it"
    return "onnxruntime cannot compute it"


def _run(
    nodes: Sequence[Node], targets: Mapping[Value, None], known: Mapping[Edge, Array]
) -> dict[Value, Array]:
    """These values, by one run of exactly these nodes. Raises RunError."""
    try:
        model, feeds = _model(nodes, targets, known)
        data = model.SerializeToString()
    except MemoryError as error:
        raise OutOfMemory(str(error)) from error
    except (
        Exception
    ) as error:  # what protobuf cannot hold, such as 2 GB of elements that numpy has not
        raise RunError(str(error)) from error
    most = _MOST_MEMORY + 3 * sum(array.nbytes for array in feeds.values())
    names = [value.name for value in targets]
    arrays = request("compute", data, names, feeds, most, _SECONDS)
    return dict(zip(targets, arrays, strict=True))


def _model(
    nodes: Sequence[Node], targets: Iterable[Value], known: Mapping[Edge, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of these nodes, and the large constants, which are handed over without writing them
    into it.

    What is `known` is a constant, too.
    """
    graph = nodes[0].graph
    model = onnx.ModelProto(ir_version=10)
    for domain, version in graph.opsets.items():
        if domain in ("", MICROSOFT):
            model.opset_import.add(domain=domain, version=version)
    model.graph.name = "constants"
    inputs = dict.fromkeys(v for node in nodes for v in needed_inputs(node) if v is not None)
    feeds: dict[str, Array] = {}
    for constant in inputs:
        array = known[constant] if constant in known else constant.constant()
        if array is None:  # one of the nodes makes it
            continue
        if (
            array.nbytes > _LARGE
            and array.dtype.type.__module__ == "numpy"
            and array.dtype.kind in "biuf"
        ):
            model.graph.input.add(
                name=constant.name
            ).type.tensor_type.elem_type = constant.elem_type
            feeds[constant.name] = np.ascontiguousarray(array)
        else:
            model.graph.initializer.append(to_proto(array, constant.name))
    for node in nodes:
        copy = model.graph.node.add(op_type=node.op, attribute=node.proto.attribute)
        if node.op == "CastLike":
            copy.op_type = "Cast"
            copy.attribute.append(
                onnx.helper.make_attribute(
                    "to", node.outputs[0].elem_type if node.outputs[0] else 0
                )
            )
        copy.input.extend("" if v is None else v.name for v in needed_inputs(node))
        copy.output.extend("" if v is None else v.name for v in node.outputs)
    for value in targets:
        model.graph.output.add(name=value.name).type.tensor_type.elem_type = value.elem_type
    return model, feeds
