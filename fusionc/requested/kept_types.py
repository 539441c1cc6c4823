"""--keep_dtype: the nodes that keep their type when others compute in another precision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

from fusionc.errors import UsageError, advice
from fusionc.model.graph import Node
from fusionc.protos import nodes_of
from fusionc.protos.node_origin import origin_of
from fusionc.requested.ascend_operators import onnx_operators
from fusionc.requested.option_file import option_text

TYPE = "OpType::"
_OPTION = "--keep_dtype"
_HINT = f"give a text file; each line has the name of a node, or {TYPE}Type"


_is_for_many = ContextVar("is_for_many", default=False)


@contextmanager
def list_for_many_models() -> Iterator[None]:
    """A context manager in which a list may name nodes that a model lacks."""
    token = _is_for_many.set(True)
    try:
        yield
    finally:
        _is_for_many.reset(token)


@dataclass
class KeptTypes:
    """Nodes that keep their type: single nodes by name, and all nodes of some operators. `find`
    must look them up in a model before `keeps` is called. A node that a pass makes from such a node
    also keeps its type.
    """

    names: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()  # operators of ONNX, or types of Ascend IR
    _types_in_model: dict[str, str] = field(default_factory=dict)  # by label of the node

    @classmethod
    def in_file(cls, path: Path) -> KeptTypes:
        """The nodes and operators in a file. Each line has the name of a node, or OpType::Type.
        Raises FusioncError if the file cannot be read.
        """
        lines = [line.strip() for line in option_text(path, _OPTION, _HINT).splitlines()]
        written = [line for line in lines if line]
        types = {line.removeprefix(TYPE) for line in written if line.startswith(TYPE)}
        names = {line for line in written if not line.startswith(TYPE)}
        return cls(frozenset(names), frozenset(types))

    def find(self, model: onnx.ModelProto) -> list[str]:
        """Look up the nodes and operators in the model. Return a notice that names missing
        operators, and missing nodes in a list for many models. Raises UsageError if a node is
        missing in another list: a wrong name would silently change the precision.
        """
        self._types_in_model = {_label(node): node.op_type for node in nodes_of(model)}
        origins = filter(None, map(origin_of, nodes_of(model)))
        sources = {name for origin in origins for name in origin.sources}
        lost = sorted(self.names - self._types_in_model.keys() - sources)
        if lost and not _is_for_many.get():
            what = f"no node of the model has the name {lost[0]}"
            hint = advice(lost[0], self._types_in_model, _HINT)
            raise UsageError(what, where=_OPTION, hint=hint, code="E10016")
        known = {*self._types_in_model.values()}
        lost += [f"{TYPE}{op}" for op in sorted(self.types) if known.isdisjoint(onnx_operators(op))]
        return [f"{_OPTION}: the model does not have {', '.join(lost)}"] if lost else []

    def keeps(self, node: Node) -> bool:
        """Whether a node keeps its type: it is one of these nodes, or a pass made it from one."""
        labels = {node.label(), *sources_of(node)}
        known = labels & self._types_in_model.keys()
        types = {node.op, *(self._types_in_model[label] for label in known)}
        kept = {operator for type_ in self.types for operator in onnx_operators(type_)}
        return not labels.isdisjoint(self.names) or not types.isdisjoint(kept)

    def with_names(self, names: Iterable[str]) -> KeptTypes:
        """A copy with additional names of nodes."""
        return replace(self, names=self.names.union(names))

    def only(self, names: Iterable[str]) -> KeptTypes:
        """A copy with only these names of nodes."""
        return replace(self, names=frozenset(names), types=frozenset())

    def with_types(self, types: Iterable[str]) -> KeptTypes:
        """A copy with additional operators."""
        return replace(self, types=self.types.union(types))

    def name_of(self, product: Node) -> str:
        """The name that --keep_dtype must get so that `product`, a convolution or a matrix product,
        keeps its type: the name of the original node from which passes made `product`.
        """
        sources = [name for name in sources_of(product) if name in self._types_in_model]
        products = [name for name in sources if _multiplies(self._types_in_model[name])]
        return next(iter([*products, *sources]), product.label())


def sources_of(node: Node) -> tuple[str, ...]:
    """The names of the nodes from which passes made a node."""
    origin = origin_of(node.proto)
    return origin.sources if origin else ()


def _multiplies(op: str) -> bool:
    return any(word in op for word in ("Conv", "MatMul", "Gemm"))


def _label(node: onnx.NodeProto) -> str:
    """The name of a node. If it has none, the label by which messages name it."""
    first = next(filter(None, node.output), "")
    return node.name or f"{node.op_type}:{first}"
