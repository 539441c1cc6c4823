"""Where weights go, what is refused, and that nothing is ever half-written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import fusionc
from fusionc.disk import save as saving
from fusionc.disk.external_data import external_entries
from fusionc.disk.load import load
from fusionc.disk.publish import digest
from fusionc.disk.save import save
from fusionc.errors import FusioncError

A, B = (np.random.default_rng(i).standard_normal((64, 64)).astype(np.float32) for i in range(2))


def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "A"], ["p"], name="first"),
            helper.make_node("Identity", ["p"], ["q"], name="nothing"),
            helper.make_node("MatMul", ["q", "B"], ["y"], name="second"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 64])],
        [numpy_helper.from_array(A, "A"), numpy_helper.from_array(B, "B")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """A model in a folder of its own, its weights in the file `weights.bin`."""
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(
        model(),
        folder / "in.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    return folder / "in.onnx"


def weights(path: Path) -> dict[str, np.ndarray]:
    return {
        t.name: numpy_helper.to_array(t, str(path.parent)) for t in load(path).graph.initializer
    }


def locations(path: Path) -> set[str]:
    return {external_entries(t).get("location", "") for t in load(path).graph.initializer}


def assert_right(path: Path) -> None:
    found = weights(path)
    np.testing.assert_array_equal(found["A"], A)
    np.testing.assert_array_equal(found["B"], B)


def files(folder: Path) -> list[str]:
    """Their names; `<hash>` where a name has that of the content."""
    return sorted(
        path.name.replace(digest(path), "<hash>") if path.is_file() else path.name
        for path in folder.iterdir()
    )


def data_of(model: Path) -> Path:
    (found,) = model.parent.glob(f"{model.name}.*.data")
    assert found.name == f"{model.name}.{digest(found)}.data" and locations(model) - {""} == {
        found.name
    }
    return found


def test_in_the_same_folder_the_file_is_shared(external: Path) -> None:
    target = external.parent / "out.onnx"
    fusionc.convert(external, output=target)
    assert files(external.parent) == ["in.onnx", "out.onnx", "weights.bin"]
    assert locations(target) == {"weights.bin"}
    assert_right(target)


def test_in_another_folder_the_file_is_copied(external: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    fusionc.convert(external, output=target)
    assert files(tmp_path) == ["model", "out.onnx", "weights.bin"]
    assert_right(target)
    fusionc.convert(external, output=target)  # again: the file there is the same
    assert_right(target)


def test_another_file_of_that_name_is_not_overwritten(external: Path, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"somebody's")
    with pytest.raises(FusioncError, match="another file"):
        fusionc.convert(external, output=tmp_path / "out.onnx")
    assert (
        files(tmp_path) == ["model", "weights.bin"]
        and (tmp_path / "weights.bin").read_bytes() == b"somebody's"
    )


def test_a_file_of_which_most_is_not_needed_any_more_is_repacked(tmp_path: Path) -> None:
    big = model()
    big.graph.initializer.append(
        numpy_helper.from_array(np.zeros((512, 512), np.float32), "unused")
    )
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(
        big,
        folder / "in.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    target = tmp_path / "out.onnx"
    fusionc.convert(folder / "in.onnx", output=target)
    assert files(tmp_path) == ["model", "out.onnx", "out.onnx.<hash>.data"]
    assert data_of(target).stat().st_size == A.nbytes + B.nbytes
    assert_right(target)


def test_external_weight_1_moves_all_weights_out(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "in.onnx")
    fusionc.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx", external_weight=1)
    assert data_of(tmp_path / "out.onnx").stat().st_size == A.nbytes + B.nbytes
    assert_right(tmp_path / "out.onnx")


def test_external_weight_0_moves_all_weights_in(external: Path, tmp_path: Path) -> None:
    fusionc.convert(external, output=tmp_path / "out.onnx", external_weight=0)
    assert files(tmp_path) == ["model", "out.onnx"]
    assert_right(tmp_path / "out.onnx")


def test_weights_beyond_the_limit_move_out_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "LIMIT", A.nbytes)
    onnx.save(model(), tmp_path / "in.onnx")
    fusionc.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx")
    assert data_of(tmp_path / "out.onnx").is_file()
    with pytest.raises(FusioncError, match="too large for one protobuf file"):
        fusionc.convert(tmp_path / "in.onnx", output=tmp_path / "out2.onnx", external_weight=0)
    assert not (tmp_path / "out2.onnx").exists()


def test_the_weights_of_the_input_are_never_overwritten(tmp_path: Path) -> None:
    onnx.save(
        model(),
        tmp_path / "in.onnx",
        save_as_external_data=True,
        location="out.onnx.data",
        size_threshold=0,
    )
    before = (tmp_path / "out.onnx.data").read_bytes()
    fusionc.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx", external_weight=1)
    assert (tmp_path / "out.onnx.data").read_bytes() == before
    assert_right(tmp_path / "in.onnx")
    assert_right(tmp_path / "out.onnx")


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "link.bin", ""])
def test_paths_that_leave_the_folder_are_refused(external: Path, location: str) -> None:
    secret = external.parent.parent / "secret.bin"
    secret.write_bytes(bytes(A.nbytes))
    (external.parent / "link.bin").symlink_to(secret)
    proto = onnx.load(external, load_external_data=False)
    next(
        e for e in proto.graph.initializer[0].external_data if e.key == "location"
    ).value = location
    external.write_bytes(proto.SerializeToString())
    with pytest.raises(FusioncError, match="leaves the model's folder"):
        fusionc.convert(external, output=external.parent / "out.onnx", verify=False)


def test_missing_and_truncated_weights(external: Path) -> None:
    data = external.parent / "weights.bin"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(FusioncError, match="shorter than the tensor"):
        load(external)
    data.unlink()
    with pytest.raises(FusioncError, match="does not exist"):
        load(external)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interruption_leaves_nothing_behind(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), save(model(), tmp_path, tmp_path / "out.onnx"):
        raise error
    assert files(tmp_path) == []


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "in.onnx")
    with pytest.raises(FusioncError, match="cannot be written") as caught:
        fusionc.convert(tmp_path / "in.onnx", output=tmp_path / "none" / "out.onnx")
    assert caught.value.hint


def test_typed_fields_and_four_bits_move_out_and_in_again(tmp_path: Path) -> None:
    proto = model()
    for name, number, field in (
        ("f", TensorProto.FLOAT, "float_data"),
        ("i", TensorProto.INT8, "int32_data"),
    ):
        tensor = proto.graph.initializer.add(name=name, data_type=number, dims=[1024])
        getattr(tensor, field).extend([i % 100 for i in range(1024)])
    proto.graph.initializer.append(
        helper.make_tensor("four", TensorProto.INT4, [4096], [i % 8 for i in range(4096)])
    )
    before = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    with save(proto, tmp_path, tmp_path / "out.onnx", 1) as saved:
        saved.publish()
    assert data_of(tmp_path / "out.onnx").is_file()
    for name, array in weights(tmp_path / "out.onnx").items():
        np.testing.assert_array_equal(array, before[name])
    with save(load(tmp_path / "out.onnx"), tmp_path, tmp_path / "in.onnx", 0) as saved:
        saved.publish()
    for name, array in weights(tmp_path / "in.onnx").items():
        np.testing.assert_array_equal(array, before[name])


def test_three_runs_give_the_same_bytes(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "sample_models" / "transformer_block.onnx"
    for i in range(3):
        fusionc.convert(sample, output=tmp_path / f"{i}.onnx", external_weight=1, verify=False)
    results = {data_of(tmp_path / f"{i}.onnx").read_bytes() for i in range(3)}
    protos = {
        (tmp_path / f"{i}.onnx").read_bytes().replace(f"{i}.onnx.".encode(), b"") for i in range(3)
    }
    assert len(results) == len(protos) == 1


@pytest.mark.parametrize(
    ("elsewhere", "error"),
    [
        (False, "a file that is not an ONNX model"),
        (True, "--output names the weights of the model"),
    ],
)
def test_the_result_never_goes_over_the_weights(
    tmp_path: Path, elsewhere: bool, error: str
) -> None:
    """They may lie in a file that looks like a model."""
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(
        model(),
        folder / "in.onnx",
        save_as_external_data=True,
        location="out.onnx",
        size_threshold=0,
    )
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    target = (tmp_path if elsewhere else folder) / "out.onnx"
    with pytest.raises(FusioncError, match=error):
        fusionc.convert(folder / "in.onnx", output=target, verify=False)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert elsewhere is False or not target.exists()


def test_a_data_file_is_no_second_name_of_the_models_own(external: Path) -> None:
    """onnx refuses data that has two names: the model itself would not load while it is
    converted.
    """

    def look(_: str) -> None:
        onnx.checker.check_model(external)
        assert (external.parent / "weights.bin").stat().st_nlink == 1

    fusionc.convert(external, output=external.parent / "out.onnx", progress=look)


def test_a_file_that_a_link_leads_to_is_not_written(external: Path, tmp_path: Path) -> None:
    (external.parent / "sub").mkdir()
    onnx.save(
        model(), external, save_as_external_data=True, location="sub/weights.bin", size_threshold=0
    )
    for name in ("out", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FusioncError, match="that fusionc did not write"):
        fusionc.convert(external, output=tmp_path / "out" / "out.onnx")
    assert files(tmp_path / "elsewhere") == [] and files(tmp_path / "out") == ["sub"]
