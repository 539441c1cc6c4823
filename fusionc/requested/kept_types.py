"""The nodes that keep their type in a conversion to another precision: --keep_dtype."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import onnx

from fusionc.errors import UsageError, said
from fusionc.model.graph import Node
from fusionc.protos.node_origin import origin_of

_OPTION = "--keep_dtype"
_TYPE = "OpType::"


@dataclass
class KeptTypes:
    """Nodes by name, and types of operators. `find` looks for them in the model; what is made of
    such nodes is kept, too.
    """

    names: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    _labels: set[str] = field(default_factory=set)  # of the nodes of these types

    @classmethod
    def in_file(cls, path: Path) -> KeptTypes:
        """Those of a file with a name, or OpType::Type, in each line. Raises UsageError."""
        try:
            lines = [line.strip() for line in path.read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            what = f"the file cannot be read: {said(error)}"
            raise UsageError(what, where=f"{_OPTION}={path}", hint="give a file of text") from error
        written = [line for line in lines if line]
        types = {line.removeprefix(_TYPE) for line in written if line.startswith(_TYPE)}
        names = {line for line in written if not line.startswith(_TYPE)}
        return cls(frozenset(names), frozenset(types))

    def find(self, model: onnx.ModelProto) -> list[str]:
        """Look for them in the model; a sentence for the user if some are not there."""
        nodes = model.graph.node
        self._labels = {_label(node) for node in nodes if node.op_type in self.types}
        lost = sorted(self.names - {_label(node) for node in nodes})
        lost += [f"{_TYPE}{op}" for op in sorted(self.types - {node.op_type for node in nodes})]
        return [f"{_OPTION} names what the model does not have: {', '.join(lost)}"] if lost else []

    def keeps(self, node: Node) -> bool:
        """Whether a node is one of them, or was made of one."""
        origin = origin_of(node.proto)
        labels = {node.label(), *(origin.sources if origin else ())}
        return node.op in self.types or not labels.isdisjoint(self.names | self._labels)


def _label(node: onnx.NodeProto) -> str:
    """The name of a node, or what messages call it."""
    first = next(filter(None, node.output), "")
    return node.name or f"{node.op_type}:{first}"
