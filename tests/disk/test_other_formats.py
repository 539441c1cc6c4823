"""A file of another format is named, with what to do."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from harness import parse

from fusionc.cli import main
from fusionc.disk.load import load
from fusionc.errors import FusioncError

MODEL = parse("g (float[9] x) => (float[9] y) <float[9] w> { y = Add (x, w) }").SerializeToString()


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "content")
    return file.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


FILES = {
    "empty": (b"", "the file is empty", "copy or download"),
    "torch.save": (zipped("archive/data.pkl"), "checkpoint or a program of PyTorch", "torch.onnx"),
    "torch.jit": (zipped("m/code/x.py", "m/constants.pkl"), "program of PyTorch", "torch.onnx"),
    "torch.export": (zipped("m/archive_format"), "program of PyTorch", "torch.onnx.export"),
    "old torch.save": (pickle.dumps({"w": 1}, 2), "checkpoint of PyTorch", "torch.onnx.export"),
    "safetensors": (safetensors(), "only weights, in the form of safetensors", "optimum-cli"),
    "GGUF": (b"GGUF\x03\0\0\0", "only weights, in the form of GGUF", "export the model"),
    "TFLite": (b"\x1c\0\0\0TFL3\0\0", "TensorFlow Lite", "tf2onnx.convert --tflite"),
    "OpenVINO": (b'<?xml version="1.0"?>\n<net name="m" version="11">', "OpenVINO", "ONNX model"),
    "OpenVINO without a header": (b'<net name="m" version="11">', "OpenVINO", "ONNX model"),
    "XML": (b'<?xml version="1.0"?><Error>AccessDenied</Error>', "is XML", "download"),
    "Git LFS": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "a pointer of Git LFS",
        "git lfs pull",
    ),
    "HTML": (b"\n<!DOCTYPE html>\n<html>", "is a web page", "/raw/"),
    "HTML without a type": (b"<HTML><body>", "is a web page", "/resolve/"),
    "ORT": (b"\x20\0\0\0ORTM", "onnxruntime's own form", "ONNX model"),
    "ATC": (b"IMOD\0\0", "a compiled model of ATC", "ATC compiled it"),
    "Keras": (b"\x89HDF\r\n\x1a\n", "model of Keras", "tf2onnx"),
    "gzip": (gzip.compress(MODEL), "is compressed", "gunzip"),
    "zip": (zipped("model.onnx"), "is an archive", "unzip"),
    "text": (b'<ir_version: 8, opset_import: ["" : 18]>', "the text form", "parse_model"),
    "JSON": (b'{"error": "not found"}', "is JSON", ".onnx file"),
    "cut off": (MODEL[:-20], f"it has {len(MODEL) - 20} bytes and needs", "download"),
    "cut off early": (MODEL[:9], "the model is cut off", "download"),
    "noise": (b"\xff" * 100, "not an ONNX model, or it is damaged", "export or copy"),
    "zeros": (bytes(100), "not an ONNX model, or it is damaged", "export or copy"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("maps", [False, True])
def test_files_of_other_formats(tmp_path: Path, name: str, maps: bool) -> None:
    content, what, to_do = FILES[name]
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(FusioncError) as caught:
        load(tmp_path / "m.onnx", maps=maps)
    error = caught.value
    assert (error.code, error.exit_code) == ("E13005", 1) and "m.onnx" in error.where
    assert what in error.what and to_do in error.hint


def test_a_large_model_that_is_cut_off(tmp_path: Path) -> None:
    graph = "g (float[N,300] x) => (float[N,300] y) <float[300,300] w> { y = MatMul (x, w) }"
    whole = parse(graph).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(whole[:-1000])
    with pytest.raises(
        FusioncError, match=f"it has {len(whole) - 1000:,} bytes and needs at least 36"
    ):
        load(tmp_path / "m.onnx", maps=True)


ADDRESSES = ["https://x.org/m.onnx", "http://x.org/m.onnx?download=true", "s3://bucket/m.onnx"]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "line", ["{}", "convert --model {}", "verify {} b.onnx", "bench {}", "inspect {}", "diff {} b"]
)
@pytest.mark.usefixtures("in_a_folder_of_its_own")
def test_an_address_is_not_a_file(address: str, line: str) -> None:
    result = CliRunner().invoke(main, line.format(address).split())
    assert result.exit_code == 2
    assert result.stderr == (
        "E10410: the model is an address, not a file\n"
        f"  where: {address}\n"
        f"  to do: download it first: curl -L -o model.onnx {address}\n"
    )


def test_an_address_in_python() -> None:
    with pytest.raises(FusioncError, match="an address, not a file") as caught:
        load(Path("https://x.org/m.onnx"))
    assert caught.value.where == "https://x.org/m.onnx"


@pytest.mark.parametrize(
    "command", ["convert --model", "inspect", "bench", "diff m.onnx", "verify m.onnx"]
)
@pytest.mark.usefixtures("in_a_folder_of_its_own")
def test_every_command_names_the_format(command: str) -> None:
    Path("m.onnx").write_bytes(safetensors())
    result = CliRunner().invoke(main, [*command.split(), "m.onnx"])
    assert result.exit_code == 1 and "in the form of safetensors" in result.stderr, result.output
