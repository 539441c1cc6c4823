"""One model in which every field that onnx knows is set somewhere, and the walk that proves it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, TensorProto, TypeProto, helper, numpy_helper

KINDS = (
    onnx.ModelProto, onnx.GraphProto, onnx.NodeProto, onnx.FunctionProto, onnx.ValueInfoProto, onnx.TensorProto,
    onnx.AttributeProto, onnx.SparseTensorProto, onnx.TensorAnnotation, onnx.OperatorSetIdProto,
    onnx.StringStringEntryProto, onnx.TrainingInfoProto,
)  # fmt: skip


def everything() -> onnx.ModelProto:
    model = onnx.ModelProto(
        ir_version=13,
        producer_name="producer",
        producer_version="1.2",
        domain="domain",
        model_version=7,
        doc_string="of the model",
    )
    model.metadata_props.add(key="k", value="v")
    for domain, version in (("ai.onnx", 24), ("my.own", 3), ("com.microsoft", 1)):
        model.opset_import.add(domain=domain, version=version)
    configuration = model.configuration.add(name="two devices", num_devices=2)
    configuration.device.extend(["a", "b"])
    training = model.training_info.add()
    training.initialization.node.add(op_type="Constant", output=["t"])
    training.algorithm.name = "algorithm"
    training.initialization_binding.add(key="k", value="v")
    training.update_binding.add(key="k", value="v")
    _graph(model.graph)
    _function(model.functions.add())
    return model


def _graph(graph: onnx.GraphProto) -> None:
    graph.name = "main"
    graph.doc_string = "of the graph"
    graph.metadata_props.add(key="k", value="v")
    graph.input.extend(
        [_value("x", ["N", 3]), _value("flag", [], TensorProto.BOOL), _value("default", [3])]
    )
    graph.input.extend([_typed("sequence", "sequence_type"), _typed("optional", "optional_type")])
    graph.input.extend([_typed("map", "map_type"), _typed("sparse", "sparse_tensor_type")])
    for name in ("y", "z", "called"):
        graph.output.append(_value(name, ["N", 3]))
    graph.value_info.append(_value("middle", ["N", 3]))
    graph.initializer.append(numpy_helper.from_array(np.arange(3, dtype=np.float32), "default"))
    graph.initializer.extend(_tensors())
    sparse = graph.sparse_initializer.add(dims=[3])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "sparse_weight"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1]), "sparse_indices"))
    annotation = graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    # The nodes are not in topological order. The standard domain has both spellings. Optional inputs
    # and outputs are omitted.
    _node(
        graph.node.add(op_type="Add", input=["middle", "default"], output=["y"], domain="ai.onnx")
    )
    _node(graph.node.add(op_type="Clip", input=["x", "", "default"], output=["middle"]))
    _node(graph.node.add(op_type="GRU", input=["x", "x", "x"], output=["", "unused_state"]))
    custom = _node(
        graph.node.add(op_type="Everything", input=["x"], output=["custom"], domain="my.own")
    )
    custom.attribute.extend(_attributes())
    call = _node(
        graph.node.add(
            op_type="call", input=["x"], output=["called"], domain="my.own", overload="two"
        )
    )
    call.attribute.append(helper.make_attribute("alpha", 0.5))
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["shadow"]), helper.make_node("Abs", ["shadow"], ["branch_out"])],
        "branch", [], [_value("branch_out", ["N", 3])],
        [numpy_helper.from_array(np.ones(3, np.float32), "inner_weight")],
    )  # fmt: skip
    branch_else = onnx.GraphProto()
    branch_else.CopyFrom(branch)
    chooser = _node(graph.node.add(op_type="If", input=["flag"], output=["z"]))
    chooser.attribute.append(helper.make_attribute("then_branch", branch))
    chooser.attribute.append(helper.make_attribute("else_branch", branch_else))


def _node(node: onnx.NodeProto) -> onnx.NodeProto:
    node.name = f"node {node.output[-1]}"
    node.doc_string = "of a node"
    node.metadata_props.add(key="k", value="v")
    device = node.device_configurations.add(configuration_id="two devices", pipeline_stage=1)
    spec = device.sharding_spec.add(tensor_name="x", device=[0, 1])
    entry = spec.index_to_device_group_map.add(key=0)
    entry.value.append(1)
    sharded = spec.sharded_dim.add(axis=0)
    sharded.simple_sharding.add(dim_value=2, num_shards=2)
    return node


def _value(
    name: str, shape: list[int | str], elem_type: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    value = helper.make_tensor_value_info(name, elem_type, shape, doc_string="of a value")
    value.metadata_props.add(key="k", value="v")
    value.type.denotation = "TENSOR"
    for dim in value.type.tensor_type.shape.dim:
        dim.denotation = "DATA_BATCH"
    return value


def _typed(name: str, kind: str) -> onnx.ValueInfoProto:
    value = onnx.ValueInfoProto(name=name)
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N"])
    match kind:
        case "sequence_type":
            value.type.sequence_type.elem_type.CopyFrom(tensor)
        case "optional_type":
            value.type.optional_type.elem_type.CopyFrom(tensor)
        case "map_type":
            value.type.map_type.key_type = TensorProto.STRING
            value.type.map_type.value_type.CopyFrom(tensor)
        case _:
            value.type.CopyFrom(helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [3, 3]))
    return value


def _tensors() -> Iterator[TensorProto]:
    """An unused initializer of every element type: with raw data, and in a typed field if the type
    has one.
    """
    for name, number in TensorProto.DataType.items():
        if number == TensorProto.UNDEFINED:
            continue
        tensor = TensorProto(
            name=f"raw {name}", data_type=number, dims=[2], doc_string="of a tensor"
        )
        tensor.metadata_props.add(key="k", value="v")
        if number == TensorProto.STRING:
            tensor.string_data.extend([b"\xff\xfe", b"text"])
        else:
            tensor.raw_data = bytes(range(32))[
                : 2 * helper.tensor_dtype_to_np_dtype(number).itemsize
            ]
        yield tensor
    for field, number in (
        ("float_data", TensorProto.FLOAT), ("int32_data", TensorProto.INT8), ("int64_data", TensorProto.INT64),
        ("double_data", TensorProto.DOUBLE), ("uint64_data", TensorProto.UINT64),
    ):  # fmt: skip
        tensor = TensorProto(name=field, data_type=number, dims=[2])
        getattr(tensor, field).extend([1, 2])
        yield tensor
    segment = TensorProto(name="segment", data_type=TensorProto.FLOAT, dims=[1], raw_data=bytes(4))
    segment.segment.begin = 1
    segment.segment.end = 2
    yield segment


def _attributes() -> Iterator[AttributeProto]:
    tensor = numpy_helper.from_array(np.ones(2, np.float32))
    graph = helper.make_graph([], "empty", [], [])
    sparse = onnx.SparseTensorProto(
        values=tensor, indices=numpy_helper.from_array(np.array([0, 1])), dims=[4]
    )
    type_proto = TypeProto()
    type_proto.opaque_type.domain = "d"
    type_proto.opaque_type.name = "n"
    for name, value in (
        ("f", 1.5), ("i", 3), ("s", b"\xff\xfenot text"), ("t", tensor), ("g", graph), ("sparse_tensor", sparse),
        ("tp", type_proto), ("floats", [1.0, 2.0]), ("ints", [1, 2]), ("strings", [b"\xff", b"b"]),
        ("tensors", [tensor, tensor]), ("graphs", [graph, graph]), ("sparse_tensors", [sparse]),
        ("type_protos", [type_proto]),
    ):  # fmt: skip
        attribute = helper.make_attribute(name, value)
        attribute.doc_string = "of an attribute"
        yield attribute
    yield AttributeProto(name="empty ints", type=AttributeProto.INTS)


def _function(function: onnx.FunctionProto) -> None:
    function.name = "call"
    function.domain = "my.own"
    function.overload = "two"
    function.doc_string = "of a function"
    function.input.append("a")
    function.output.append("b")
    function.attribute.append("alpha")
    function.attribute_proto.append(helper.make_attribute("beta", 2.0))
    function.opset_import.add(domain="", version=24)
    function.value_info.append(_value("b", ["N"]))
    function.metadata_props.add(key="k", value="v")
    node = function.node.add(op_type="LeakyRelu", input=["a"], output=["b"])
    node.attribute.add(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="alpha")


def messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if hasattr(value, "__len__") else [value]:
                yield from messages(inner)


def unset_fields(model: onnx.ModelProto) -> set[str]:
    """Fields of the main messages that no message in the model sets."""
    present = {(type(m).__name__, f.name) for m in messages(model) for f, _ in m.ListFields()}
    return {
        f"{kind.__name__}.{f.name}"
        for kind in KINDS
        for f in kind.DESCRIPTOR.fields
        if (kind.__name__, f.name) not in present
    }
