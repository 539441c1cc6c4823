"""From an area to pieces: each output is asked for an element, and asks its operands in turn.

An output's own axes are the loops. Slices, transposes and the like only change the index that is asked for, so they
cost nothing; a Concat cuts a loop into several, and a Reshape may split one into an outer and an inner loop.
What is asked for twice at the same index is computed once. Axes that are reduced are the row of a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.kernels.addressing import ADDRESSING, broadcast_index, broadcast_shape
from fusionc.graph_kernel.kernels.elementwise import ELEMENTWISE, Call
from fusionc.graph_kernel.kernels.index import CutWanted, Index, SplitWanted, Variable, linear, of
from fusionc.graph_kernel.kernels.kinds import Kind
from fusionc.graph_kernel.kernels.reductions import REDUCTIONS
from fusionc.graph_kernel.kernels.shape import SHAPE
from fusionc.graph_kernel.kernels.sizes import ONE, Size, Sum, Unsupported, product
from fusionc.graph_kernel.kernels.steps import Access, Reduction, Step, Steps
from fusionc.graph_kernel.kernels.view import Shape, View

_MOST_PIECES = 16
_COMPUTED = REDUCTIONS | SHAPE


@dataclass(frozen=True)
class Store:
    """A step whose value is an element of an output."""

    access: Access
    step: Step


@dataclass(frozen=True)
class Piece:
    """A nest of loops: the `grid` in any order, and for each of its turns the `row`, which is empty if nothing is
    reduced. The stores name all steps that are needed.
    """

    grid: tuple[Variable, ...]
    row: tuple[Variable, ...]
    steps: Steps
    stores: tuple[Store, ...]


def infer_shapes(view: View) -> None:
    """Find the sizes of all values from those of the inputs. Raises Unsupported where the area contradicts itself."""
    for number, name in enumerate(view.area.inputs):
        shape = []
        for axis, dim in enumerate(view.area.values[name].shape):
            known = view.declared(name, axis)
            if isinstance(dim, int) and dim >= 0:
                view.sizes.check(f"in[{number}][{axis}] == {dim}", "an input has another size than the model says")
            size = known or view.sizes.variable(f"in[{number}][{axis}]")
            if isinstance(dim, str):
                view.symbols.setdefault(dim, size)
                view.sizes.equal(size, view.sizes.variable(f"in[{number}][{axis}]"), "sizes differ that must be equal")
            shape.append(size)
        view.shapes[name] = tuple(shape)
    for node in view.area.nodes:
        for name, found in zip(node.output, _shapes_of(view, node), strict=False):
            if name:
                view.shapes[name] = _reconciled(view, name, found)


def _shapes_of(view: View, node: onnx.NodeProto) -> list[Shape]:
    for table in (ADDRESSING, _COMPUTED):
        if node.op_type in table:
            return table[node.op_type][0](view, node)
    if node.op_type not in ELEMENTWISE:
        raise Unsupported(f"no kernel computes {node.op_type}")
    shapes = [view.shapes[name] for name in node.input if name]
    return [broadcast_shape(view, shapes)] * len(node.output)


def _reconciled(view: View, name: str, found: Shape) -> Shape:
    """The sizes as the area declares them, checked when the kernel runs where that is not certain."""
    declared = view.area.values[name].shape
    if len(declared) != len(found):
        raise Unsupported(f"{name} has another rank than the area says")
    shape = []
    for axis, (dim, size) in enumerate(zip(declared, found, strict=True)):
        known = view.declared(name, axis)
        if known is not None:
            view.sizes.equal(size, known, "sizes differ that must be equal")
        elif isinstance(dim, str):
            view.symbols[dim] = size
        shape.append(size if known is None else known)
    return tuple(shape)


def pieces_of(view: View) -> list[Piece]:
    """What a kernel computes, one piece after another."""
    pieces: list[Piece] = []
    left = sorted(view.area.outputs, key=lambda name: _rank_of(view.shapes[name]), reverse=True)
    while left:
        main, *others = left
        loops = [Variable(size) for size in view.shapes[main]]
        at = tuple(of(v) if v.extent != ONE else Index() for v in loops)
        made, stored = _cut(view, main, others, at, [v for v in loops if v.extent != ONE])
        pieces += made
        left = [name for name in others if name not in stored]
        if len(pieces) > _MOST_PIECES:
            raise Unsupported("Concats cut this area into too many pieces")
    return pieces


def _rank_of(shape: Shape) -> tuple[int, int]:
    """A larger iteration space has more loops."""
    return sum(size != ONE for size in shape), len(shape)


def _cut(
    view: View, main: str, others: list[str], at: tuple[Index, ...], loops: list[Variable]
) -> tuple[list[Piece], list[str]]:
    """The pieces that compute `main` at `at`, and which other outputs all of them could compute beside it."""
    pull = Pull(view, loops)
    try:
        step = pull.at(main, at)
    except SplitWanted as wanted:
        _must_be_loop(wanted.variable, loops)
        inner = [Variable(size) for size in wanted.extents]
        whole = linear([of(v) for v in inner], wanted.extents)
        return _cut(view, main, others, _replaced(at, wanted.variable, whole), _instead(loops, wanted.variable, inner))
    except CutWanted as wanted:
        _must_be_loop(wanted.variable, loops)
        made, begin = list[Piece](), Sum()
        for size in wanted.extents:
            part = Variable(size)
            index = of(part).moved(begin) if size != ONE else Index(begin)
            rest = [part] if size != ONE else []
            pieces, _ = _cut(
                view, main, [], _replaced(at, wanted.variable, index), _instead(loops, wanted.variable, rest)
            )
            made += pieces
            begin += size
            if len(made) > _MOST_PIECES:
                break
        return made, []
    stores, stored = [pull.store(main, at, step)], []
    for name in others:
        store = pull.beside(name, main, at)
        if store is not None:
            stores.append(store)
            stored.append(name)
    row = pull.row or ()
    grid = tuple(v for v in loops if v not in row)
    return [Piece(grid, row, pull.steps, tuple(stores))], stored


def _must_be_loop(variable: Variable, loops: list[Variable]) -> None:
    if variable not in loops:
        raise Unsupported("it reduces over an axis that a Concat or a Reshape has made")


def _replaced(at: Sequence[Index], variable: Variable, index: Index) -> tuple[Index, ...]:
    return tuple(old.replaced({variable: index}) for old in at)


def _instead(loops: list[Variable], variable: Variable, new: list[Variable]) -> list[Variable]:
    return [v for old in loops for v in (new if old is variable else [old])]


class Pull:
    """The elements of an area's values as steps, for one nest of loops."""

    def __init__(self, view: View, loops: Sequence[Variable]) -> None:
        self.view, self.loops, self.steps = view, loops, Steps()
        self.row: tuple[Variable, ...] | None = None
        self._found: dict[tuple[str, tuple[Index, ...]], Step] = {}

    def at(self, name: str, at: Sequence[Index]) -> Step:
        """The element of a value at an index."""
        key = (name, tuple(at))
        if key not in self._found:
            self._found[key] = self._computed(name, tuple(at))
        return self._found[key]

    def _computed(self, name: str, at: tuple[Index, ...]) -> Step:
        view = self.view
        if name not in view.producers:
            array = view.area.constants.get(name)
            if array is not None and array.size and (array == array.flat[0]).all():
                return self.steps.literal(view.kind(name), array.flat[0])
            return self.steps.load(view.kind(name), Access(name, linear(at, view.shapes[name])))
        node, k = view.producers[name]
        if node.op_type in ADDRESSING:
            return self.at(*ADDRESSING[node.op_type][1](view, node, k, at))
        if node.op_type in _COMPUTED:
            return _COMPUTED[node.op_type][1](self, node, k, at)
        arguments = [self.broadcast(operand, view.shapes[name], at) if operand else None for operand in node.input]
        call = Call(self.steps, node, view.kind(name), view.dtype(name), view.area.opset)
        return ELEMENTWISE[node.op_type](call, arguments)

    def broadcast(self, operand: str, whole: Shape, at: Sequence[Index]) -> Step:
        """The element of an operand that belongs to the element `at` of a whole shape."""
        return self.at(operand, broadcast_index(self.view, operand, whole, at))

    def over(
        self, name: str, at: Sequence[Index], axes: Sequence[int], reduction: Reduction, element: Callable[[Step], Step]
    ) -> Step:
        """A reduction over axes of a value; on the others the index is `at`."""
        shape = self.view.shapes[name]
        kept = frozenset[Variable]().union(*(at[a].variables for a in range(len(at)) if a not in axes))
        extents = [shape[axis] for axis in axes if shape[axis] != ONE]
        row = self._row(extents, kept) if extents else ()
        variables = iter(row)
        inside = list(at)
        for axis in axes:
            inside[axis] = of(next(variables)) if shape[axis] != ONE else Index()
        step = element(self.at(name, inside))
        if not row:
            return self.steps.op(step.kind, reduction.combine, self.steps.op(step.kind, reduction.start, cost=0), step)
        return self.steps.reduce(step.kind, reduction, step, row)

    def _row(self, extents: list[Size], kept: frozenset[Variable]) -> tuple[Variable, ...]:
        """The variables of the row. All reductions of a piece go over the same one, so that they share passes."""
        if self.row is not None:
            if [v.extent for v in self.row] != extents or kept & set(self.row):
                raise Unsupported("its reductions go over different axes")
            return self.row
        free = [v for v in self.loops if v not in kept]
        chosen: list[Variable] = []
        for extent in reversed(extents):
            last = self.loops.index(chosen[0]) if chosen and chosen[0] in self.loops else len(self.loops)
            fitting = [v for v in free if v.extent == extent and self.loops.index(v) < last]
            chosen.insert(0, fitting[-1] if fitting else Variable(extent))
        self.row = tuple(chosen)
        return self.row

    def length(self, kind: Kind, name: str, axes: Sequence[int]) -> Step:
        """How many elements axes have together."""
        total = product(self.view.shapes[name][axis] for axis in axes)
        if total.number is not None:
            return self.steps.literal(kind, float(total.number) if kind.is_float else total.number)
        return self.steps.op(kind, f"({kind.local})length", cost=0)

    def store(self, name: str, at: Sequence[Index], step: Step) -> Store:
        return Store(Access(name, linear(at, self.view.shapes[name])), step)

    def beside(self, name: str, main: str, at: tuple[Index, ...]) -> Store | None:
        """Another output, if it can be computed in the loops of `main`, once for each of its elements."""
        shape, whole = self.view.shapes[name], self.view.shapes[main]
        places = [place for known, place in self._found if known == name]
        if shape == whole:
            places.insert(0, at)
        elif len(shape) == len(whole) and all(n in (ONE, m) for n, m in zip(shape, whole, strict=True)):
            places.insert(0, tuple(Index() if n == ONE else i for n, i in zip(shape, at, strict=True)))
        for place in places:
            before = self._found.copy(), self.steps.copy(), self.row
            try:
                step = self.at(name, place)
                if self._covers(shape, place):
                    return self.store(name, place, step)
            except (Unsupported, CutWanted, SplitWanted):
                pass
            self._found, self.steps, self.row = before
        return None

    def _covers(self, shape: Shape, place: Sequence[Index]) -> bool:
        """Whether the loops visit every element of a shape once."""
        row = frozenset(self.row or ())
        total = linear(place, shape)
        used = total.variables
        if used & row and not used >= row:
            return False
        if total.offset.parts or not used >= set(self.loops) - row:
            return False
        reach = ONE
        for variable, factor in total.digits:
            if factor != reach:
                return False
            reach *= variable.extent
        return reach == product(shape)
