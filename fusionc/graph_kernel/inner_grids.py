"""Show the quantized and rounded values inside areas, so that a verification can compare them.

A grid is an operator that rounds or quantizes: its results are integers, or multiples of a scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import onnx
from onnx import FunctionProto, ModelProto

from fusionc.errors import FusioncError
from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.library.build_library import build
from fusionc.model.functions import inlined
from fusionc.model.operators import KERNELS
from fusionc.protos import nodes_of
from fusionc.runtime.run_errors import RunError
from fusionc.verify.grid_steps import nodes_with_grids

# first output of a call → (name of a value inside its area → its name before areas were made)
Names = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class AreasInlined:
    """Makes a model without areas, whose values have the names from before the areas were made."""

    names: Names
    library: None = None

    def show_in(self, model: ModelProto) -> None:
        """Replace each call of an area by the area's operators. The results and inputs of grids get
        their former names.
        """
        functions = [function for function in model.functions if function.domain == KERNELS]
        more = {function.name: _values_at_grids(function) for function in functions}
        for function in functions:
            function.output.extend(more[function.name])
        _name_outputs(model, more, self.names)
        inlined(model)


@dataclass(frozen=True)
class AreaTwins:
    """Twins of areas: their kernels also return the results of quantizations and roundings
    inside.
    """

    areas: Sequence[Area]

    @cached_property
    def _twins(self) -> Mapping[str, Area]:
        """Name of an area → its twin."""
        return {area.name: _twin_of(area) for area in self.areas}

    def show_in(self, model: ModelProto) -> None:
        """Call the twins in place of the areas."""
        more = dict[str, Sequence[str]]()
        for function in model.functions:
            twin = self._twins.get(function.name) if function.domain == KERNELS else None
            if twin is not None:
                more[function.name] = twin.outputs[len(function.output) :]
                function.output.extend(more[function.name])
                function.name = twin.name
        for node in _name_outputs(model, more, {}):
            node.op_type = self._twins[node.op_type].name

    @cached_property
    def library(self) -> Path | None:
        """The kernels of the twins. Raises RunError if they cannot be built."""
        try:
            built = build(list(self._twins.values()))
        except FusioncError as error:
            raise RunError(error.what) from error
        if built.failed:
            raise RunError(next(iter(built.failed.values())))
        return built.library


def _values_at_grids(function: FunctionProto) -> list[str]:
    """The inner values of a function that are results or inputs of grids."""
    results = {name for node in function.node for name in node.output}
    grids = nodes_with_grids(function.node)
    values = dict.fromkeys(name for node in grids for name in (node.input[0], *node.output))
    return [name for name in values if name in results and name not in function.output]


def _name_outputs(
    model: ModelProto, more: Mapping[str, Sequence[str]], names: Names
) -> list[onnx.NodeProto]:
    """Give each call the additional outputs in `more`, and return these calls.

    `more`: name of a function → names of values inside it. The new output gets the name that
    `names` has for the value. If there is none or it is taken, it gets the name of the call's first
    output, a dot, and the name inside. So the same value has the same name in all models.
    """
    taken = {name for node in model.graph.node for name in node.output}
    calls = [n for n in nodes_of(model) if n.domain == KERNELS and n.op_type in more]
    for call in calls:
        known = names.get(call.output[0], {})
        for inner in more[call.op_type]:
            name = known.get(inner, "")
            call.output.append(f"{call.output[0]}.{inner}" if name in {"", *taken} else name)
            taken.add(name)
    return calls


def _twin_of(area: Area) -> Area:
    """The area with the results of its inner grids as further outputs, if a kernel can return
    them.
    """
    grids = [
        (node, [name for name in node.output if name and name not in area.outputs])
        for node in nodes_with_grids(area.nodes)
    ]
    # A kernel that quantizes an input of the area does so while it loads the input. Such a result
    # is not shown: the input itself is visible already.
    inner = [names for node, names in grids if node.input[0] not in area.inputs]
    twin = _with_outputs(area, chain.from_iterable(inner))
    if reason_against(twin) is None:
        return twin
    shown = [names for names in inner if reason_against(_with_outputs(area, names)) is None]
    twin = _with_outputs(area, chain.from_iterable(shown))
    return twin if reason_against(twin) is None else _with_outputs(area, [])


def _with_outputs(area: Area, names: Iterable[str]) -> Area:
    return replace(area, name=f"{area.name}_twin", outputs=(*area.outputs, *names))
