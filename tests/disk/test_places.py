"""What a result may replace: a model, an empty file, a link; nothing that somebody would miss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from everything import everything
from harness import parse

import fusionc

MODEL = parse("agraph (float[N] x) => (float[N] y) { y = Neg (x) }")
MODEL.model_version = -1
BYTES = MODEL.SerializeToString()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(MODEL, "in.onnx")


@pytest.mark.parametrize(
    "content",
    [
        b"notes on the experiments of March\n",
        b'{"Switch": {}}',
        b"\x00" * 100,
        b"\xff" * 100,
        b"\x08\x08",
        BYTES[:-1],
        BYTES + b"x",
        onnx.numpy_helper.from_array(np.zeros(3)).SerializeToString(),
    ],
    ids=["text", "JSON", "zeros", "ones", "no graph", "cut off", "longer", "a tensor"],
)
def test_a_file_that_is_no_model_stays(content: bytes) -> None:
    Path("notes.onnx").write_bytes(content)
    with pytest.raises(fusionc.FusioncError, match="a file that is not an ONNX model") as caught:
        fusionc.convert("in.onnx", output="notes.onnx")
    assert caught.value.exit_code == 1 and "give another --output" in caught.value.hint
    assert Path("notes.onnx").read_bytes() == content


@pytest.mark.parametrize(
    "content", [b"", BYTES, everything().SerializeToString()], ids=["empty", "model", "everything"]
)
def test_a_model_or_an_empty_file_is_replaced(content: bytes) -> None:
    Path("out.onnx").write_bytes(content)
    fusionc.convert("in.onnx", output="out.onnx", verify=False)
    assert onnx.load("out.onnx").graph.node[0].op_type == "Neg"


def test_a_link_is_replaced_and_what_it_leads_to_stays() -> None:
    Path("notes.txt").write_text("notes")
    Path("out.onnx").symlink_to("notes.txt")
    fusionc.convert("in.onnx", output="out.onnx", verify=False)
    assert Path("notes.txt").read_text() == "notes" and onnx.load("out.onnx").graph.node
