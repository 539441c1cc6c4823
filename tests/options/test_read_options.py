"""What `fusionc.convert` says of arguments that the command line would have refused, and where the
result goes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
import pytest

import fusionc
from fusionc.options import options_of, output_path

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

MODEL = Path(__file__).parents[2] / "sample_models" / "matmul_bias.onnx"


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("verify", "false", "give True or False"),
        ("oo_constant_folding", "false", "give True or False"),
        ("oo_dead_code_elimination", 0.5, "give True or False"),
        ("pattern_fusion_pass", "off", "give True or False"),
        ("enable_graph_kernel", "False", "give True or False"),
        ("trust_kernels", "no", "give True or False"),
        ("external_weight", 3, "give 0, 1 or None"),
        ("export_compile_stat", "all", "give 0, 1 or 2"),
        ("progress", True, "give a function that takes a text: print"),
        ("input_shape", "x:1,4", 'give {"x": (1, 3, -1, (64, 256))}'),
        ("input_shape", {"x": 3}, 'give {"x": (1, 3, -1, (64, 256))}'),
        ("input_shape", {"x": "1,3"}, 'give {"x": (1, 3, -1, (64, 256))}'),
        ("input_shape", {"x": (1, 2.5)}, 'give {"x": (1, 3, -1, (64, 256))}'),
        ("input_shape", {"x": (1, (2, 3, 4))}, 'give {"x": (1, 3, -1, (64, 256))}'),
        ("verify_shape", {"x": "1,4"}, 'give {"x": (1, 3, 224, 224)}'),
        ("verify_shape", {"x": (1, None)}, 'give {"x": (1, 3, 224, 224)}'),
        ("verify_shape", {"x": ((1, 2), 4)}, 'give {"x": (1, 3, 224, 224)}'),
        ("free_dim", {"x": 0}, 'give {"x": (0, 2)} or {"x": {0: "batch"}}'),
        ("free_dim", {"x": "0"}, 'give {"x": (0, 2)} or {"x": {0: "batch"}}'),
        ("free_dim", {"x": {0: 1}}, 'give {"x": (0, 2)} or {"x": {0: "batch"}}'),
        ("timeout", "3", "give seconds, 0 for no limit, or None"),
        ("timeout", float("nan"), "give seconds, 0 for no limit, or None"),
        ("timeout", True, "give seconds, 0 for no limit, or None"),
        ("precision_error", "0.01", "give a number above 0 and at most 1, or None"),
        ("precision_error", True, "give a number above 0 and at most 1, or None"),
        ("precision_error", 0, "give a number above 0 and at most 1, or None"),
        ("precision_error", float("nan"), "give a number above 0 and at most 1, or None"),
        ("target_opset", "23", "give a number, or None for the opset of the model"),
        ("target_opset", 0, "give a number, or None for the opset of the model"),
        ("custom_passes", "my_passes.py", 'give a list of files: ["my_passes.py"]'),
        ("custom_passes", Path("my_passes.py"), 'give a list of files: ["my_passes.py"]'),
        ("custom_op_library", "a.so", 'give a list of files: ["libcustom.so"]'),
        ("custom_passes", [3], 'give a list of files: ["my_passes.py"]'),
        ("custom_op_library", 3, 'give a list of files: ["libcustom.so"]'),
        ("optimization_switch", {"P": "off"}, 'give "P:on;Q:off"'),
        ("out_nodes", 3, 'give "conv1:0;logits", or a list of names'),
        ("out_nodes", ["features", 0], 'give "conv1:0;logits", or a list of names'),
        ("output_type", ["FP16"], 'give "FP16", "conv1:0:FP16;logits:FP32" or {"logits": "FP32"}'),
        ("output_type", {"y": 1}, 'give "FP16", "conv1:0:FP16;logits:FP32" or {"logits": "FP32"}'),
        ("graph_kernel_flags", ["--opt_level=2"], 'give "--opt_level=2"'),
        ("log", 3, "give one of debug, info, warning, error, null"),
        ("output", 3, "give the path of a file"),
        ("dump_graph", True, "give the path of a folder"),
        ("report", True, "give the path of the page to write"),
        (
            "fusion_switch_file",
            {"Switch": {}},
            'give the path of a switch file; optimization_switch takes "P:on;Q:off"',
        ),
        (
            "inputs",
            {"image": [1]},
            "give an .npz file, which numpy.savez(path, **values) writes, or a folder of samples",
        ),
        ("runtime_level", 3, "give a list of some of disabled, basic, extended, all"),
        ("runtime_level", [["all"]], "give a list of some of disabled, basic, extended, all"),
        ("runtime_level", "all", "give a list of some of disabled, basic, extended, all"),
        ("runtime_level", ["o3"], "give a list of some of disabled, basic, extended, all"),
        ("target", "npu", "give one of onnxruntime-cpu, onnx"),
        ("oo_level", "O2", "give one of O1, O3"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: Any, hint: str) -> None:
    with pytest.raises(fusionc.UsageError) as caught:
        fusionc.convert(MODEL, **{"output": "out.onnx", name: value})
    assert caught.value.what.startswith(f"{name} is {value!r}") and caught.value.hint == hint
    assert not list(Path().iterdir())


def test_a_model_in_memory_is_for_optimize() -> None:
    model: Any = onnx.load(MODEL)
    with pytest.raises(fusionc.UsageError) as caught:
        fusionc.convert(model)
    assert caught.value.what == "model is a ModelProto, not a path"
    assert caught.value.hint == "give the path of a model; fusionc.optimize takes a model in memory"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "in.v2_fusionc.onnx"),
        ("out", "out.onnx"),
        ("a/out.onnx", "a/out.onnx"),
        ("out.v2", "out.v2.onnx"),
        ("OUT.ONNX", "OUT.ONNX"),
    ],
)
def test_where_the_result_goes(given: str | None, expected: str) -> None:
    assert output_path(Path("some/in.v2.onnx"), None if given is None else Path(given)) == Path(
        expected
    )


@pytest.mark.parametrize(
    "given", ["in.onnx", "./in.onnx", "in", "folder/../in", "link.onnx", "hard.onnx"]
)
def test_the_model_itself_is_never_overwritten(given: str) -> None:
    content = MODEL.read_bytes()
    Path("in.onnx").write_bytes(content)
    Path("folder").mkdir()
    Path("link.onnx").symlink_to("in.onnx")
    os.link("in.onnx", "hard.onnx")
    with pytest.raises(fusionc.UsageError, match="--output names the model itself"):
        fusionc.convert("in.onnx", output=given)
    assert Path("in.onnx").read_bytes() == content


@pytest.mark.parametrize("given", ["folder", "folder/", ".", "", "taken"])
def test_a_folder_is_no_output(given: str) -> None:
    Path("folder").mkdir()
    Path("taken.onnx").mkdir()
    with pytest.raises(fusionc.UsageError, match="is a folder"):
        fusionc.convert(MODEL, output=given)


@pytest.mark.parametrize("given", ["cfg.json", "folder/page.HTML", "data.npz"])
def test_what_is_named_as_another_file_is_no_output(given: str) -> None:
    with pytest.raises(fusionc.UsageError, match=f"its name ends in {Path(given).suffix}"):
        fusionc.convert(MODEL, output=given)


@pytest.mark.parametrize(
    ("given", "notices"),
    [
        ("out.om", ["the result is an ONNX model, so its name is out.om.onnx"]),
        ("out", []),
        ("out.onnx", []),
    ],
)
def test_the_ending_of_a_model_of_atc(given: str, notices: list[str]) -> None:
    options = options_of(MODEL, output=given)
    assert options.notices() == notices
