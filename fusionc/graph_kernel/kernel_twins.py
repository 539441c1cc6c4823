"""Kernels that also give the integers inside their areas, so that a verification can see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import onnx

from fusionc.errors import FusioncError
from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.library.build_library import build
from fusionc.model.operators import KERNELS
from fusionc.protos import nodes_of
from fusionc.verify.grid_steps import nodes_with_grids


@dataclass
class AreaTwins:
    """Twins of areas with more outputs: the results of quantizations and roundings inside."""

    areas: Sequence[Area]
    _twins: Mapping[str, Area] = field(init=False)  # by the name of the area

    def __post_init__(self) -> None:
        self._twins = {area.name: _twin_of(area) for area in self.areas}

    def call_in(self, model: onnx.ModelProto) -> Path | None:
        """Call the twins in the model, in place, and return their library.

        An inner value has the name of the call's first output, and its own in the area.
        """
        more = dict[str, Sequence[str]]()
        for function in model.functions:
            twin = self._twins.get(function.name) if function.domain == KERNELS else None
            if twin is not None:
                more[function.name] = twin.outputs[len(function.output) :]
                function.output.extend(more[function.name])
                function.name = twin.name
        for node in nodes_of(model):
            if node.domain == KERNELS and node.op_type in more:
                node.output.extend([f"{node.output[0]}.{name}" for name in more[node.op_type]])
                node.op_type = self._twins[node.op_type].name
        return self._library if more else None

    @cached_property
    def _library(self) -> Path | None:
        try:
            built = build(list(self._twins.values()))
        except FusioncError:  # the areas themselves compile: the machine has changed
            return None
        return None if built.failed else built.library


def _twin_of(area: Area) -> Area:
    """The area with those inner grids as outputs that a kernel can give."""
    grids = [
        (node, [name for name in node.output if name and name not in area.outputs])
        for node in nodes_with_grids(area.nodes)
    ]
    # a kernel quantizes an input while it loads it: the input itself shows what it makes of it
    inner = [names for node, names in grids if node.input[0] not in area.inputs]
    twin = _with_outputs(area, chain.from_iterable(inner))
    if reason_against(twin) is None:
        return twin
    shown = [names for names in inner if reason_against(_with_outputs(area, names)) is None]
    twin = _with_outputs(area, chain.from_iterable(shown))
    return twin if reason_against(twin) is None else _with_outputs(area, [])


def _with_outputs(area: Area, names: Iterable[str]) -> Area:
    return replace(area, name=f"{area.name}_twin", outputs=(*area.outputs, *names))
