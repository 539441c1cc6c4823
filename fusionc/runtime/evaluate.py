"""Compute nodes with constant inputs, in as few runs of onnxruntime as possible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx

from fusionc.model.graph import Edge, Node, Value
from fusionc.model.operators import MICROSOFT, QUANTIZATION, is_pure
from fusionc.model.tensors import to_proto
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import part_model
from fusionc.runtime.process import insist, request
from fusionc.runtime.run_errors import Crashed, OutOfMemory, Overdue, RunError

Array = np.ndarray[Any, Any]
_LARGE = 16 * 1024  # bytes
# The limit for one run, in seconds of processor time, which does not depend on the load of the
# machine. Therefore the same nodes are folded in every conversion.
_SECONDS = 10.0
_MAX_MEMORY = 2 << 30  # bytes that a run may take in addition to its constants
_COSTLY = (Crashed, Overdue, OutOfMemory)
_MAX_COSTLY = 4  # after this many nodes that crash or block onnxruntime, folding gives up


def can_evaluate(node: Node) -> bool:
    """Whether it is correct to compute this node before the model runs, and whether onnxruntime is
    likely to be able to compute it.
    """
    return not obstacle_to_evaluation(node)


def obstacle_to_evaluation(node: Node) -> str:
    """Why a node cannot be computed before the model runs; empty if it can be computed."""
    return next((reason for reason, applies in _OBSTACLES if applies(node)), "")


def _has_unknown_type(node: Node) -> bool:
    return any(o is not None and o.dtype is None for o in node.outputs)


def _has_other_type(node: Node) -> bool:
    """Whether numpy lacks the element type of a result."""
    return any(
        o is not None and o.dtype is not None and o.dtype.type.__module__ != "numpy"
        for o in node.outputs
    )


def _divides_safely(node: Node) -> bool:
    """Whether the node cannot crash the process by an integer division. A division by zero crashes
    it, and so does the division of the lowest number by −1.
    """
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


_OBSTACLES: tuple[tuple[str, Callable[[Node], bool]], ...] = (
    ("its operator is not a standard one", lambda node: node.domain != ""),
    ("it belongs to the quantization of the model", lambda node: node.op in QUANTIZATION),
    ("it is a constant itself", lambda node: node.op == "Constant"),
    ("it has a subgraph", lambda node: bool(node.bodies)),
    (
        "its attributes are parameters of the function that holds it",
        lambda node: node.has_references,
    ),
    ("it is random or stateful", lambda node: not is_pure(node)),
    ("it might divide by zero", lambda node: not _divides_safely(node)),
    ("the element type of its result is not known", _has_unknown_type),
    ("numpy lacks the element type of its result", _has_other_type),
)


def needed_inputs(node: Node) -> tuple[Edge | None, ...]:
    """The inputs whose elements a node reads: all inputs, except the second input of CastLike. Only
    the type of that input matters, and the type is known.
    """
    return node.inputs[:1] if node.op == "CastLike" else node.inputs


@dataclass
class Evaluated:
    """The computed outputs, and the reasons why other nodes could not be computed."""

    arrays: dict[Node, dict[Value, Array]] = field(default_factory=dict)  # the used outputs
    reasons: dict[Node, str] = field(default_factory=dict)  # why nodes could not be computed
    costly: list[Node] = field(default_factory=list)  # nodes that crash or block onnxruntime


def evaluate(wanted: Sequence[Node], available: Sequence[Node]) -> Evaluated:
    """Compute the wanted nodes. `available` are all nodes that may be computed for this purpose, in
    topological order.

    All nodes run together. If this run fails, each node runs separately, which gives a reason for
    each node that fails. A wanted node that depends on a failing node is neither in `arrays` nor in
    `reasons` of the result.
    """
    nodes = _needed(wanted, available)
    if not nodes:
        return Evaluated()
    try:
        known = _run(nodes, list(dict.fromkeys(o for node in wanted for o in _used(node))), {})
    except RunError:
        return _OneByOne(set(wanted), nodes).evaluated()
    return Evaluated({node: {o: known[o] for o in _used(node)} for node in wanted})


def _needed(wanted: Sequence[Node], available: Sequence[Node]) -> list[Node]:
    """The wanted nodes and the available nodes on which they depend, in topological order."""
    needed = set(wanted)
    for node in reversed(available):
        if node in needed:
            needed.update(v.producer for v in _reads(node) if v.producer is not None)
    return [node for node in available if node in needed]


def _reads(node: Node) -> list[Edge]:
    return [value for value in needed_inputs(node) if value is not None]


def _used(node: Node) -> list[Value]:
    return [o for o in node.outputs if o is not None and o.is_used]


class _OneByOne:
    """Runs each node separately."""

    def __init__(self, wanted: Collection[Node], nodes: Sequence[Node]) -> None:
        self._wanted = wanted
        self._nodes = nodes
        self._results = Evaluated()
        self._known: dict[Edge, Array] = {}  # computed values that nodes still have to read
        self._last_use = {v: node for node in nodes for v in _reads(node)}

    def evaluated(self) -> Evaluated:
        for node in self._nodes:
            if all(v.is_constant or v in self._known for v in _reads(node)):
                self._run(node)
            self._drop_unneeded(node)
        return self._results

    def _run(self, node: Node) -> None:
        results = self._results
        if len(results.costly) >= _MAX_COSTLY:
            results.reasons[node] = (
                "the node was not tried, because too many other nodes crash or block onnxruntime"
            )
            return
        try:
            outputs = insist(partial(_run, [node], _used(node), self._known))
        except RunError as error:
            results.reasons[node] = _reason(error)
            results.costly += [node] if isinstance(error, _COSTLY) else []
            return
        self._known.update(outputs)
        if node in self._wanted:
            results.arrays[node] = outputs

    def _drop_unneeded(self, node: Node) -> None:
        """Drop the arrays that no node after this node reads."""
        for value in _reads(node):
            if self._last_use[value] is node and value.producer not in self._wanted:
                self._known.pop(value, None)


def _reason(error: RunError) -> str:
    if isinstance(error, Crashed):
        return "onnxruntime crashes when it computes it"
    if isinstance(error, Overdue):
        return f"onnxruntime takes longer than {_SECONDS:g} s to compute it"
    if isinstance(error, OutOfMemory):
        return "onnxruntime needs too much memory to compute it"
    return "onnxruntime cannot compute it"


def _run(
    nodes: Sequence[Node], targets: Sequence[Value], known: Mapping[Edge, Array]
) -> dict[Value, Array]:
    """Compute these values by one run of exactly these nodes. Raises RunError."""
    try:
        model, feeds = _model(nodes, targets, known)
        data = model.SerializeToString()
    except MemoryError as error:
        raise OutOfMemory(str(error)) from error
    except Exception as error:  # for example, constants of more than 2 GB in protobuf
        raise RunError(str(error)) from error
    most = _MAX_MEMORY + 3 * sum(array.nbytes for array in feeds.values())
    names = [value.name for value in targets]
    arrays = request("compute", data, names, feeds, most, _SECONDS)
    return dict(zip(targets, arrays, strict=True))


def _model(
    nodes: Sequence[Node], targets: Sequence[Value], known: Mapping[Edge, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of these nodes, and the values to feed to it. Small constants are stored in the
    model, and large constants are inputs. The values in `known` count as constants, too.
    """
    opsets = {d: v for d, v in nodes[0].graph.opsets.items() if d in ("", MICROSOFT)}
    inputs = list[Edge]()
    constants = list[onnx.TensorProto]()
    feeds: dict[str, Array] = {}
    for value in dict.fromkeys(v for node in nodes for v in _reads(node)):
        array = known[value] if value in known else value.constant()
        if array is not None and _is_fed(array):
            inputs.append(value)
            feeds[value.name] = np.ascontiguousarray(array)
        elif array is not None:  # if the array is None, one of the nodes computes the value
            constants.append(to_proto(array, value.name))
    ends = map(_declared, inputs), map(_declared, targets)
    return part_model("constants", map(_alone, nodes), opsets, *ends, constants), feeds


def _is_fed(array: Array) -> bool:
    is_numpy_type = array.dtype.type.__module__ == "numpy" and array.dtype.kind in "biuf"
    return array.nbytes > _LARGE and is_numpy_type


def _declared(value: Edge) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(value.name, value.elem_type, None)


def _alone(node: Node) -> onnx.NodeProto:
    """A copy of the node. A CastLike becomes a Cast, which does not need the second input."""
    copy = onnx.NodeProto(op_type=node.op, attribute=node.proto.attribute)
    if node.op == "CastLike":
        copy.op_type = "Cast"
        target = node.outputs[0].elem_type if node.outputs[0] else 0
        copy.attribute.append(onnx.helper.make_attribute("to", target))
    copy.input.extend("" if v is None else v.name for v in needed_inputs(node))
    copy.output.extend("" if v is None else v.name for v in node.outputs)
    return copy
