"""The tape: the new nodes and constants of a rewrite. They enter the graph only when the rewrite is
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
_ARRAY_TYPE = object()  # the default dtype of a constant: the element type of the array
# From this IR version on, a model may be raised to an IR version with functions.
_RAISABLE_IR = 4


class Tape:
    """Builds the replacement of a match: `new.Conv(x, W, b, like=m.conv)`, `new.const(array,
    like=m.W)`.

    The tape refuses operators that the opset lacks, or for which the target has no kernel. Passes
    do not need to check this.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants: dict[Constant, str] = {}  # with the preferred name of each
        self.functions: list[onnx.FunctionProto] = []  # called by the new nodes
        # by new node: the old node whose subgraphs it gets, and the values to replace in these
        self.moved: dict[Node, tuple[Node, Mapping[Edge, Edge]]] = {}
        # by new node: the outer values that the moved subgraphs read
        self._captured: dict[Node, tuple[Edge, ...]] = {}

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
        """Add a node, and return its output, or a tuple if `outputs` is given.

        The node gets all attributes of `like`, including unknown ones. `attributes` override them;
        None removes an attribute. Trailing inputs that are None are left out. `outputs` is the
        number of outputs, or says for each output whether it exists; an output that does not exist
        is None in the result. Types and shapes of the outputs are inferred at once. Refuses if
        `like` has subgraphs; `move` is for such nodes.
        """
        self._require(op, domain, inputs, is_new=like is None or like.op != op)
        proto = onnx.NodeProto(op_type=op, domain=domain)
        if like is not None:
            if like.bodies:
                refuse("the node whose attributes are copied has subgraphs")
            proto.attribute.extend(a for a in like.proto.attribute if a.name not in attributes)
            proto.overload = like.proto.overload
        present = {name: value for name, value in attributes.items() if value is not None}
        proto.attribute.extend(map(onnx.helper.make_attribute, present, present.values()))
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
        """Move a node with its subgraphs out of a graph that this rewrite removes. Return all
        outputs of the moved node.

        `values` maps the values of the removed graph to the values that the subgraphs read instead.
        """
        moved = self._add(node.proto, inputs, [value is not None for value in node.outputs])
        self._captured[moved] = tuple(values.get(value, value) for value in node.captures())
        for old, value in zip(node.outputs, moved.outputs, strict=True):
            if old is not None and value is not None:
                value.known_type = old.known_type
        self.moved[moved] = (node, values)
        return moved.outputs

    def reads(self, node: Node) -> tuple[Edge | None, ...]:
        """All values that a new node and its subgraphs will read."""
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
        """Add a call of a model-local function, and return all its outputs. The function is added
        to the model if necessary.
        """
        if self.graph.model.ir_version < _RAISABLE_IR:
            refuse(
                f"a model of IR version {self.graph.model.ir_version} lists its constants as inputs"
            )
        self.functions.append(function)
        return self.node(
            function.name, inputs, domain=function.domain, outputs=len(function.output)
        )

    def const(self, array: Any, *, like: Edge | None = None, dtype: Any = _ARRAY_TYPE) -> Constant:
        """Add a constant. Its element type is `dtype`, or else that of `like`, or else that of the
        array.

        Callers compute the array in a wider type, and this method rounds it once. Refuses if a
        finite number would become infinite, or if a fraction would be rounded to an integer. Also
        refuses if the element type is unknown, which happens in function bodies. Integers that are
        too large for the wanted integer type wrap around.
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
    """The inputs without trailing inputs that are None."""
    count = len(inputs)
    while count and inputs[count - 1] is None:
        count -= 1
    return inputs[:count]


def _name_of(value: Edge | None) -> str:
    return "" if value is None else value.name


def _wanted_type(like: Edge | None, dtype: Any) -> np.dtype[Any] | None:
    """The element type of a new constant; None keeps the type of the array. Refuses if the type is
    unknown.
    """
    wanted: np.dtype[Any] | None = None
    if dtype is not _ARRAY_TYPE and dtype is not None:
        wanted = np.dtype(dtype)
    elif like is not None:
        # in a function body, types are unknown
        stored = like.constant() if like.dtype is None else None
        wanted = like.require_type() if stored is None else stored.dtype
    elif dtype is None:
        refuse(unknown("the element type"))
    return wanted


def _rounded(values: Array, wanted: np.dtype[Any]) -> Array:
    """The numbers in another type. Refuses if a finite number becomes infinite, or if a fraction is
    rounded to an integer.
    """
    rounded = values.astype(wanted)
    if wanted.kind not in "iubOSU" and not np.array_equal(_finite(rounded), _finite(values)):
        refuse(f"a constant would overflow in {wanted.name}")
    if wanted.kind in "iu" and values.dtype.kind == "f" and (rounded != values).any():
        refuse(f"a constant would be rounded to {wanted.name}")
    return rounded


def _finite(array: Array) -> Array:
    return np.isfinite(array if array.dtype.kind == "f" else array.astype(np.float64))
