"""Find out which symbols (names of dimensions) that a model declares are still correct after fixed
input sizes become symbolic.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property

from onnx import ModelProto, ValueInfoProto

from fusionc.model.graph import Model
from fusionc.protos import NAMELESS, graphs_in
from fusionc.requested.held_sizes import TwoSizes

_TRIAL_SIZES = (64, 96)  # tried for all dimensions that do not have a fixed size


class DimensionNames:
    """The symbols that `model` declares for dimensions.

    `light` is the result of `shapes_only` for the model, and `weights` are its initializers.
    `sizes` are the fixed sizes that become symbolic, by input name and axis. `symbolic` has the
    shapes with symbols instead of these sizes.
    """

    def __init__(
        self,
        model: ModelProto,
        light: ModelProto,
        weights: Collection[str],
        sizes: Mapping[str, Mapping[int, int]],
        symbolic: TwoSizes,
    ) -> None:
        self._model = model
        self._light = light
        self._weights = weights
        self._sizes = sizes
        self._symbolic = symbolic

    def still_true(self, graph: int, info: ValueInfoProto) -> set[int]:
        """The axes of a value whose declared symbols are correct for all sizes, and not only for
        the sizes in the model.
        """
        uses = {axis: _use(self._symbolic.after, graph, info.name, axis) for axis in _names(info)}
        unclear = {axis: name for axis, name in _names(info).items() if uses[axis] != name}
        return {
            axis
            for axis, name in unclear.items()
            if self._uses[name] == {uses[axis]} or self._is_untouched(graph, info.name, axis)
        }

    def _is_untouched(self, graph: int, name: str, axis: int) -> bool:
        """Whether the size of a dimension does not depend on the symbolic sizes."""
        pairs = [[_use(model, graph, name, axis) for model in pair] for pair in self._trials]
        return all(isinstance(former, int) and former == other for former, other in pairs)

    @cached_property
    def _trials(self) -> list[tuple[Model, Model]]:
        """Pairs of the model: with its own sizes, and with doubled sizes. The pairs differ in the
        size of all dimensions that do not have a fixed size.
        """
        return [(self._model_at(1, size), self._model_at(2, size)) for size in _TRIAL_SIZES]

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
        """For each symbol, the inferred dimensions of all axes that are declared with this symbol
        (see `_use`). The set also has None if the symbol occurs in a formula, or if a value with
        the symbol does not depend on the changed inputs.
        """
        uses: dict[str, set[object]] = {}
        for number, graph in enumerate(graphs_in(self._model.graph)):
            for info in (*graph.input, *graph.value_info, *graph.output):
                for axis, name in _names(info).items():
                    uses.setdefault(name, set()).add(
                        _use(self._symbolic.after, number, info.name, axis)
                    )
                    for part in re.findall(r"\w+", name):
                        if part != name or info.name not in self._symbolic.reached:
                            uses.setdefault(part, set()).add(None)
        return uses


def _names(info: ValueInfoProto) -> dict[int, str]:
    dims = enumerate(info.type.tensor_type.shape.dim)
    return {axis: dim.dim_param for axis, dim in dims if dim.dim_param not in NAMELESS}


def _use(model: Model, graph: int, name: str, axis: int) -> object:
    """The inferred size or symbol of an axis of a value. If it is unknown, the place of the axis:
    (graph, name, axis).
    """
    value = model.graphs[graph].values.get(name)
    dims = () if value is None or value.shape is None else value.shape
    known = dims[axis] if axis < len(dims) else None
    return (graph, name, axis) if known is None else known
