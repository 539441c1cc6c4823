"""The tape: new nodes and constants of a rewrite. The graph does not see them before they are
committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import filterfalse
from typing import Any, overload

import numpy as np
import onnx
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from fusionc.model import operators
from fusionc.model.graph import Constant, Edge, Graph, Node, Value
from fusionc.model.operators import MICROSOFT
from fusionc.model.questions import refuse, unknown
from fusionc.model.tensors import Array
from fusionc.runtime.cpu_kernels import lack_of_kernel
from fusionc.shapes.inference import infer_node

_Inputs = Sequence[Edge | None]
_ITS_OWN = object()  # keep the element type of the array
_RAISED_FROM_IR = 4  # from this IR version on, a model may be raised to one with functions


class Tape:
    """Builds the replacement of a match: `new.Conv(x, W, b, like=m.conv)`, `new.const(array,
    like=m.W)`.

    It refuses an operator that the opset does not have or the target has no kernel for, so that no
    pass needs to ask.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants: dict[Constant, str] = {}  # with the name that each prefers
        self.functions: list[onnx.FunctionProto] = []  # called by the new nodes
        # with the values that their subgraphs read instead
        self.moved: dict[Node, tuple[Node, Mapping[Edge, Edge]]] = {}
        self._captured: dict[Node, tuple[Edge, ...]] = {}  # by moved node: what its subgraphs read

    def __getattr__(self, op: str) -> Callable[..., Value]:
        if op.startswith("_"):
            raise AttributeError(op)
        return lambda *inputs, **options: self.node(op, inputs, **options)

    @overload
    def node(
        self, op: str, inputs: _Inputs, *, outputs: int | Sequence[bool], **options: Any
    ) -> tuple[Value, ...]: ...
    @overload
    def node(self, op: str, inputs: _Inputs, **options: Any) -> Value: ...
    def node(
        self,
        op: str,
        inputs: _Inputs,
        *,
        domain: str = "",
        like: Node | None = None,
        outputs: int | Sequence[bool] = 0,
        **attributes: Any,
    ) -> Any:
        """A new node; returns its one output, or a tuple of the outputs that `outputs` asks for.

        `like` lends the attributes (and keeps unknown ones); `attributes` override them, and None
        removes one. Trailing inputs that are None are left out. `outputs` is the number of outputs,
        or says of each whether it is wanted; an unwanted one is None. Types and shapes of the
        outputs are inferred at once. Refuses if `like` holds subgraphs; use `move` for those.
        """
        self._require(op, domain, inputs, is_new=like is None or like.op != op)
        proto = onnx.NodeProto(op_type=op, domain=domain)
        if like is not None:
            if like.bodies:
                refuse("the node whose attributes are taken holds subgraphs")
            proto.attribute.extend(a for a in like.proto.attribute if a.name not in attributes)
            proto.overload = like.proto.overload
        written = {name: value for name, value in attributes.items() if value is not None}
        proto.attribute.extend(map(onnx.helper.make_attribute, written, written.values()))
        wanted = [True] * (outputs or 1) if isinstance(outputs, int) else outputs
        node = self._add(proto, _strip_trailing(inputs), wanted)
        proto.input.extend(map(_name_of, node.inputs))
        proto.output.extend(map(_name_of, node.outputs))
        try:
            infer_node(node)
        except (InferenceError, ValidationError):
            refuse(f"onnx rejects the new {op}")
        return node.outputs if outputs else node.outputs[0]

    def move(
        self, node: Node, inputs: Sequence[Edge | None], values: Mapping[Edge, Edge]
    ) -> tuple[Value | None, ...]:
        """A node with its subgraphs, moved from a graph that this rewrite removes; returns all its
        outputs.

        `values` says which values the subgraphs read instead of those of that graph.
        """
        moved = self._add(node.proto, inputs, [value is not None for value in node.outputs])
        self._captured[moved] = tuple(values.get(value, value) for value in node.captures())
        for old, value in zip(node.outputs, moved.outputs, strict=True):
            if old is not None and value is not None:
                value.known_type = old.known_type
        self.moved[moved] = (node, values)
        return moved.outputs

    def reads(self, node: Node) -> tuple[Edge | None, ...]:
        """Everything that a new node will read, including its subgraphs."""
        return (*node.inputs, *self._captured.get(node, ()))

    def _add(
        self, proto: onnx.NodeProto, inputs: Sequence[Edge | None], wanted: Sequence[bool]
    ) -> Node:
        prefix = f"new {len(self.nodes)}"
        names = [f"{prefix}.{at}" if is_wanted else "" for at, is_wanted in enumerate(wanted)]
        outputs = [Value(name, self.graph) if name else None for name in names]
        node = Node(proto, self.graph, inputs, outputs)
        self.nodes.append(node)
        return node

    def call(self, function: onnx.FunctionProto, inputs: Sequence[Edge]) -> tuple[Value, ...]:
        """A call of a model-local function, which is added to the model if necessary. Returns all
        outputs.
        """
        if self.graph.model.ir_version < _RAISED_FROM_IR:
            refuse(
                f"a model of IR version {self.graph.model.ir_version} lists its constants as inputs"
            )
        self.functions.append(function)
        return self.node(
            function.name, inputs, domain=function.domain, outputs=len(function.output)
        )

    def const(self, array: Any, *, like: Edge | None = None, dtype: Any = _ITS_OWN) -> Constant:
        """A new constant, in the element type of `like` unless `dtype` says otherwise.

        Compute it in a wider type: it is rounded here, once. Refuses if a finite number would
        become infinite, if an integer would be rounded, and if the wanted type is unknown, as in
        the body of a function. Integers of another integer type wrap around.
        """
        values = np.asarray(array)
        wanted = _wanted_type(like, dtype)
        if wanted is not None and values.dtype != wanted:
            values = _rounded(values, wanted)
        constant = Constant(f"new constant {len(self.constants)}", self.graph, values)
        self.constants[constant] = "" if like is None else like.name
        return constant

    def _require(self, op: str, domain: str, inputs: _Inputs, is_new: bool) -> None:
        """Refuse an operator that the opset or the target does not have."""
        model = self.graph.model
        version = self.graph.opset_of(domain)
        elem_types = [None if value is None else value.elem_type for value in inputs]

        def lack(version: int) -> str:
            if not model.is_for_onnxruntime:
                return ""
            return lack_of_kernel(op, domain, version, elem_types, is_new) or ""

        if domain == "" and operators.schema(op, domain, version) is None:
            later = range(version + 1, onnx.defs.onnx_opset_version() + 1)
            known = filter(partial(operators.schema, op, ""), later)
            fitting = next(filterfalse(lack, known), 0)
            refuse(f"opset {version} has no {op}", opset=fitting)
        if domain == MICROSOFT and not model.is_for_onnxruntime:
            refuse(f"target {model.target} has no {op}")
        if missing := lack(version):
            refuse(missing)
        if is_new and domain == "" and version < 7 and op in operators.ALIGNED_BEFORE_7:
            refuse("before opset 7 operators broadcast in another way")


