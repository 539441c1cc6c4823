"""Draw a sketch as SVG. grandalf computes the layout: layers with few crossings of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from fusionc.errors import UsageError
from fusionc.operators.facts import Trait, operators_with
from fusionc.report.page.html_text import html_text
from fusionc.report.page.sketch import CONSTANT, OPERATOR, VALUE, Item, Sketch

_PACKAGES = {"grandalf": "computes its layout", "jinja2": "fills in its template"}
# lengths are in pixels
_CHARACTER_WIDTH = {OPERATOR: 7.4, VALUE: 6.1, CONSTANT: 6.1}  # on average
_SMALL_CHARACTER_WIDTH = 6.0
_LINE_HEIGHT = 13.0
_MAX_LENGTH = {OPERATOR: 34, VALUE: 24, CONSTANT: 24}  # characters
_MARGIN = 8.0
_GAP = 26.0  # between components, and between layers
# the colour of operators by their traits; if several colours fit, the last one counts
_KINDS = {
    "movement": (Trait.MOVES, Trait.CASTS, Trait.READS_SHAPE),
    "product": (Trait.CONVOLUTION, Trait.MATRIX_PRODUCT, Trait.WEIGHTED_SUMS, Trait.ATTENTION),
    "activation": (Trait.ACTIVATION, Trait.SOFTMAX),
    "norm": (Trait.NORM,),
    "quantization": (Trait.QUANTIZES, Trait.DEQUANTIZES),
}
_COLOURS = {
    name: kind for kind, traits in _KINDS.items() for _, name in operators_with(*traits)
} | {
    "BiasGelu": "activation",
    "Constant": "movement",
    "Erf": "activation",
    "FastGelu": "activation",
}


def kind_of_operator(name: str) -> str:
    """The kind of an operator, which gives its colour. `name` may begin with a domain."""
    return _COLOURS.get(name.rpartition(".")[2], "other")


def require_packages() -> None:
    """Raise UsageError if a package that a page needs is not installed."""
    for package, task in _PACKAGES.items():
        if find_spec(package) is None:
            hint = f"pip install 'fusionc[report]', or pip install {package}"
            what = f"--report needs the package {package}, which {task}"
            raise UsageError(what, where="--report", hint=hint, code="E10001")


def svg(sketch: Sketch, label: str) -> tuple[str, float]:
    """The drawing as an SVG element, and its width in pixels. `label` describes the drawing for
    screen readers.
    """
    boxes = [_Box(item) for item in sketch.items]
    paths, width, height = _laid_out(boxes, sketch.links)
    note = []
    if sketch.left_out:
        height += 20
        place = f'x="{width / 2:.0f}" y="{height - 8:.0f}"'
        note = [f'<text class="n" {place}>… and {sketch.left_out} more operators</text>']
        width = max(width, 190.0)
    ends = [(boxes[start], boxes[end]) for start, end in sketch.links]
    lines = [_line(path, *pair) for path, pair in zip(paths, ends, strict=True)]
    parts = [*lines, *(part for box in boxes for part in box.drawn()), *note]
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return f'<svg role="img" aria-label="{html_text(label)}" {size}>{"".join(parts)}</svg>', width


class _Box:
    """An item with its size and place. The layout sets `xy`, the centre of the box."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.title = _shortened(item.text, _MAX_LENGTH[item.kind])
        self.details = [_shortened(text, 30) for text in item.details if text]
        longest = max(
            [
                len(self.title) * _CHARACTER_WIDTH[item.kind],
                *(len(d) * _SMALL_CHARACTER_WIDTH for d in self.details),
            ]
        )
        self.w = longest + (20 if item.kind == OPERATOR else 10)
        self.h = _LINE_HEIGHT * (1 + len(self.details)) + (11 if item.kind == OPERATOR else 3)
        self.xy = (0.0, 0.0)

    def drawn(self) -> Iterator[str]:
        (x, y) = self.xy
        kind = self.item.kind
        colour = kind_of_operator(self.item.text) if kind == OPERATOR else kind
        top = y - self.h / 2
        full = f"<title>{html_text(self.item.text)}</title>" if self.title != self.item.text else ""
        yield f'<g class="{colour}">{full}'
        if kind != VALUE:
            corner = 5 if kind == OPERATOR else self.h / 2
            size = f'width="{self.w:.0f}" height="{self.h:.0f}" rx="{corner:.0f}"'
            yield f'<rect x="{x - self.w / 2:.1f}" y="{top:.1f}" {size}/>'
        first = top + (16 if kind == OPERATOR else 12)
        style = "t" if kind == OPERATOR else "v"
        yield f'<text class="{style}" x="{x:.1f}" y="{first:.1f}">{html_text(self.title)}</text>'
        for number, text in enumerate(self.details, 1):
            line = first + number * _LINE_HEIGHT
            yield f'<text class="d" x="{x:.1f}" y="{line:.1f}">{html_text(text)}</text>'
        yield "</g>"


