"""What onnxruntime runs of a model once it has optimized it: where that is the same, times differ by chance alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from fusionc.measurement.deployed_model import DeployedModel
from fusionc.runtime.process import request


@dataclass(frozen=True)
class WhatRuns:
    """Operators with their attributes and the shapes of their weights, and the optimizers that changed something."""

    operators: Counter[str]
    optimizers: tuple[str, ...]


def what_runs(model: DeployedModel) -> WhatRuns:
    """Load a model and see. Raises RunError where onnxruntime cannot load it."""
    with TemporaryDirectory() as folder:
        target = Path(folder, "run.onnx")
        optimizers = request("optimized_by", *model.arguments(), str(target))
        graph = onnx.load(target, load_external_data=False).graph
    shapes = {weight.name: tuple(weight.dims) for weight in graph.initializer}
    operators = Counter(
        f"{node.domain}.{node.op_type} {[shapes.get(name, 'value' if name else '') for name in node.input]}"
        f" {sorted(str(attribute) for attribute in node.attribute)}"
        for node in graph.node
    )
    return WhatRuns(operators, tuple(optimizers))
