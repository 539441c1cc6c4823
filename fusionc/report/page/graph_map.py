"""A map of the main graph of a model: a cell for each operator, in columns by depth. It shows where
the conversion changed the graph.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import onnx

from fusionc.protos.node_origin import origin_of
from fusionc.report.page.drawing import kind_of_operator

_MAX_CELLS = 20_000  # of a map
_MAX_TITLES = 3_000  # in a larger map the cells have no names

_Key = tuple[str, str, str]


@dataclass(frozen=True)
class Cell:
    """An operator on the map."""

    kind: str  # the kind that gives its colour
    title: str
    is_changed: bool  # whether a pass removed the operator, or made it


@dataclass(frozen=True)
class GraphMap:
    """The cells of a map by depth. The depth of an operator is the number of operators on the
    longest path from an input to it.
    """

    columns: list[list[Cell]]
    more: int = 0  # operators that are left out

    @property
    def cells(self) -> int:
        """The number of operators on the map."""
        return sum(map(len, self.columns))

    @property
    def changed(self) -> int:
        """The number of changed operators on the map."""
        return sum(cell.is_changed for column in self.columns for cell in column)


def maps_of(before: Path, after: Path) -> tuple[GraphMap, GraphMap]:
    """The maps of two model files: the model, and what the conversion made of it."""
    graphs = [onnx.load(path, load_external_data=False).graph for path in (before, after)]
    old = {_key(node) for node in graphs[0].node}
    kept = {_key(node) for node in graphs[1].node if origin_of(node) is None} & old
    return _map(graphs[0], kept), _map(graphs[1], kept)


def _key(node: onnx.NodeProto) -> _Key:
    return node.domain, node.op_type, next(filter(None, node.output), "")


def _map(graph: onnx.GraphProto, kept: Collection[_Key]) -> GraphMap:
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    has_titles = len(nodes) <= _MAX_TITLES
    depths = dict[str, int]()
    columns = list[list[Cell]]()
    for node in nodes[:_MAX_CELLS]:
        depth = max((depths.get(name, 0) for name in node.input), default=0)
        depths |= dict.fromkeys(node.output, depth + 1)
        columns += [[] for _ in range(depth + 1 - len(columns))]
        title = f"{node.op_type} {node.name}".strip() if has_titles else ""
        columns[depth].append(Cell(kind_of_operator(node.op_type), title, _key(node) not in kept))
    return GraphMap(columns, max(0, len(nodes) - _MAX_CELLS))
