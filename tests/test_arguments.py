"""What `fusionc.convert` says of arguments that the command line would have refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fusionc

MODEL = Path(__file__).parent.parent / "sample_models" / "matmul_bias.onnx"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))


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
        ("input_shape", "x:1,4", 'give {"x": (1, 3, 224, 224)}'),
        ("verify_shape", {"x": "1,4"}, 'give {"x": (1, 3, 224, 224)}'),
        ("verify_shape", {"x": ((1, 2), 4)}, 'give {"x": (1, 3, 224, 224)}'),
        ("timeout", "3", "give seconds, 0 for no limit, or None"),
        ("timeout", float("nan"), "give seconds, 0 for no limit, or None"),
        ("target_opset", "23", "give a number, or None for the opset of the model"),
        ("target_opset", 0, "give a number, or None for the opset of the model"),
        ("custom_passes", "my_passes.py", 'give a list of files: ["my_passes.py"]'),
        ("custom_passes", Path("my_passes.py"), 'give a list of files: ["my_passes.py"]'),
        ("target", "npu", "give one of onnxruntime-cpu, onnx"),
        ("oo_level", "O2", "give one of O1, O3"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: Any, hint: str) -> None:
    with pytest.raises(fusionc.UsageError) as caught:
        fusionc.convert(MODEL, output="out.onnx", **{name: value})
    assert caught.value.what.startswith(f"{name} is {value!r}") and caught.value.hint == hint
    assert not list(Path().iterdir())
