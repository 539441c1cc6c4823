"""The largest values inside a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import closes_runners
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.model_file import light_model
from fusionc.verify.seeding import seeded_runner

_OPSET = 10  # the first with IsInf


@closes_runners
def largest_values(
    samples: Iterable[Sample], model: Path, names: Sequence[str]
) -> dict[str, float]:
    """The largest finite magnitude, over all samples, in each of these float32 values of the main
    graph. Empty if they cannot be measured, as in models before opset 10.
    """
    ranges = dict.fromkeys(names, 0.0)
    with suppress(RunError):
        watched, folder = light_model(model)
        if all(entry.version < _OPSET for entry in watched.opset_import if not entry.domain):
            return {}
        _watch(watched, names)
        runner = seeded_runner(watched, folder)
        for sample in samples:
            for name, largest in zip(names, runner.run(sample.feeds), strict=True):
                ranges[name] = max(ranges[name], float(np.nan_to_num(largest)))
        return ranges
    return {}


def _watch(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Replace the outputs of a model by the largest finite magnitudes of these values."""
    graph = model.graph
    del graph.output[:]
    zero = "fusionc.zero"
    graph.node.append(
        helper.make_node(
            "Constant", [], [zero], value=helper.make_tensor(zero, TensorProto.FLOAT, [], [0.0])
        )
    )
    for number, name in enumerate(names):
        inner = [f"fusionc.{kind}.{number}" for kind in ("infinite", "finite", "size", "range")]
        graph.node.extend(
            (
                helper.make_node("IsInf", [name], [inner[0]]),
                helper.make_node("Where", [inner[0], zero, name], [inner[1]]),
                helper.make_node("Abs", [inner[1]], [inner[2]]),
                helper.make_node("ReduceMax", [inner[2]], [inner[3]], keepdims=0),
            )
        )
        graph.output.append(helper.make_tensor_value_info(inner[3], TensorProto.FLOAT, []))
