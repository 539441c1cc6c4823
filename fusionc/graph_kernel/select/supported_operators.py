"""Decide whether a kernel can contain an operator, or compute a whole area."""

from __future__ import annotations

from collections.abc import Callable

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.select.area_values import embedded
from fusionc.graph_kernel.select.make_area import area_of
from fusionc.model.graph import Node
from fusionc.model.operators import qualified

ReasonAgainst = Callable[[Area], str | None]


def any_standard_operator(area: Area) -> str | None:
    """The reason against an area if no kernels are made: it contains an operator that is not a
    standard one. `None` if all its operators are.
    """
    others = (qualified(node.op_type, node.domain) for node in area.nodes if node.domain)
    return next((f"{name} is not a standard operator" for name in others), None)


class SupportedOperators:
    """Decides whether operators and areas can have kernels, and remembers the answers.

    `allowed` are the names of the operators that may be in clusters. `reason_against` returns the
    reason why an area cannot have a kernel, or None.
    """

    def __init__(self, allowed: frozenset[str], reason_against: ReasonAgainst) -> None:
        self._allowed = allowed
        self._reason_against = reason_against
        self._of_areas: dict[str, str | None] = {}
        self._of_nodes: dict[Node, str | None] = {}

    def of_area(self, area: Area) -> str | None:
        """The reason why an area cannot have a kernel. `None` if it can."""
        if area.name not in self._of_areas:  # equal areas have equal names
            self._of_areas[area.name] = self._reason_against(area)
        return self._of_areas[area.name]

    def of_node(self, node: Node) -> str | None:
        """The reason why an operator cannot be in an area. `None` if it can."""
        if node not in self._of_nodes:
            self._of_nodes[node] = self._find(node)
        return self._of_nodes[node]

    def _find(self, node: Node) -> str | None:
        name = qualified(node.op, node.domain)
        if name not in self._allowed:
            return f"{name} is not in the list of operators for clusters"
        if node.bodies:
            return "it holds a subgraph"
        read = [
            value
            for value in dict.fromkeys(node.inputs)
            if value is not None and embedded(value) is None
        ]
        area = area_of([node], read, [value for value in node.outputs if value is not None])
        return "an element type or a rank is unknown" if area is None else self.of_area(area)
