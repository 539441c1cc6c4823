"""Write small models, and a pass that executes given code for some of them. Also a mark for tests
that need two cores.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.external_data_helper import convert_model_to_external_data

from fusionc.batch.pinned_processes import can_pin
from fusionc.runtime.cores import cores

SAMPLES = Path(__file__).parents[1] / "sample_models"
_PLANTED = """
import os, signal, sys, time
from pathlib import Path
import fusionc
from fusionc import op
from fusionc.runtime.process import start

def plant(match):
    {what}
    return True

def quotient(x):
    return x / (op.Abs(x) + 1.0)

fusionc.register_replacement(lambda x: op.Softsign(x), quotient, extra_check=plant, name="Planted")
"""
WAIT = (
    "Path('{pids}').write_text(f'{{os.getpid()}} {{start().id}}'); time.sleep(0 if "
    "Path('{pids}.go').exists() else 60)"
)

needs_two_cores = pytest.mark.skipif(
    cores() < 2 or not can_pin(), reason="needs two cores, and a system that pins processes to them"
)


def write_model(path: Path, operator: str = "Relu") -> None:
    """Write a model of one operator. The planted pass matches Softsign."""
    text = f'<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) {{ y = {operator} (x) }}'
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx.parser.parse_model(text), path)


def write_with_weights(path: Path) -> None:
    """Write a model with its weights in weights.bin, and an Identity that a conversion removes."""
    weights = onnx.numpy_helper.from_array(np.ones(1024, "float32"), "w")
    x, y = (onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [1024]) for name in "xy")
    nodes = [
        onnx.helper.make_node("Add", ["x", "w"], ["h"]),
        onnx.helper.make_node("Identity", ["h"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [weights])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10
    )
    convert_model_to_external_data(model, location="weights.bin")
    onnx.save(model, path)


def planted(folder: Path, what: str) -> Path:
    """Write a file with a pass that executes the code `what` when it matches a Softsign."""
    path = folder / "planted.py"
    path.write_text(_PLANTED.format(what=what))
    return path


def content(folder: Path) -> dict[str, bytes]:
    """The files in a folder, except the records of the conversions."""
    files = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {
        name: path.read_bytes()
        for name, path in files.items()
        if not name.startswith("fusionc_records/")
    }


def is_running(number: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds, for at most a minute."""
    end = monotonic() + 60
    while not holds():
        assert monotonic() < end
        sleep(0.02)
