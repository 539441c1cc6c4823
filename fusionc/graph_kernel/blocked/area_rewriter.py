"""What every rewriter of an area asks: which operator makes a value, and which ones read it."""

from __future__ import annotations

from collections import defaultdict

import onnx

from fusionc.graph_kernel.area import Area


class AreaRewriter:
    """Copies the values and constants of an area, so that a subclass can add to them."""

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
        """The operator that alone reads a value; None if there are others or it is an output."""
        readers = self._readers[name]
        return readers[0] if len(readers) == 1 and name not in self._area.outputs else None
