"""A model whose inner values can be read. Only the nodes that these values need are run."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from fusionc.disk.mapped_weights import show_as_external
from fusionc.protos import copied, reads_of
from fusionc.runtime.runner import Runner
from fusionc.verify.model_file import LEAN, light_model
from fusionc.verify.seeding import random_nodes, set_seeds

_EXTERNAL = 1024  # weights of at least this many bytes are moved out of the model


class SeenModel:
    """A model whose weights stay in files: its own files, or a file in the folder `scratch`, which
    must exist as long as this object is used.

    Raises RunError if the model cannot be read.
    """

    def __init__(self, path: Path, scratch: Path) -> None:
        model, self._folder = light_model(path)
        self._model = show_as_external(model)
        if all(
            tensor.data_location != TensorProto.EXTERNAL for tensor in self._model.graph.initializer
        ):
            _move_weights(self._model.graph.initializer, scratch / "weights")
            self._folder = scratch
        self._is_random = bool(random_nodes(self._model))
        set_seeds(self._model)
        self.makers = {
            name: node for node in self._model.graph.node for name in node.output if name
        }
        self.outputs = [
            value.name for value in self._model.graph.output if value.name in self.makers
        ]
        self._weights = {tensor.name: tensor for tensor in self._model.graph.initializer}

    def runner(self, names: Sequence[str]) -> Runner:
        """A runner that computes these values, in this order. Raises RunError."""
        part = copied(self._model)
        nodes = self._needed(names)
        del (
            part.graph.node[:],
            part.graph.output[:],
            part.graph.initializer[:],
            part.graph.sparse_initializer[:],
        )
        part.graph.node.extend(nodes)
        part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        read = {name for node in nodes for name in reads_of(node)} | {
            port.name for port in part.graph.input
        }
        graph = self._model.graph
        part.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
        part.graph.sparse_initializer.extend(
            t for t in graph.sparse_initializer if t.values.name in read
        )
        return Runner(
            part.SerializeToString(), folder=self._folder, fresh=self._is_random, entries=LEAN
        )

    def constants_of(self, name: str) -> dict[str, NDArray[Any]]:
        """The initializers that the producer of a value reads."""
        read = [self._weights[value] for value in self.makers[name].input if value in self._weights]
        return {
            tensor.name: onnx.numpy_helper.to_array(tensor, os.fspath(self._folder))
            for tensor in read
        }

    def _needed(self, names: Collection[str]) -> list[onnx.NodeProto]:
        wanted = set(names)
        nodes = list[onnx.NodeProto]()
        for node in reversed(self._model.graph.node):
            if not wanted.isdisjoint(node.output):
                nodes.append(node)
                wanted |= reads_of(node)
        return nodes[::-1]


def _move_weights(tensors: Collection[TensorProto], file: Path) -> None:
    with file.open("wb") as weights:
        for tensor in tensors:
            if len(tensor.raw_data) < _EXTERNAL:
                continue
            # at the beginning of a page, so that it can be mapped
            weights.seek(-weights.tell() % 4096, os.SEEK_CUR)
            onnx.external_data_helper.set_external_data(
                tensor, file.name, weights.tell(), len(tensor.raw_data)
            )
            weights.write(tensor.raw_data)
            tensor.ClearField("raw_data")
