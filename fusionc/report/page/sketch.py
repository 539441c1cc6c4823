"""A few operators as a graph that can be drawn: boxes for operators, names for the values that go
in and come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx

from fusionc.model.graph import Edge, Node
from fusionc.model.operators import attribute_default, decode_attribute, short_name
from fusionc.shapes.expressions import Element, atoms, is_invented

OPERATOR = "operator"
VALUE = "value"
CONSTANT = "constant"
_MOST_NODES = 28
_MOST_DETAILS = 3  # lines below an operator
_LONGEST_DETAIL = 26  # characters


@dataclass(frozen=True)
class Item:
    """An item of a drawing: an operator with its constants and attributes as `details`, a value, or
    a constant.
    """

    kind: str
    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sketch:
    """Items, and links between their numbers. `left_out` nodes are too many to be drawn."""

    items: tuple[Item, ...]
    links: tuple[tuple[int, int], ...]
    left_out: int = 0

    @property
    def form(self) -> object:
        """The form of a sketch, without names, sizes and attributes."""
        kinds = tuple(
            (item.kind, item.text if item.kind == OPERATOR else "") for item in self.items
        )
        return kinds, self.links, self.left_out


def sketch_of(nodes: Sequence[Node], results: Sequence[tuple[Edge, str]]) -> Sketch:
    """Draw nodes, and the values that come out of them under the given names. It reads only what
    the graph knows already, so that drawing changes nothing.
    """
    sketcher = _Sketcher(nodes)
    for at, node in enumerate(sketcher.drawn):
        for value in dict.fromkeys(node.inputs):
            if value is not None and not value.is_constant:
                sketcher.link_input(value, at)
    for value, name in results:
        sketcher.add_result(value, name)
    links = tuple(dict.fromkeys(sketcher.links))
    return Sketch(tuple(sketcher.items), links, len(nodes) - len(sketcher.drawn))


class _Sketcher:
    """Puts a sketch together."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.drawn = nodes[:_MOST_NODES]
        self.items = list(map(_operator, self.drawn))
        self.links = list[tuple[int, int]]()
        self._hidden = {value for node in nodes[_MOST_NODES:] for value in node.outputs}
        self._place: dict[Edge, int] = {  # the number of the item that shows a value
            value: at
            for at, node in enumerate(self.drawn)
            for value in node.outputs
            if value is not None
        }

    def link_input(self, value: Edge, reader: int) -> None:
        """Draw a value that goes into the operator of this number."""
        if value not in self._hidden:
            self._add(value, Item(VALUE, value.name, (_shape_text(value),)))
            self.links.append((self._place[value], reader))

    def add_result(self, value: Edge, name: str) -> None:
        """Draw a value that comes out."""
        if value in self._hidden:
            return
        shape = _shape_text(value)
        is_new = value.graph.values.get(value.name) is not value
        text = "new constant" if is_new and value.is_constant else value.name
        self._add(value, Item(CONSTANT if value.is_constant else VALUE, text, (shape,)))
        self.links.append((self._place[value], len(self.items)))
        self.items.append(Item(VALUE, name, (shape,)))

    def _add(self, value: Edge, item: Item) -> None:
        """Draw a value, unless an item shows it already."""
        if value not in self._place:
            self._place[value] = len(self.items)
            self.items.append(item)


def _operator(node: Node) -> Item:
    details = [*_attributes(node), *_constants(node)]
    more = [f"and {len(details) - _MOST_DETAILS + 1} more"] if len(details) > _MOST_DETAILS else []
    return Item(
        OPERATOR, short_name(node.op, node.domain), (*details[: _MOST_DETAILS - len(more)], *more)
    )


def _constants(node: Node) -> Iterator[str]:
    for value in node.inputs:
        if value is not None and value.is_constant:
            yield f"const {_shape_text(value)}".rstrip()


def _attributes(node: Node) -> Iterator[str]:
    for attribute in node.proto.attribute:
        if attribute.ref_attr_name or attribute.type not in _SHOWN:
            continue
        shown = decode_attribute(attribute)
        if shown == attribute_default(
            node.op, node.domain, node.graph.opset_of(node.domain), attribute.name
        ):
            continue
        if isinstance(shown, float):
            shown = f"{shown:.4g}"
        elif isinstance(shown, list):
            shown = ",".join(map(str, shown))
        text = f"{attribute.name}={shown}"
        if len(text) <= _LONGEST_DETAIL:
            yield text


_SHOWN = (
    onnx.AttributeProto.FLOAT,
    onnx.AttributeProto.INT,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.STRING,
)


def _shape_text(value: Edge) -> str:
    """The shape as far as it is known already: 1×3×224×224."""
    shape = value.known_type.shape
    if shape is None:
        return ""
    return "×".join(map(_dimension_text, shape)) or "scalar"


def _dimension_text(dim: Element | None) -> str:
    """A number, or a name that comes from the model."""
    if dim is None or is_invented(dim) or (isinstance(dim, str) and list(atoms(dim)) != [dim]):
        return "?"
    return str(dim)