class _Path:
    def setpath(self, points: list[tuple[float, float]]) -> None:
        """Store the points of a link. The layout calls this method."""
        self.points = points


def _laid_out(
    boxes: Sequence[_Box], links: Sequence[tuple[int, int]]
) -> tuple[list[_Path], float, float]:
    """Place the boxes, with components next to each other. Return the paths of the links, and the
    width and height of the drawing.
    """
    from grandalf.graphs import Edge, Graph, Vertex
    from grandalf.layouts import SugiyamaLayout

    vertices = [Vertex(box) for box in boxes]
    for vertex, box in zip(vertices, boxes, strict=True):
        vertex.view = box
    paths = [_Path() for _ in links]
    edges = [Edge(vertices[start], vertices[end]) for start, end in links]
    for edge, path in zip(edges, paths, strict=True):
        edge.view = path
    right = bottom = _MARGIN
    for component in Graph(vertices, edges, directed=True).C:
        layout: Any = SugiyamaLayout(component)
        layout.xspace = 16.0
        layout.yspace = _GAP
        layout.init_all()
        layout.draw()
        own = [vertex.view for vertex in component.sV]
        own_paths = [edge.view for edge in component.sE]
        width, height = _move_to(own, own_paths, right)
        right += width + _GAP
        bottom = max(bottom, _MARGIN + height)
    return paths, right - _GAP + _MARGIN, bottom + _MARGIN


def _move_to(boxes: Sequence[_Box], paths: Sequence[_Path], x: float) -> tuple[float, float]:
    """Move a component to the left edge `x` and to the top. Return its width and height."""
    crooked = [at for path in paths for at, _ in path.points[1:-1]]
    left = min([box.xy[0] - box.w / 2 for box in boxes] + crooked)
    right = max(
        [box.xy[0] + box.w / 2 for box in boxes] + [at for path in paths for at, _ in path.points]
    )
    top = min(box.xy[1] - box.h / 2 for box in boxes)
    bottom = max(box.xy[1] + box.h / 2 for box in boxes)
    moved: list[_Box | _Path] = [*boxes, *paths]
    for item in moved:
        _shift(item, x - left, _MARGIN - top)
    return right - left, bottom - top


def _shift(item: _Box | _Path, x: float, y: float) -> None:
    if isinstance(item, _Box):
        item.xy = (item.xy[0] + x, item.xy[1] + y)
    else:
        item.points = [(a + x, b + y) for a, b in item.points]


def _line(path: _Path, start: _Box, end: _Box) -> str:
    """The line of a link: from the lower edge of a box, through the points of the layout, to the
    upper edge of another box.
    """
    points = [
        (start.xy[0], start.xy[1] + start.h / 2),
        *path.points[1:-1],
        (end.xy[0], end.xy[1] - end.h / 2 - 2),
    ]
    text = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        text += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
    return f'<path d="{text}"/>'


def _shortened(text: str, most: int) -> str:
    """The text, or only its end if it is too long. Names of values begin with the names of modules,
    so they differ at their ends.
    """
    return text if len(text) <= most else f"…{text[1 - most :]}"
