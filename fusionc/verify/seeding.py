"""Give seeds to models that draw random numbers, so that every run draws the same numbers."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import onnx

from fusionc.disk.mapped_weights import show_as_external
from fusionc.model.operators import canonical_domain
from fusionc.operators.randomness import RANDOM
from fusionc.protos import nodes_of
from fusionc.runtime.runner import Runner


def random_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes that draw random numbers, including nodes in subgraphs and functions."""
    inference = {tensor.name for tensor in model.graph.initializer if _is_false(tensor)}
    nodes = []
    for node in nodes_of(model):
        if node.op_type == "Constant" and any(
            _is_false(attribute.t) for attribute in node.attribute
        ):
            inference.add(node.output[0])
        if not canonical_domain(node.domain) and (
            node.op_type in RANDOM or _is_training(node, inference)
        ):
            nodes.append(node)
    return nodes


def seeded_runner(
    model: onnx.ModelProto,
    folder: Path | None = None,
    kernels: Path | None = None,
    level: str = "disabled",
    entries: Mapping[str, str] = MappingProxyType({}),
) -> Runner:
    """A runner that draws the same random numbers in every run, because the model gets seeds.
    Raises RunError.

    `folder` has the model's external data and the file of its mapped weights. `kernels` is a
    library of operators that the model contains. The other arguments are those of Runner.
    """
    draws = bool(random_nodes(model))
    set_seeds(model)
    data = show_as_external(model).SerializeToString()
    return Runner(data, folder=folder, fresh=draws, kernels=kernels, level=level, entries=entries)


def set_seeds(model: onnx.ModelProto) -> None:
    """Give each random node without a seed a seed that stays the same when other parts of the model
    are rewritten.

    If all nodes have different names, the seed is derived from the node's name, otherwise from the
    number of the node among the nodes of its operator. onnxruntime would derive the seed from the
    node's position, which changes with every removed node.
    """
    nodes = random_nodes(model)
    names = {node.name for node in nodes}
    named = len(names) == len(nodes) and "" not in names
    numbers: Counter[str] = Counter()
    for node in nodes:
        numbers[node.op_type] += 1
        if any(attribute.name == "seed" for attribute in node.attribute):
            continue
        key = node.name if named else f"{node.op_type} {numbers[node.op_type]}"
        seed = zlib.crc32(key.encode()) & 0xFFFF  # small enough to be exact as a float
        node.attribute.append(
            onnx.helper.make_attribute("seed", seed if node.op_type == "Dropout" else float(seed))
        )


def _is_training(node: onnx.NodeProto, inference: set[str]) -> bool:
    mode = node.input[2] if node.op_type == "Dropout" and len(node.input) > 2 else ""
    return mode != "" and mode not in inference


def _is_false(tensor: onnx.TensorProto) -> bool:
    return (
        tensor.data_type == onnx.TensorProto.BOOL
        and not any(tensor.raw_data)
        and not any(tensor.int32_data)
    )
