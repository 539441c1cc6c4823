"""Large weights stay in the model's file, and a model that is written has the bytes that protobuf
gives it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import fusionc
from fusionc.disk.load import load
from fusionc.disk.mapped_weights import WORTH_MAPPING, read_mapped, write_mapped
from fusionc.errors import FusioncError
from fusionc.model.tensors import to_array
from fusionc.protos import MAPPED, is_mapped

LARGE = np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32)
SMALL = LARGE[0].copy()


def model() -> ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Identity", ["p"], ["q"]),
            helper.make_node("Add", ["q", "b"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 200])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 200])],
        [numpy_helper.from_array(LARGE, "w"), numpy_helper.from_array(SMALL, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def explicit(proto: ModelProto) -> None:
    proto.graph.initializer[0].data_location = TensorProto.DEFAULT


def described(proto: ModelProto) -> None:
    proto.graph.initializer[0].doc_string = "what it is"
    proto.graph.initializer[0].metadata_props.add(key="k", value="v")
    proto.graph.doc_string = "graph"
    proto.doc_string = "model"
    proto.metadata_props.add(key="k", value="v")


def unknown(proto: ModelProto) -> None:
    """Fields of a later version of the format."""
    field = b"\xfa\x3e\x03abc"  # number 1007, three bytes
    for message in (proto, proto.graph, proto.graph.initializer[0]):
        message.MergeFromString(field)


def unnamed(proto: ModelProto) -> None:
    proto.graph.ClearField("name")
    proto.graph.initializer[0].ClearField("name")


@pytest.mark.parametrize("change", [lambda proto: None, explicit, described, unknown, unnamed])
def test_what_was_read_is_written_byte_for_byte(
    change: Callable[[ModelProto], None], tmp_path: Path
) -> None:
    proto = model()
    change(proto)
    source = tmp_path / "in.onnx"
    target = tmp_path / "out.onnx"
    source.write_bytes(proto.SerializeToString())
    read = read_mapped(source)
    assert [is_mapped(tensor) for tensor in read.graph.initializer] == [True, False]
    assert read.ByteSize() < 5000 < WORTH_MAPPING
    np.testing.assert_array_equal(to_array(read.graph.initializer[0], str(tmp_path)), LARGE)
    write_mapped(read, tmp_path, target)
    assert target.read_bytes() == proto.SerializeToString()


def test_new_weights_are_written_as_protobuf_does(tmp_path: Path) -> None:
    (tmp_path / "in.onnx").write_bytes(model().SerializeToString())
    read = read_mapped(tmp_path / "in.onnx")
    whole = model()
    for proto in (read, whole):
        proto.graph.initializer.append(numpy_helper.from_array(2 * LARGE, "new"))
    write_mapped(read, tmp_path, tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == whole.SerializeToString()


def shorter(data: bytes) -> bytes:
    """A weight that has not as many bytes as its shape says."""
    proto = ModelProto.FromString(data)
    proto.graph.initializer[0].raw_data += b"\0"
    return proto.SerializeToString()


def twice(data: bytes) -> bytes:
    """Protobuf puts the graphs together, weights, too."""
    other = ModelProto(graph=onnx.GraphProto(initializer=[numpy_helper.from_array(LARGE, "more")]))
    return data + other.SerializeToString()


def typed(data: bytes) -> bytes:
    proto = ModelProto.FromString(data)
    del proto.graph.initializer[0]
    proto.graph.initializer.add(
        name="w", data_type=TensorProto.FLOAT, dims=LARGE.shape, float_data=LARGE.flat
    )
    return proto.SerializeToString()


@pytest.mark.parametrize("change", [shorter, twice, typed])
def test_what_nobody_writes_is_read_as_a_whole(
    change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    data = change(model().SerializeToString())
    (tmp_path / "in.onnx").write_bytes(data)
    read = read_mapped(tmp_path / "in.onnx")
    assert not any(map(is_mapped, read.graph.initializer))
    assert read == ModelProto.FromString(data)


def test_damaged_files_are_errors_for_people(tmp_path: Path) -> None:
    (tmp_path / "in.onnx").write_bytes(model().SerializeToString()[:-1000])
    with pytest.raises(FusioncError, match="the model is cut off"):
        load(tmp_path / "in.onnx", maps=True)


@pytest.mark.parametrize("maps", [True, False])
def test_no_file_may_say_that_its_weights_are_mapped(maps: bool, tmp_path: Path) -> None:
    proto = model()
    secret = tmp_path / "secret"
    secret.write_bytes(LARGE.tobytes())
    (tmp_path / "model").mkdir()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "../secret"), (MAPPED, "")):
        tensor.external_data.add(key=key, value=value)
    (tmp_path / "model" / "in.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(FusioncError, match="which no file may have"):
        load(tmp_path / "model" / "in.onnx", maps=maps)


@pytest.mark.parametrize("external_weight", [None, 0, 1])
@pytest.mark.parametrize("is_link", [False, True])
def test_weights_go_where_they_should(
    external_weight: int | None, is_link: bool, tmp_path: Path
) -> None:
    """The model may be a link, as in a cache of downloads."""
    source = tmp_path / "in.onnx"
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "blob" if is_link else source
    real.write_bytes(model().SerializeToString())
    if is_link:
        source.symlink_to(real)
    target = tmp_path / "out" / "out.onnx"
    target.parent.mkdir()
    report = fusionc.convert(
        source, output=target, external_weight=external_weight, export_compile_stat=0
    )
    assert sum(report.operators_after.values()) < 3
    found = onnx.load(target, load_external_data=False)
    assert not any(map(is_mapped, found.graph.initializer))
    is_beside = external_weight == 1
    assert [
        t.data_location == TensorProto.EXTERNAL for t in found.graph.initializer if t.name == "w"
    ] == [is_beside]
    assert len(os.listdir(target.parent)) == 1 + is_beside
    assert report.bytes_after == sum(path.stat().st_size for path in target.parent.iterdir())
    np.testing.assert_array_equal(
        numpy_helper.to_array(onnx.load(target).graph.initializer[0]), LARGE
    )
