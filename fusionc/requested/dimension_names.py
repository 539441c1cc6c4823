"""Which names of dimensions still hold once sizes of inputs become symbolic."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property

from onnx import ModelProto, ValueInfoProto

from fusionc.model.graph import Model
from fusionc.protos import NAMELESS, graphs_in
from fusionc.requested.held_sizes import TwoSizes

_TRIALS = (64, 96)  # sizes for all dimensions that are open already


class DimensionNames:
    """The names that `model` gives to dimensions; `found` has the shapes with symbolic `sizes`.
    `light` is the model after `shapes_only`, `weights` are its initializers.
    """

    def __init__(
        self,
        model: ModelProto,
        light: ModelProto,
        weights: Collection[str],
        sizes: Mapping[str, Mapping[int, int]],
        found: TwoSizes,
    ) -> None:
        self._model = model
        self._light = light
        self._weights = weights
        self._sizes = sizes
        self._found = found

    def still_true(self, graph: int, info: ValueInfoProto) -> set[int]:
        """The axes of a value whose names still say for any size what they said for the size in the
        model.
        """
        uses = {axis: _use(self._found.after, graph, info.name, axis) for axis in _names(info)}
        unclear = {axis: name for axis, name in _names(info).items() if uses[axis] != name}
        return {
            axis
            for axis, name in unclear.items()
            if self._uses[name] == {uses[axis]} or self._is_untouched(graph, info.name, axis)
        }

    def _is_untouched(self, graph: int, name: str, axis: int) -> bool:
        """Whether a dimension keeps its size, whatever the symbolic sizes are."""
        pairs = [[_use(model, graph, name, axis) for model in pair] for pair in self._trials]
        return all(isinstance(former, int) and former == other for former, other in pairs)

    @cached_property
    def _trials(self) -> list[tuple[Model, Model]]:
        """The model at its sizes, and at twice these, each for some sizes of the dimensions that
        are open already.
        """
        return [(self._model_at(1, size), self._model_at(2, size)) for size in _TRIALS]

    def _model_at(self, times: int, size: int) -> Model:
        sizes = {
            value.name: {
                axis: self._sizes.get(value.name, {}).get(axis, 0) * times or size
                for axis, dim in enumerate(value.type.tensor_type.shape.dim)
                if not dim.HasField("dim_value") or axis in self._sizes.get(value.name, {})
            }
            for value in self._light.graph.input
        }
        return TwoSizes(self._light, self._weights, sizes).after

    @cached_property
    def _uses(self) -> dict[str, set[object]]:
        """What inference says of the dimensions that have a name, by name; the place of a dimension
        if inference says nothing. A name that occurs in a formula counts as well.
        """
        uses: dict[str, set[object]] = {}
        for number, graph in enumerate(graphs_in(self._model.graph)):
            for info in (*graph.input, *graph.value_info, *graph.output):
                for axis, name in _names(info).items():
                    uses.setdefault(name, set()).add(
                        _use(self._found.after, number, info.name, axis)
                    )
                    for part in re.findall(r"\w+", name):
                        if part != name or info.name not in self._found.reached:
                            uses.setdefault(part, set()).add(None)
        return uses


def _names(info: ValueInfoProto) -> dict[int, str]:
    dims = enumerate(info.type.tensor_type.shape.dim)
    return {axis: dim.dim_param for axis, dim in dims if dim.dim_param not in NAMELESS}


def _use(model: Model, graph: int, name: str, axis: int) -> object:
    """What inference says of a dimension; its place if that is nothing."""
    value = model.graphs[graph].values.get(name)
    dims = () if value is None or value.shape is None else value.shape
    known = dims[axis] if axis < len(dims) else None
    return (graph, name, axis) if known is None else known
