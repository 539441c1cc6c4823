"""The nodes that keep their type in a conversion to another precision: --keep_dtype."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import onnx

from fusionc.errors import FusioncError, UsageError
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
        """Those of a file with a name, or OpType::Type, in each line. Raises FusioncError if it
        cannot be read.
        """
        lines = [line.strip() for line in _text_of(path).splitlines()]
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


def _text_of(path: Path) -> str:
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        if path.is_dir():
            problem = "is a folder"
        raise _file_error(f"the file of {_OPTION} {problem}", path, "E10410")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _file_error(f"the file of {_OPTION} is not text in UTF-8", path, "E10001") from error
    except OSError as error:
        what = f"the file of {_OPTION} cannot be read: {error.strerror}"
        hint = "check its permissions"
        raise FusioncError(what, where=str(path), hint=hint, code="E13003") from error


def _file_error(what: str, path: Path, code: str) -> UsageError:
    hint = f"give a text file with the name of a node, or {_TYPE}Type, in each line"
    return UsageError(what, where=str(path), hint=hint, code=code)


def _label(node: onnx.NodeProto) -> str:
    """The name of a node, or what messages call it."""
    first = next(filter(None, node.output), "")
    return node.name or f"{node.op_type}:{first}"
