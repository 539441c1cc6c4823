"""`fusionc diff`: tables in a terminal and in a pipe, JSON, exit codes."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fusionc.cli import main

ROOT = Path(__file__).parents[2]
BEFORE = ROOT / "sample_models/conv_bn.onnx"
AFTER = ROOT / "tests/diff/recorded/conv_bn_onnxslim.onnx"


def test_a_pipe_gets_whole_lines(run: Any) -> None:
    lines = run("diff", str(BEFORE), str(AFTER)).stdout.splitlines()
    assert lines[0].split() == ["before", "after", "change"]
    assert ["operations", "1,785,856", "1,761,280", "-1.4", "%"] in map(str.split, lines)
    assert "BatchNormalization       3      0      -3" in lines
    assert "    1  replaced  Pad, Conv, Mul, Add → Conv; first: pad_7" in lines
    assert lines[-5:] == [
        "in both       8 nodes, matched 8 by name; 3 changed",
        "weights       2 equal, 20 only before, 8 only after",
        "interface     the same",
        "counted with  image:1,3,16,16",
        "result        the graphs differ",
    ]


def test_every_node_by_name(run: Any) -> None:
    output = run("diff", "--nodes", str(BEFORE), str(AFTER)).stdout
    assert (
        "    1  replaced  Pad, Conv, Mul, Add → Conv: pad_7, conv_8, mul_9, add_10 → add_10"
        in output
    )


def test_json_and_sizes(run: Any) -> None:
    found = json.loads(
        run("diff", str(BEFORE), str(AFTER), "--json", "--input_shape", "image:1,3,16,16").stdout
    )
    assert found["same"] is False and found["before"]["sizes"] == {"image": [1, 3, 16, 16]}
    assert {"name": "pad_7", "operator": "Pad"} in found["changes"][4]["before"]


def test_markdown(run: Any) -> None:
    lines = run("diff", str(BEFORE), str(AFTER), "--markdown").stdout.splitlines()
    assert lines[:2] == ["|  | before | after | change |", "| --- | --: | --: | --: |"]
    assert "| BatchNormalization | 3 | 0 | -3 |" in lines
    assert "| 1 | replaced | Pad, Conv, Mul, Add → Conv; first: pad_7 |" in lines
    assert lines[-1] == "- result: the graphs differ"
    for table in "\n".join(lines).split("\n\n")[:-1]:
        assert len({line.count(" | ") for line in table.splitlines()}) == 1
    assert run("diff", str(BEFORE), str(AFTER), "--markdown", "--json").exit_code == 2


def test_exit_codes(run: Any) -> None:
    assert run("diff", str(BEFORE), str(AFTER)).exit_code == 0
    assert run("diff", str(BEFORE), str(AFTER), "--exit-code").exit_code == 3
    assert run("diff", str(BEFORE), str(BEFORE), "--exit-code").exit_code == 0
    assert run("diff", str(BEFORE), "nothing.onnx").exit_code == 2
    Path("no.onnx").write_text("no model")
    assert run("diff", str(BEFORE), "no.onnx").exit_code == 1


@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_terminal_gets_what_fits(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", stream)
    main(["diff", str(BEFORE), str(AFTER)], standalone_mode=False)
    lines = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert "BatchNormalization" in " ".join(lines)
