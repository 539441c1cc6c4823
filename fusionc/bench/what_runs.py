"""What onnxruntime runs of a model after optimizing it: if that is the same for two models, their
times differ only by chance.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from fusionc.bench.deployed_model import DeployedModel
from fusionc.model.tensors import to_array
from fusionc.passes.cleanup.subnormal_to_zero import count_subnormal
from fusionc.runtime.process import request


@dataclass(frozen=True)
class WhatRuns:
    """What onnxruntime runs of a model."""

    # hashes of an operator, its attributes and all that it is computed from; of weights only the
    # shape counts, unless their numbers are slow
    operators: Counter[str]
    optimizers: tuple[str, ...]  # that changed something


def what_runs(model: DeployedModel) -> WhatRuns:
    """Load a model and see. Raises RunError if onnxruntime cannot load it."""
    with TemporaryDirectory() as folder:
        target = Path(folder, "run.onnx")
        optimizers = request("optimized_by", *model.arguments(), str(target))
        graph = onnx.load(target, load_external_data=False).graph
        made_of = {weight.name: _weight(weight, folder) for weight in graph.initializer}
    return WhatRuns(Counter(_operators(graph, made_of)), tuple(optimizers))


def _weight(weight: onnx.TensorProto, folder: str) -> str:
    is_slow = count_subnormal(to_array(weight, folder)) > 0
    return f"{weight.data_type} {tuple(weight.dims)}{' subnormal' if is_slow else ''}"


def _operators(graph: onnx.GraphProto, made_of: dict[str, str]) -> Iterator[str]:
    """Hashes of the operators, in an order in which they can be computed. Names of values do not
    count, except those of inputs.
    """
    for node in graph.node:
        inputs = [made_of.get(name, name) for name in node.input]
        parts = [
            node.domain,
            node.op_type,
            inputs,
            sorted(str(attribute) for attribute in node.attribute),
        ]
        operator = hashlib.sha256(repr(parts).encode()).hexdigest()
        made_of |= {name: f"{operator} {number}" for number, name in enumerate(node.output)}
        yield operator
