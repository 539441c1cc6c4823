"""Let onnxruntime find types that shape inference does not find. Loading the model gives the
element type, running it gives the rank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, TypeProto, ValueInfoProto, helper

from fusionc.model.write_back import keep
from fusionc.protos import copied, needed_nodes
from fusionc.runtime.run_errors import RunError


@dataclass
class TypesOfARun:
    """Runs a model to find types of values, and caches them. If `inputs` or `shapes` are given, the
    model is run on the first sample of `inputs`, or with these shapes.
    """

    inputs: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    _known: dict[str, TypeProto] = field(default_factory=dict)

    def of(self, model: ModelProto, names: Sequence[str], folder: str) -> dict[str, TypeProto]:
        """The types of these values of the main graph, by name. Values that onnxruntime cannot
        compute, or that are not tensors, are left out. The types have no sizes, only a rank,
        because other runs may have other sizes.
        """
        missing = [name for name in names if name not in self._known]
        if missing:
            with suppress(RunError):
                self._run(model, missing, Path(folder))
        return {name: self._known[name] for name in names if name in self._known}

    def _run(self, model: ModelProto, names: Sequence[str], folder: Path) -> None:
        # imported here because few conversions need these modules
        from fusionc.verify.first_sample import first_sample_of
        from fusionc.verify.seeding import seeded_runner

        part = copied(model)
        nodes = list(
            part.graph.node
        )  # keeps the Python objects alive, so that their ids stay valid
        kept = needed_nodes(nodes, names)
        keep(part.graph.node, lambda node: id(node) in kept)
        del part.graph.output[:]
        part.graph.output.extend(ValueInfoProto(name=name) for name in names)
        runner = seeded_runner(part, folder)
        sample = first_sample_of(runner, part, folder, self.shapes, self.inputs)
        for name, value in zip(names, sample.outputs, strict=True):
            kind = re.fullmatch(r"tensor\((\w+)\)", runner.types[name])
            if kind is not None and isinstance(value, np.ndarray):
                element_type = TensorProto.DataType.Value(kind[1].upper())
                self._known[name] = helper.make_tensor_type_proto(element_type, [None] * value.ndim)
