"""Tensors of external files: which part of a file they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import fusionc
from fusionc.disk.external_data import external_range
from fusionc.errors import FusioncError, UsageError
from fusionc.model.tensors import to_array

NUMBERS = np.arange(5, dtype=np.float32)  # 20 bytes


def external(count: int, **entries: object) -> TensorProto:
    tensor = TensorProto(
        name="w", dims=[count], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


@pytest.mark.parametrize(
    ("count", "entries", "place"),
    [
        (5, {}, (0, 20)),
        (5, {"offset": 0, "length": 20}, (0, 20)),
        (4, {"offset": 4}, (4, 16)),
        (4, {"offset": 4, "length": 16}, (4, 16)),
        (3, {"offset": 4, "length": 16}, (4, 16)),
        (1, {"offset": 16}, (16, 4)),
        (0, {"offset": 20}, (20, 0)),
        (4, {"length": 16}, (0, 16)),
    ],
)
def test_a_tensor_may_reach_to_the_end_of_its_file(
    tmp_path: Path, count: int, entries: dict[str, int], place: tuple[int, int]
) -> None:
    NUMBERS.tofile(tmp_path / "w.bin")
    tensor = external(count, **entries)
    assert external_range(tensor, str(tmp_path))[1:] == place
    first = place[0] // 4
    assert to_array(tensor, str(tmp_path)).tolist() == NUMBERS[first : first + count].tolist()


@pytest.mark.parametrize(
    ("count", "entries"),
    [
        (6, {}),
        (5, {"offset": 1}),
        (4, {"offset": 5}),
        (5, {"length": 21}),
        (5, {"length": 19}),
        (1, {"offset": 17}),
        (1, {"offset": -1}),
        (1, {"offset": -4, "length": 8}),
        (0, {"offset": 21}),
        (1, {"length": 0}),
    ],
)
def test_and_not_beyond(tmp_path: Path, count: int, entries: dict[str, int]) -> None:
    NUMBERS.tofile(tmp_path / "w.bin")
    with pytest.raises(FusioncError, match="shorter than the tensor"):
        external_range(external(count, **entries), str(tmp_path))


@pytest.mark.parametrize("location", ["", "../w.bin", "a/../../w.bin", "/w.bin", "link"])
def test_the_folder_of_the_model_is_not_left(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    NUMBERS.tofile(tmp_path / "w.bin")
    (folder / "link").symlink_to("../w.bin")
    with pytest.raises(FusioncError, match="leaves the model's folder"):
        external_range(external(5, location=location), str(folder))


@pytest.mark.parametrize("entries", [{"offset": "x"}, {"length": "1.5"}, {"offset": ""}])
def test_places_are_whole_numbers(tmp_path: Path, entries: dict[str, str]) -> None:
    NUMBERS.tofile(tmp_path / "w.bin")
    with pytest.raises(FusioncError, match="must be integers"):
        external_range(external(5, **entries), str(tmp_path))


@pytest.mark.parametrize("location", ["v.bin", "folder", "w.bin\0"])
def test_a_file_that_is_not_there(tmp_path: Path, location: str) -> None:
    NUMBERS.tofile(tmp_path / "w.bin")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FusioncError, match="does not exist"):
        external_range(external(5, location=location), str(tmp_path))


def test_a_tensor_without_elements_in_a_file_without_bytes(tmp_path: Path) -> None:
    (tmp_path / "w.bin").touch()
    assert to_array(external(0), str(tmp_path)).shape == (0,)


@pytest.mark.parametrize("location", ["sub/../w.bin", "w.bin/../w.bin", "w.bin/", "w.bin/."])
def test_a_path_that_leads_through_what_is_not_there_is_not_followed(
    tmp_path: Path, location: str
) -> None:
    """Nobody opens it, whatever is left of it when it is written shorter."""
    NUMBERS.tofile(tmp_path / "w.bin")
    tensor = external(5, location=location)
    with pytest.raises(UsageError, match="does not exist") as caught:
        external_range(tensor, str(tmp_path))
    assert location in caught.value.where and "write 'w.bin' instead" in caught.value.hint
    with pytest.raises(OSError):
        to_array(tensor, str(tmp_path))


def test_a_path_that_leads_through_a_folder_is_followed(tmp_path: Path) -> None:
    NUMBERS.tofile(tmp_path / "w.bin")
    (tmp_path / "sub").mkdir()
    tensor = external(5, location="sub/../w.bin")
    assert external_range(tensor, str(tmp_path))[0] == str(tmp_path / "w.bin")
    assert to_array(tensor, str(tmp_path)).tolist() == NUMBERS.tolist()


def test_no_pass_is_blamed_for_weights_that_cannot_be_opened(in_a_folder_of_its_own: None) -> None:
    NUMBERS.tofile("w.bin")
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[5] x) => (float[5] y) { y = Add (x, w) }'
    )
    model.graph.initializer.append(external(5, location="sub/../w.bin"))
    onnx.save(model, "m.onnx")
    with pytest.raises(UsageError, match="the file of external data does not exist"):
        fusionc.convert("m.onnx", output="out.onnx")
    Path("sub").mkdir()
    fusionc.convert("m.onnx", output="out.onnx")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    NUMBERS.tofile(tmp_path / "w.bin")
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read all files
    with pytest.raises(FusioncError, match="cannot be read"):
        external_range(external(5), str(tmp_path))
