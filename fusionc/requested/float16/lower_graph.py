"""Lower the main graph of a model to float16. Its interface stays in float32.

Nodes in float16 read and make values of float16. If a node of float32, a subgraph, or an output of
the model reads such a value, a Cast makes a value of float32 with the original name. If a node in
float16 reads a value of float32, a Cast makes its copy in float16. If that value comes from a
constant that float16 cannot hold, such as the -3.4e38 of an attention mask, a Clip before the Cast
limits it: an infinite mask would make the Softmax of a row that hides every key NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from functools import cached_property

import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from fusionc.model.functions import taken_names
from fusionc.model.graph import Edge, Node
from fusionc.model.operators import opsets_of
from fusionc.model.write_back import keep
from fusionc.protos import copied, fresh_name, reads_of
from fusionc.requested.float16.customized_types import Form
from fusionc.requested.float16.float16_nodes import READS_SHAPE, Float16Node, Float16Nodes
from fusionc.requested.float16.half_constants import LARGEST, TOO_LARGE, HalfConstants
from fusionc.requested.float16.precision_policy import PrecisionPolicy
from fusionc.shapes.inference import typed_model

_OLDEST_CLIP = 6
_CLIP_WITH_INPUTS = 11
_NEWEST_LISTED = 4  # before this IR version every initializer is an input


@dataclass(frozen=True)
class Choice:
    """How a node computes, and why it stays in float32 ("" if it does not)."""

    form: Form
    reason: str


class Float16Lowering:
    """Lowers one model, perhaps several times with different nodes in float32. The external data of
    the model is in `folder`.
    """

    def __init__(
        self, proto: ModelProto, folder: str, target: str, policy: PrecisionPolicy
    ) -> None:
        self._proto = proto
        self._model = typed_model(proto, folder, target)
        self._constants = HalfConstants()
        self.policy = policy

    @cached_property
    def nodes(self) -> Mapping[Node, Float16Node]:
        """The nodes that read or compute float32, in order."""
        return Float16Nodes(self._model.main, self._constants).nodes

    def choices(self, wide: Collection[str] = ()) -> dict[Node, Choice]:
        """How each node computes. `wide` are the names of nodes that lose too much in float16."""
        lossy = self.policy.kept.only(wide)
        halves = set[Edge]()
        choices = dict[Node, Choice]()
        for node, one in self.nodes.items():
            form = Form.FLOAT32
            reason = one.reason
            if not reason:
                inputs = one.inputs.values()
                is_wide = lossy.keeps(node)
                form, reason = self.policy.form_of(node, inputs, halves, is_wide=is_wide)
            if form is Form.FLOAT16:
                halves.update(one.outputs.values())
            choices[node] = Choice(form, reason)
        return choices

    def lowered(self, choices: Mapping[Node, Choice], *, is_emulated: bool = False) -> ModelProto:
        """The model with these choices.

        If `is_emulated`, the model rounds the inputs and outputs of nodes to float16, and computes
        in float32. This shows the rounding of other runtimes: if onnxruntime computes two operators
        of float16 in float32, it does not round between them.
        """
        writer = _Writer(self._proto, self._constants)
        for node in self._model.main.ordered():
            one = self.nodes.get(node)
            form = choices[node].form if node in choices else Form.FLOAT32
            if one is None or form is Form.FLOAT32:
                writer.keep_node(node, is_large=one is not None and one.reason == TOO_LARGE)
            elif form is Form.FLOAT16 and not is_emulated:
                writer.lower_node(one)
            else:
                writer.round_node(one, rounds_outputs=form is Form.FLOAT16)
        return writer.model(self._model.main.values)


class _Writer:
    """Writes the nodes of the main graph in order, with the Casts and constants that they need."""

    def __init__(self, proto: ModelProto, constants: HalfConstants) -> None:
        self._proto = proto
        self._constants = constants
        declared = {info.name: 1 for info in proto.graph.value_info}
        self._names = taken_names(proto) | declared
        self._nodes: list[NodeProto] = []
        self._tensors: list[TensorProto] = []
        self._halves: dict[str, str] = {}  # values by name → their names in float16
        self._rounded: dict[str, str] = {}  # values by name → float32 copies rounded to float16
        self._missing: set[str] = set()  # values that exist only in float16 so far
        self._large: set[str] = set()  # values of float32 that may be beyond float16
        self._limits: tuple[str, ...] = ()  # the inputs of each Clip after the first

    def keep_node(self, node: Node, *, is_large: bool) -> None:
        """Add a node that does not change. If its operator reads only the shape of a value, the
        node reads the value in whichever type exists. If `is_large`, the node has a constant that
        float16 cannot hold.
        """
        if is_large or not self._large.isdisjoint(node.proto.input):
            self._large.update(node.proto.output)
        if node.operator in READS_SHAPE and node.proto.input[0] in self._missing:
            copy = _copy(node.proto)
            copy.input[0] = self._halves[node.proto.input[0]]
            self._nodes.append(copy)
            return
        self._widen(reads_of(node.proto))
        self._nodes.append(node.proto)

    def lower_node(self, one: Float16Node) -> None:
        """Add a node that computes in float16."""
        copy = _copy(one.node.proto)
        for at, edge in one.inputs.items():
            copy.input[at] = self._half(edge)
        kept = [name for at, name in enumerate(one.node.proto.input) if at not in one.inputs]
        self._widen(kept)
        for at, edge in one.outputs.items():
            copy.output[at] = self._halves[edge.name] = self._fresh(edge.name, "float16")
            self._missing.add(edge.name)
        self._nodes.append(copy)

    def round_node(self, one: Float16Node, *, rounds_outputs: bool) -> None:
        """Add a node of float32 whose inputs, and perhaps outputs, are rounded to float16."""
        copy = _copy(one.node.proto)
        for at, edge in one.inputs.items():
            copy.input[at] = self._round(edge)
        self._widen(reads_of(copy))
        self._nodes.append(copy)
        for at, edge in one.outputs.items() if rounds_outputs else ():
            copy.output[at] = self._fresh(edge.name, "unrounded")
            self._halves[edge.name] = self._fresh(edge.name, "float16")
            self._cast(copy.output[at], self._halves[edge.name], TensorProto.FLOAT16)
            self._missing.add(edge.name)

    def model(self, values: Mapping[str, Edge]) -> ModelProto:
        """The model with the written nodes. `values` are the values of the main graph."""
        pinned = {name for name, edge in values.items() if edge.is_pinned}
        needed = pinned | {value.name for value in self._proto.graph.output}
        self._widen(needed)
        for node in self._nodes:
            needed |= reads_of(node)
        result = copied(self._proto)
        self._write(result, self._halves.keys() - needed)
        return result

    def _write(self, model: ModelProto, unread: Set[str]) -> None:
        """Replace the main graph of the model. Remove the constants of float32 that are now
        `unread`.
        """
        graph = model.graph
        nodes = [n for n in self._nodes if n.op_type != "Constant" or n.output[0] not in unread]
        del graph.node[:]
        graph.node.extend(nodes)
        if model.ir_version < _NEWEST_LISTED:
            unread_weights = unread & {tensor.name for tensor in graph.initializer}
            keep(graph.input, lambda info: info.name not in unread_weights)
            for tensor in self._tensors:
                graph.input.append(
                    helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                )
        keep(graph.initializer, lambda tensor: tensor.name not in unread)
        graph.initializer.extend(self._tensors)
        self._declare(graph)

    def _declare(self, graph: onnx.GraphProto) -> None:
        """Declare the values in float16, with the shapes of those in float32."""
        for info in list(graph.value_info):
            if info.name in self._halves:
                declared = graph.value_info.add()
                declared.CopyFrom(info)
                declared.name = self._halves[info.name]
                declared.type.tensor_type.elem_type = TensorProto.FLOAT16
        keep(graph.value_info, lambda info: info.name not in self._missing)

    def _widen(self, names: Collection[str]) -> None:
        """Make sure that these values exist in float32."""
        for name in sorted(self._missing.intersection(names)):
            self._cast(self._halves[name], name, TensorProto.FLOAT)
            self._missing.remove(name)

    def _half(self, edge: Edge) -> str:
        """The name of a value in float16."""
        if edge.name not in self._halves:
            half = self._fresh(edge.name, "float16")
            self._halves[edge.name] = half
            if edge.is_constant:
                self._tensors.append(self._constants.tensor(edge, half))
            else:
                source = self._limited(edge.name) if edge.name in self._large else edge.name
                self._cast(source, half, TensorProto.FLOAT16)
        return self._halves[edge.name]

    def _limited(self, name: str) -> str:
        """The name of a value of float32 limited to the numbers of float16. Before opset 6, which
        has no usable Clip, the value stays unlimited.
        """
        opset = opsets_of(self._proto).get("", 0)
        if opset < _OLDEST_CLIP:
            return name
        if not self._limits and opset >= _CLIP_WITH_INPUTS:
            self._limits = tuple(self._fresh(one, "float16") for one in ("least", "largest"))
            for limit, number in zip(self._limits, (-LARGEST, LARGEST), strict=True):
                self._tensors.append(helper.make_tensor(limit, TensorProto.FLOAT, [], [number]))
        limited = self._fresh(name, "limited")
        clip = helper.make_node("Clip", [name, *self._limits], [limited], limited)
        if not self._limits:
            clip.attribute.append(helper.make_attribute("min", -LARGEST))
            clip.attribute.append(helper.make_attribute("max", LARGEST))
        self._nodes.append(clip)
        return limited

    def _round(self, edge: Edge) -> str:
        """The name of a value that is rounded to float16, in float32."""
        if edge.name in self._missing:
            return edge.name  # a Cast will make it from the value in float16
        if edge.name not in self._rounded:
            rounded = self._fresh(edge.name, "rounded")
            self._cast(self._half(edge), rounded, TensorProto.FLOAT)
            self._rounded[edge.name] = rounded
        return self._rounded[edge.name]

    def _cast(self, source: str, result: str, type_: int) -> None:
        name = fresh_name(f"{result}_cast", self._names)
        self._nodes.append(helper.make_node("Cast", [source], [result], name=name, to=type_))

    def _fresh(self, name: str, ending: str) -> str:
        return fresh_name(f"{name}_{ending}", self._names)


def _copy(proto: NodeProto) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(proto)
    return copy
