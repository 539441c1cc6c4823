"""The base of classes that rewrite an area (operators that one generated kernel computes): it knows
which operator makes a value, and which operators read it.
"""

from __future__ import annotations

from collections import defaultdict

import onnx

from fusionc.graph_kernel.area import Area


class AreaRewriter:
    """Has copies of the area's values and constants, to which a subclass can add."""

    def __init__(self, area: Area) -> None:
        self._area = area
        self.values = dict(area.values)
        self.constants = dict(area.constants)
        self._makers = {name: node for node in area.nodes for name in node.output}
        self._readers = defaultdict[str, list[onnx.NodeProto]](list)
        for node in area.nodes:
            for name in dict.fromkeys(node.input):
                self._readers[name].append(node)

    def _only_reader(self, name: str) -> onnx.NodeProto | None:
        """The only operator that reads a value. `None` if several do, none does, or the value is an
        output of the area.
        """
        readers = self._readers[name]
        return readers[0] if len(readers) == 1 and name not in self._area.outputs else None
