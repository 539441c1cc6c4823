"""Names of values with ';' and ':' in them, which part texts of options: what the model calls so is
one name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto

import fusionc
from fusionc.cli import main
from fusionc.requested.exact_names import leading_name, split_values

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")
TEXT = """<ir_version: 8, opset_import: ["" : 13]>
g (float[3,4] "a;b:0", float[3,4] k) => (float[3,4] "out;put:0", float[3,4] two) {
    ["n;1"] r = Relu ("a;b:0")
    ["m"] "out;put:0" = Add (r, k)
    ["p"] two = Neg (r)
}"""


@pytest.fixture
def model() -> Path:
    onnx.save(onnx.parser.parse_model(TEXT), "in.onnx")
    return Path("in.onnx")


def inputs_of(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    return {
        value.name: [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }


def outputs_of(model: onnx.ModelProto) -> dict[str, int]:
    return {value.name: value.type.tensor_type.elem_type for value in model.graph.output}


@pytest.mark.parametrize(
    ("text", "names", "parts"),
    [
        ("a;b", {"a", "b"}, ["a", "b"]),
        ("a;b", {"a", "b", "a;b"}, ["a;b"]),
        (" a;b ; c;", {"a;b", "c"}, ["a;b", "c"]),
        ("c;a; b;c", {"a; b", "c"}, ["c", "a; b", "c"]),
        ("a;b;c", {"a;b", "b;c"}, ["a;b", "c"]),
        ("a;b;c", {"a;b", "a;b;c"}, ["a;b;c"]),
        (";a;;b", {";a;", "b"}, [";a;", "b"]),
        ("a;b;c", {"x;y"}, ["a", "b", "c"]),
    ],
)
def test_the_longest_exact_names_win(text: str, names: set[str], parts: list[str]) -> None:
    assert list(split_values(text, names, str)) == parts
    sized = ";".join(f"{part}:1,2" for part in parts)
    assert list(split_values(sized, names, leading_name)) == [f"{part}:1,2" for part in parts]


def converted(*words: str) -> onnx.ModelProto:
    done = CliRunner().invoke(
        main, ["convert", "--model", "in.onnx", "--output", "out.onnx", "--no-verify", *words]
    )
    assert done.exit_code == 0, done.output
    return onnx.load("out.onnx")


def sizes(*words: str) -> dict[str, list[int | str]]:
    return inputs_of(converted(*words))


def types(*words: str) -> dict[str, int]:
    return outputs_of(converted(*words))


FLOAT = TensorProto.FLOAT
HALF = TensorProto.FLOAT16
DOUBLE = TensorProto.DOUBLE


@pytest.mark.parametrize(
    ("what", "words", "expected"),
    [
        (sizes, ["--free_dim", "a;b:0:0=n;k:0=n"], {"a;b:0": ["n", 4], "k": ["n", 4]}),
        (sizes, ["--input_shape", "k:5,4;a;b:0:5,4"], {"a;b:0": [5, 4], "k": [5, 4]}),
        (sizes, ["--input_shape_range", "k:[-1,4];a;b:0:[3,4]"], {"a;b:0": [3, 4], "k": [3, 4]}),
        (types, ["--out_nodes", "two;out;put:0"], {"two": FLOAT, "out;put:0": FLOAT}),
        (types, ["--out_nodes", "n;1:0;p:0"], {"r": FLOAT, "two": FLOAT}),
        (types, ["--output_type", "out;put:0:FP16;p:0:DOUBLE"], {"out;put:0": HALF, "two": DOUBLE}),
    ],
)
def test_on_the_command_line(
    model: Path, what: Callable[..., dict[str, Any]], words: list[str], expected: dict[str, Any]
) -> None:
    assert what(*words) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--input_shape", "a;b:0:3,x;k:3,4"], '"a;b:0:3,x" is not of the form'),
        (["--input_shape", "k:3,4;a;b:0:3,4;a;b:0:3,4"], '"a;b:0" is given twice'),
        (["--out_nodes", "out;put:1"], "no node of the model computes out"),
        (["--output_type", "out;put:0:FP17"], "'FP17' is not a type"),
    ],
)
def test_what_is_wrong_is_said_of_the_whole_name(model: Path, words: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["convert", *words, "--model", "in.onnx", "--no-verify"])
    assert done.exit_code == 2 and said in " ".join(done.output.split())


@pytest.mark.parametrize("option", ["verify", "diff", "many"])
def test_other_commands(model: Path, option: str) -> None:
    opened = onnx.parser.parse_model(TEXT.replace("3,4", "N,4"))
    onnx.save(opened, "open.onnx")
    shapes = ["--input_shape", "k:5,4;a;b:0:5,4"]
    words = {
        "verify": ["verify", "open.onnx", "open.onnx", *shapes],
        "diff": ["diff", "--json", *shapes, "open.onnx", "open.onnx"],
        "many": [
            "convert",
            "--model",
            "open*.onnx",
            "--output",
            "out",
            "--no-verify",
            "--jobs",
            "1",
            *shapes,
        ],
    }[option]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    if option == "diff":
        assert json.loads(done.stdout)["before"]["sizes"] == {"a;b:0": [5, 4], "k": [5, 4]}
    if option == "many":
        assert inputs_of(onnx.load("out/open.onnx")) == {"a;b:0": [5, 4], "k": [5, 4]}


def test_lists_and_dicts_stay_what_they_are(model: Path) -> None:
    fusionc.convert(
        model, output="out.onnx", out_nodes=["out;put:0", "p:0"], output_type={"out;put:0": "FP16"}
    )
    assert outputs_of(onnx.load("out.onnx")) == {"out;put:0": HALF, "two": FLOAT}
    with pytest.raises(fusionc.UsageError, match="no node of the model computes two;out;put:0"):
        fusionc.convert(model, output="out.onnx", out_nodes=["two;out;put:0"])


def test_names_in_the_calls_of_peers(model: Path) -> None:
    np.save("value.npy", np.ones((3, 4), np.float32))
    checked = ["a;b:0:value.npy", "k:value.npy"]
    given = {"input_shapes": ["a;b:0:3,4"], "model_check": True, "model_check_inputs": checked}
    slimmed = fusionc.slim(onnx.load(model), outputs=["out;put:0", "two:fp16"], **given)
    assert slimmed is not None and outputs_of(slimmed) == {"out;put:0": FLOAT, "two": HALF}
    simplified, is_right = fusionc.simplify(
        onnx.load(model), unused_output=["two"], overwrite_input_shapes={"a;b:0": (3, 4)}
    )
    assert is_right and outputs_of(simplified) == {"out;put:0": FLOAT}


def test_an_output_that_is_called_as_one_with_a_type_is(model: Path) -> None:
    proto = onnx.parser.parse_model(TEXT.replace('"out;put:0"', '"out:fp16"'))
    slimmed = fusionc.slim(proto, outputs=["out:fp16"])
    assert slimmed is not None and outputs_of(slimmed) == {"out:fp16": FLOAT}
