"""From an area to loop nests: each output is asked for an element, and asks its operands in turn.

An output's own axes are the loops. Slices, transposes and the like only change the index that is asked for, so they
cost nothing; a Concat locations a loop into several, and a Reshape may split one into an outer and an inner loop.
What is asked for twice at the same index is computed once. Axes that are reduced are the row of a nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx

from fusionc.graph_kernel.lower.area_info import AreaInfo, KernelShape
from fusionc.graph_kernel.lower.c_types import CType
from fusionc.graph_kernel.lower.data_movement import DATA_MOVEMENT, broadcast_index, broadcast_shape
from fusionc.graph_kernel.lower.elementwise import ELEMENTWISE, Call
from fusionc.graph_kernel.lower.index import CutWanted, Index, SplitWanted, Variable, linear, of
from fusionc.graph_kernel.lower.reductions import REDUCTIONS
from fusionc.graph_kernel.lower.shape_operator import SHAPE
from fusionc.graph_kernel.lower.steps import Access, Reduction, Step, Steps
from fusionc.graph_kernel.lower.symbolic_sizes import ONE, Size, SizeSum, Unsupported, product

_MOST_NESTS = 16
_COMPUTED = REDUCTIONS | SHAPE


@dataclass(frozen=True)
class Store:
    """A step whose value is an element of an output."""

    access: Access
    step: Step


@dataclass(frozen=True)
class LoopNest:
    """A nest of loops: the `grid` in any order, and for each of its turns the `row`, which is empty if nothing is
    reduced. The stores name all steps that are needed.
    """

    grid: tuple[Variable, ...]
    row: tuple[Variable, ...]
    steps: Steps
    stores: tuple[Store, ...]


def infer_shapes(info: AreaInfo) -> None:
    """Find the sizes of all values from those of the inputs. Raises Unsupported where the area contradicts itself."""
    for number, name in enumerate(info.area.inputs):
        shape = []
        for axis, dim in enumerate(info.area.values[name].shape):
            known = info.declared(name, axis)
            if isinstance(dim, int) and dim >= 0:
                info.sizes.check(f"in[{number}][{axis}] == {dim}", "an input has another size than the model says")
            size = known or info.sizes.variable(f"in[{number}][{axis}]")
            if isinstance(dim, str):
                info.symbols.setdefault(dim, size)
                info.sizes.equal(size, info.sizes.variable(f"in[{number}][{axis}]"), "sizes differ that must be equal")
            shape.append(size)
        info.shapes[name] = tuple(shape)
    for node in info.area.nodes:
        for name, found in zip(node.output, _shapes_of(info, node), strict=False):
            if name:
                info.shapes[name] = _reconciled(info, name, found)


def _shapes_of(info: AreaInfo, node: onnx.NodeProto) -> list[KernelShape]:
    for table in (DATA_MOVEMENT, _COMPUTED):
        if node.op_type in table:
            return table[node.op_type][0](info, node)
    if node.op_type not in ELEMENTWISE:
        raise Unsupported(f"no kernel computes {node.op_type}")
    shapes = [info.shapes[name] for name in node.input if name]
    return [broadcast_shape(info, shapes)] * len(node.output)


def _reconciled(info: AreaInfo, name: str, found: KernelShape) -> KernelShape:
    """The sizes as the area declares them, checked when the kernel runs where that is not certain."""
    declared = info.area.values[name].shape
    if len(declared) != len(found):
        raise Unsupported(f"{name} has another rank than the area says")
    shape = []
    for axis, (dim, size) in enumerate(zip(declared, found, strict=True)):
        known = info.declared(name, axis)
        if known is not None:
            info.sizes.equal(size, known, "sizes differ that must be equal")
        elif isinstance(dim, str):
            info.symbols[dim] = size
        shape.append(size if known is None else known)
    return tuple(shape)


def loop_nests_of(info: AreaInfo) -> list[LoopNest]:
    """What a kernel computes, one loop nest after another."""
    nests: list[LoopNest] = []
    left = sorted(info.area.outputs, key=lambda name: _rank_of(info.shapes[name]), reverse=True)
    while left:
        main, *others = left
        loops = [Variable(size) for size in info.shapes[main]]
        at = tuple(of(v) if v.extent != ONE else Index() for v in loops)
        made, stored = _cut(info, main, others, at, [v for v in loops if v.extent != ONE])
        nests += made
        left = [name for name in others if name not in stored]
        if len(nests) > _MOST_NESTS:
            raise Unsupported("Concats cut this area into too many pieces")
    return nests


def _rank_of(shape: KernelShape) -> tuple[int, int]:
    """A larger iteration space has more loops."""
    return sum(size != ONE for size in shape), len(shape)


def _cut(
    info: AreaInfo, main: str, others: list[str], at: tuple[Index, ...], loops: list[Variable]
) -> tuple[list[LoopNest], list[str]]:
    """The nests that compute `main` at `at`, and which other outputs all of them could compute beside it."""
    lowering = Lowering(info, loops)
    try:
        step = lowering.at(main, at)
    except SplitWanted as wanted:
        _must_be_loop(wanted.variable, loops)
        inner = [Variable(size) for size in wanted.extents]
        whole = linear([of(v) for v in inner], wanted.extents)
        return _cut(info, main, others, _replaced(at, wanted.variable, whole), _instead(loops, wanted.variable, inner))
    except CutWanted as wanted:
        _must_be_loop(wanted.variable, loops)
        made, begin = list[LoopNest](), SizeSum()
        for size in wanted.extents:
            part = Variable(size)
            index = of(part).moved(begin) if size != ONE else Index(begin)
            rest = [part] if size != ONE else []
            nests, _ = _cut(
                info, main, [], _replaced(at, wanted.variable, index), _instead(loops, wanted.variable, rest)
            )
            made += nests
            begin += size
            if len(made) > _MOST_NESTS:
                break
        return made, []
    stores, stored = [lowering.store(main, at, step)], []
    for name in others:
        store = lowering.beside(name, main, at)
        if store is not None:
            stores.append(store)
            stored.append(name)
    row = lowering.row or ()
    grid = tuple(v for v in loops if v not in row)
    return [LoopNest(grid, row, lowering.steps, tuple(stores))], stored


def _must_be_loop(variable: Variable, loops: list[Variable]) -> None:
    if variable not in loops:
        raise Unsupported("it reduces over an axis that a Concat or a Reshape has made")


def _replaced(at: Sequence[Index], variable: Variable, index: Index) -> tuple[Index, ...]:
    return tuple(old.replaced({variable: index}) for old in at)


def _instead(loops: list[Variable], variable: Variable, new: list[Variable]) -> list[Variable]:
    return [v for old in loops for v in (new if old is variable else [old])]


class Lowering:
    """The elements of an area's values as steps, for one nest of loops."""

    def __init__(self, info: AreaInfo, loops: Sequence[Variable]) -> None:
        self.info, self.loops, self.steps = info, loops, Steps()
        self.row: tuple[Variable, ...] | None = None
        self._found: dict[tuple[str, tuple[Index, ...]], Step] = {}

    def at(self, name: str, at: Sequence[Index]) -> Step:
        """The element of a value at an index."""
        key = (name, tuple(at))
        if key not in self._found:
            self._found[key] = self._computed(name, tuple(at))
        return self._found[key]

    def _computed(self, name: str, at: tuple[Index, ...]) -> Step:
        info = self.info
        if name not in info.producers:
            array = info.area.constants.get(name)
            if array is not None and array.size and (array == array.flat[0]).all():
                return self.steps.literal(info.ctype(name), array.flat[0])
            return self.steps.load(info.ctype(name), Access(name, linear(at, info.shapes[name])))
        node, k = info.producers[name]
        if node.op_type in DATA_MOVEMENT:
            return self.at(*DATA_MOVEMENT[node.op_type][1](info, node, k, at))
        if node.op_type in _COMPUTED:
            return _COMPUTED[node.op_type][1](self, node, k, at)
        arguments = [self.broadcast(operand, info.shapes[name], at) if operand else None for operand in node.input]
        call = Call(self.steps, node, info.ctype(name), info.dtype(name), info.area.opset)
        return ELEMENTWISE[node.op_type](call, arguments)

    def broadcast(self, operand: str, whole: KernelShape, at: Sequence[Index]) -> Step:
        """The element of an operand that belongs to the element `at` of a whole shape."""
        return self.at(operand, broadcast_index(self.info, operand, whole, at))

    def over(
        self, name: str, at: Sequence[Index], axes: Sequence[int], reduction: Reduction, element: Callable[[Step], Step]
    ) -> Step:
        """A reduction over axes of a value; on the others the index is `at`."""
        shape = self.info.shapes[name]
        kept = frozenset[Variable]().union(*(at[a].variables for a in range(len(at)) if a not in axes))
        extents = [shape[axis] for axis in axes if shape[axis] != ONE]
        row = self._row(extents, kept) if extents else ()
        variables = iter(row)
        inside = list(at)
        for axis in axes:
            inside[axis] = of(next(variables)) if shape[axis] != ONE else Index()
        step = element(self.at(name, inside))
        if not row:
            return self.steps.op(
                step.ctype, reduction.combine, self.steps.op(step.ctype, reduction.start, cost=0), step
            )
        return self.steps.reduce(step.ctype, reduction, step, row)

    def _row(self, extents: list[Size], kept: frozenset[Variable]) -> tuple[Variable, ...]:
        """The variables of the row. All reductions of a nest go over the same one, so that they share passes."""
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

    def length(self, ctype: CType, name: str, axes: Sequence[int]) -> Step:
        """How many elements axes have together."""
        total = product(self.info.shapes[name][axis] for axis in axes)
        if total.number is not None:
            return self.steps.literal(ctype, float(total.number) if ctype.is_float else total.number)
        return self.steps.op(ctype, f"({ctype.local})length", cost=0)

    def store(self, name: str, at: Sequence[Index], step: Step) -> Store:
        return Store(Access(name, linear(at, self.info.shapes[name])), step)

    def beside(self, name: str, main: str, at: tuple[Index, ...]) -> Store | None:
        """Another output, if it can be computed in the loops of `main`, once for each of its elements."""
        shape, whole = self.info.shapes[name], self.info.shapes[main]
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

    def _covers(self, shape: KernelShape, place: Sequence[Index]) -> bool:
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
