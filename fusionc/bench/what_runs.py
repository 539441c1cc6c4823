"""The operators that onnxruntime runs after optimizing a model. If these are the same for two
models, their times differ only by chance.
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
    """The optimized form of a model in onnxruntime."""

    # Hashes of the operators. A hash covers the operator, its attributes and all its predecessors.
    # For a weight, it covers type and shape, and whether the weight has slow subnormal numbers.
    operators: Counter[str]
    optimizers: tuple[str, ...]  # the optimizers of onnxruntime that changed the model


def what_runs(model: DeployedModel) -> WhatRuns:
    """Load a model in onnxruntime and examine its optimized form. Raises RunError if onnxruntime
    cannot load the model.
    """
    with TemporaryDirectory() as folder:
        target = Path(folder, "run.onnx")
        optimizers = request("optimized_by", *model.arguments(), str(target))
        graph = onnx.load(target, load_external_data=False).graph
        hashes = {weight.name: _weight(weight, folder) for weight in graph.initializer}
    return WhatRuns(Counter(_operators(graph, hashes)), tuple(optimizers))


def _weight(weight: onnx.TensorProto, folder: str) -> str:
    is_slow = count_subnormal(to_array(weight, folder)) > 0
    return f"{weight.data_type} {tuple(weight.dims)}{' subnormal' if is_slow else ''}"


def _operators(graph: onnx.GraphProto, hashes: dict[str, str]) -> Iterator[str]:
    """The hashes of the operators in topological order. Names of values have no influence, except
    names of graph inputs. `hashes` has the hashes of weights by name; this function adds those of
    the outputs of each node.
    """
    for node in graph.node:
        inputs = [hashes.get(name, name) for name in node.input]
        parts = [
            node.domain,
            node.op_type,
            inputs,
            sorted(str(attribute) for attribute in node.attribute),
        ]
        operator = hashlib.sha256(repr(parts).encode()).hexdigest()
        hashes |= {name: f"{operator} {number}" for number, name in enumerate(node.output)}
        yield operator
