from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from click.testing import CliRunner
from harness import parse
from onnx import numpy_helper

from fusionc.cli import main


def dead(folder: Path) -> Path:
    model = parse(
        "agraph (float[N,3,4,4] x) => (float[N,4,4,4] y) <float[4,3,1,1] W> { y = Conv (x, W) }"
    )
    weights = np.ones((4, 3, 1, 1), np.float32)
    weights[1] = 0
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "W"))
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def test_what_was_found_is_shown_with_what_to_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["inspect", "--model", str(dead(tmp_path))])
    assert result.exit_code == 0
    assert (
        "found  dead filters: 1 output of 1 operator with weights that are all zero, "
        in result.output
    )
    assert "where  Conv:y" in result.output and '--input_shape "x:1,3,4,4"' in result.output
    assert result.output.count("to do  ") == 2


def test_all_of_it_as_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["inspect", "--model", str(dead(tmp_path)), "--json"])
    found = json.loads(result.output)["findings"]
    assert [finding["topic"] for finding in found] == ["dead filters", "open sizes"]
    assert found[0]["places"] == ["Conv:y"]


def test_a_model_without_any_is_told_so(tmp_path: Path) -> None:
    onnx.save(parse("agraph (float[2] x) => (float[2] y) { y = Relu (x) }"), tmp_path / "m.onnx")
    result = CliRunner().invoke(main, ["inspect", "--model", str(tmp_path / "m.onnx")])
    assert (
        result.exit_code == 0
        and "found  nothing; fusionc convert shows what can be fused" in result.output
    )