def _strip_trailing(inputs: _Inputs) -> _Inputs:
    """The inputs without those at the end that are left out."""
    count = len(inputs)
    while count and inputs[count - 1] is None:
        count -= 1
    return inputs[:count]


def _name_of(value: Edge | None) -> str:
    return "" if value is None else value.name


def _wanted_type(like: Edge | None, dtype: Any) -> np.dtype[Any] | None:
    """The element type of a new constant; None keeps that of the array. Refuses an unknown one."""
    wanted: np.dtype[Any] | None = None
    if dtype is not _ITS_OWN and dtype is not None:
        wanted = np.dtype(dtype)
    elif like is not None:
        # in a function body, types are unknown
        stored = like.constant() if like.dtype is None else None
        wanted = like.require_type() if stored is None else stored.dtype
    elif dtype is None:
        refuse(unknown("the element type"))
    return wanted


def _rounded(values: Array, wanted: np.dtype[Any]) -> Array:
    """The numbers in another type. Refuses infinities that were finite, and rounded integers."""
    rounded = values.astype(wanted)
    if wanted.kind not in "iubOSU" and not np.array_equal(_finite(rounded), _finite(values)):
        refuse(f"a constant would overflow in {wanted.name}")
    if wanted.kind in "iu" and values.dtype.kind == "f" and (rounded != values).any():
        refuse(f"a constant would be rounded to {wanted.name}")
    return rounded


def _finite(array: Array) -> Array:
    return np.isfinite(array if array.dtype.kind == "f" else array.astype(np.float64))
