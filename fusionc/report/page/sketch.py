"""A sketch of a few nodes: a graph of items to draw. Items are operators and their inputs and
outputs.
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
_MAX_NODES = 28
_MAX_DETAILS = 3  # lines below an operator
_MAX_DETAIL_LENGTH = 26  # characters


@dataclass(frozen=True)
class Item:
    """An item of a drawing: an operator, a value or a constant. The details of an operator are its
    attributes and constants; the details of a value or a constant are its shape.
    """

    kind: str
    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sketch:
    """Items, and links between the indices of items. `left_out` is the number of nodes that are not
    drawn because there are too many.
    """

    items: tuple[Item, ...]
    links: tuple[tuple[int, int], ...]
    left_out: int = 0

    @property
    def form(self) -> object:
        """A key that is equal for sketches that differ only in names, sizes and attributes."""
        kinds = tuple(
            (item.kind, item.text if item.kind == OPERATOR else "") for item in self.items
        )
        return kinds, self.links, self.left_out


def sketch_of(nodes: Sequence[Node], results: Sequence[tuple[Edge, str]]) -> Sketch:
    """The sketch of these nodes. `results` are their output values with the names to show. A shape
    is shown only if it is already known, because this function must not start shape inference.
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
    """Builds a sketch."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.drawn = nodes[:_MAX_NODES]
        self.items = list(map(_operator, self.drawn))
        self.links = list[tuple[int, int]]()
        self._hidden = {value for node in nodes[_MAX_NODES:] for value in node.outputs}
        self._place: dict[Edge, int] = {  # for each value, the index of the item that shows it
            value: at
            for at, node in enumerate(self.drawn)
            for value in node.outputs
            if value is not None
        }

    def link_input(self, value: Edge, reader: int) -> None:
        """Draw an input value of the operator with the index `reader`."""
        if value not in self._hidden:
            self._add(value, Item(VALUE, value.name, (_shape_text(value),)))
            self.links.append((self._place[value], reader))

    def add_result(self, value: Edge, name: str) -> None:
        """Draw an output value, and after it an item with this name."""
        if value in self._hidden:
            return
        shape = _shape_text(value)
        is_new = value.graph.values.get(value.name) is not value
        text = "new constant" if is_new and value.is_constant else value.name
        self._add(value, Item(CONSTANT if value.is_constant else VALUE, text, (shape,)))
        self.links.append((self._place[value], len(self.items)))
        self.items.append(Item(VALUE, name, (shape,)))

    def _add(self, value: Edge, item: Item) -> None:
        """Add an item for a value, unless another item already shows the value."""
        if value not in self._place:
            self._place[value] = len(self.items)
            self.items.append(item)


def _operator(node: Node) -> Item:
    details = [*_attributes(node), *_constants(node)]
    more = [f"and {len(details) - _MAX_DETAILS + 1} more"] if len(details) > _MAX_DETAILS else []
    return Item(
        OPERATOR, short_name(node.op, node.domain), (*details[: _MAX_DETAILS - len(more)], *more)
    )


def _constants(node: Node) -> Iterator[str]:
    for value in node.inputs:
        if value is not None and value.is_constant:
            yield f"const {_shape_text(value)}".rstrip()


def _attributes(node: Node) -> Iterator[str]:
    for attribute in node.proto.attribute:
        if attribute.ref_attr_name or attribute.type not in _SIMPLE_TYPES:
            continue
        value = decode_attribute(attribute)
        if value == attribute_default(
            node.op, node.domain, node.graph.opset_of(node.domain), attribute.name
        ):
            continue
        if isinstance(value, float):
            value = f"{value:.4g}"
        elif isinstance(value, list):
            value = ",".join(map(str, value))
        text = f"{attribute.name}={value}"
        if len(text) <= _MAX_DETAIL_LENGTH:
            yield text


_SIMPLE_TYPES = (
    onnx.AttributeProto.FLOAT,
    onnx.AttributeProto.INT,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.STRING,
)


def _shape_text(value: Edge) -> str:
    """The known shape as text: 1×3×224×224."""
    shape = value.known_type.shape
    if shape is None:
        return ""
    return "×".join(map(_dimension_text, shape)) or "scalar"


def _dimension_text(dim: Element | None) -> str:
    """A size, or a symbol of the model, or "?"."""
    if dim is None or is_invented(dim) or (isinstance(dim, str) and list(atoms(dim)) != [dim]):
        return "?"
    return str(dim)
