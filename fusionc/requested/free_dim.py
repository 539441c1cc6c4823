"""--free_dim "x:0;mask:0": fixed sizes of inputs become symbolic, unless something in the model
depends on them.

Sizes that follow from them become symbolic, too, in the outputs and in the declarations of other
values. A Reshape to a constant shape follows its input from then on, if the sizes leave only one
reading of that shape. If something else holds a size, the model stays as it is, and the error says
what holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from onnx import GraphProto, ModelProto, TensorShapeProto, ValueInfoProto

from fusionc.errors import UsageError, advice
from fusionc.model.graph import Shape
from fusionc.protos import fresh_name, graphs_in, initialized, inputs_to_feed, shapeless
from fusionc.requested.dimension_names import DimensionNames
from fusionc.requested.dimension_size import DimensionSize
from fusionc.requested.held_sizes import Shapes, TwoSizes, give_shapes, shapes_only
from fusionc.runtime.run_errors import RunError

_OPTION = "--free_dim"
_OPEN = 2  # the size of other open dimensions in a run

# symbols by input name and axis; "" lets one be chosen
FreeDims = Mapping[str, Mapping[int, str]]
_Size = int | str | None  # of a dimension: a number, a symbol, or unknown
OtherSizes = Mapping[str, Mapping[int, DimensionSize]]  # by input name and axis


class Freed:
    """What became symbolic in a model: the `sizes` that it had, by input name and axis, its new
    declarations, and the new constant shapes of Reshapes.
    """

    def __init__(
        self, model: ModelProto, sizes: Mapping[str, Mapping[int, int]], shapes: Shapes
    ) -> None:
        self.sizes = sizes
        self._shapes = shapes
        self._declared = [
            GraphProto(input=graph.input, output=graph.output, value_info=graph.value_info)
            for graph in graphs_in(model.graph)
        ]

    def again(self, model: ModelProto) -> None:
        """Change the same model, read once more, in the same way, without a search for what holds
        its sizes.
        """
        for graph, declared in zip(graphs_in(model.graph), self._declared, strict=True):
            for name in ("input", "output", "value_info"):
                graph.ClearField(name)
                getattr(graph, name).extend(getattr(declared, name))
        give_shapes(model, self._shapes)
        _forget_in_functions(model)


def free_sizes(
    model: ModelProto, free_dim: FreeDims, others: OtherSizes = MappingProxyType({})
) -> Freed:
    """Make these dimensions symbolic, and those that are to have `others` as sizes; return what
    they were. Raises UsageError if an input or axis does not exist or is not fixed, if a symbol is
    not a name or is given for several sizes, and if something holds a size, which it names.
    """
    wanted = {
        name: {**dict.fromkeys(others.get(name, ()), ""), **free_dim.get(name, {})}
        for name in {**free_dim, **others}
    }
    dims = {name: _dims_of(model, name, axes) for name, axes in wanted.items()}
    sizes = {
        name: {axis: dim.dim_value for axis, dim in found.items()} for name, found in dims.items()
    }
    _require_names(wanted)
    _require_one_size_each(wanted, sizes)
    light = shapes_only(model)
    weights = initialized(model.graph)
    twice = TwoSizes(light, weights, _doubled(sizes))
    holders = twice.holders()
    held = holders.fixed
    if holders.correctable and not held:
        give_shapes(light, holders.shapes)
        twice = TwoSizes(light, weights, _doubled(sizes))
        again = twice.holders()
        held = [*again.fixed, *again.correctable]
    _require_nothing_held(held, sizes, "--input_shape" if others else _OPTION)
    symbols = _symbols(model, wanted, sizes, others)
    found = TwoSizes(light, weights, symbols)
    former = {
        symbol: sizes[name][axis] for name, axes in symbols.items() for axis, symbol in axes.items()
    }
    names = DimensionNames(model, light, weights, sizes, found)
    _open_declarations(model, found, twice, former, names)
    _forget_in_functions(model)
    for name, axes in symbols.items():
        for axis, symbol in axes.items():
            dims[name][axis].dim_param = symbol
    give_shapes(model, holders.shapes)
    return Freed(model, sizes, holders.shapes)


def _require_nothing_held(
    held: Sequence[str], sizes: Mapping[str, Mapping[int, int]], option: str
) -> None:
    """Raise UsageError if the model holds a size in these places."""
    if held:
        count = "one place" if len(held) == 1 else f"{len(held)} places"
        places = ", ".join(
            f"{name}[{axis}] = {size}"
            for name, axes in sizes.items()
            for axis, size in axes.items()
        )
        what = f"{places} cannot become another size: the model holds it in {count}"
        hint = (
            "export the model with this dimension dynamic, or correct these places; there may be "
            "others behind them"
        )
        raise UsageError(what, where=option, hint=hint, code="E10001", details=held)


def _open_declarations(
    model: ModelProto,
    symbolic: TwoSizes,
    twice: TwoSizes,
    former: Mapping[str, int],
    names: DimensionNames,
) -> None:
    """Remove from all declarations what held for the former sizes only. `symbolic` has the shapes
    with symbols, `twice` those at twice the sizes.
    """
    for number, graph in enumerate(graphs_in(model.graph)):
        before, after, doubled = (
            at.graphs[number].values for at in (symbolic.before, symbolic.after, twice.after)
        )
        for info in (*graph.value_info, *graph.output):
            if info.name in symbolic.reached and info.name in before:
                kept = names.still_true(number, info)
                shapes = (before[info.name].shape, after[info.name].shape, doubled[info.name].shape)
                _open(info, *shapes, former, kept)


def _forget_in_functions(model: ModelProto) -> None:
    for function in model.functions:
        del function.value_info[:]  # the types of each call are inferred there


def require_runs(file: Path, sizes: Mapping[str, Mapping[int, int]]) -> None:
    """Raise UsageError if the changed model runs with the sizes that it had, but not with twice
    these.
    """
    failed = failure(file, _doubled(sizes))
    if failed and not failure(file, sizes):
        what = f"the model does not run with another size: {failed}"
        hint = "export the model with this dimension dynamic; the message names the node"
        raise UsageError(what, where=_OPTION, hint=hint, code="E10001")


def failure(file: Path, sizes: Mapping[str, Mapping[int, int]]) -> str:
    """Why a model does not run with these sizes of open dimensions, by input name and axis; empty
    if it does, or if no values are known to run it with.
    """
    from fusionc.verify.inputs.search import InputSearch  # few conversions need them
    from fusionc.verify.model_file import ModelFile

    source = ModelFile(file)
    try:
        model = source.proto()
        runner = source.runner()
    except RunError as error:
        return str(error)
    dims = {
        value.name: value.type.tensor_type.shape.dim
        for value in model.graph.input
        if value.name in sizes
    }
    symbols = {
        dims[name][axis].dim_param: size
        for name, axes in sizes.items()
        for axis, size in axes.items()
    }
    symbols.pop("", None)  # dimensions that another one of that symbol has fixed
    shapes = {
        name: tuple(
            dim.dim_value if dim.HasField("dim_value") else symbols.get(dim.dim_param, _OPEN)
            for dim in found
        )
        for name, found in dims.items()
    }
    search = InputSearch(runner, model, source.folder, shapes)
    runs = next(search.samples((0,), False), None) is not None
    runner.close()
    return "" if runs else search.first_error


def _doubled(sizes: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    return {name: {axis: 2 * size for axis, size in axes.items()} for name, axes in sizes.items()}


def _dims_of(
    model: ModelProto, name: str, axes: Mapping[int, str]
) -> dict[int, TensorShapeProto.Dimension]:
    inputs = {value.name: value.type.tensor_type.shape.dim for value in inputs_to_feed(model.graph)}
    if name not in inputs:
        hint = advice(name, inputs, f"its inputs are: {', '.join(inputs)}")
        raise UsageError(f"the model has no input {name}", where=_OPTION, hint=hint, code="E10016")
    dims = {}
    for axis in axes:
        if not 0 <= axis < len(inputs[name]):
            hint = f"it has {len(inputs[name])} dimensions, which count from 0"
            raise UsageError(
                f"{name} has no dimension {axis}", where=_OPTION, hint=hint, code="E10001"
            )
        dims[axis] = inputs[name][axis]
        if dims[axis].dim_value < 1:
            hint = "leave it out; --input_shape fixes one"
            raise UsageError(
                f"{name}[{axis}] is not fixed in the model", where=_OPTION, hint=hint, code="E10001"
            )
    return dims


def _require_names(symbols: FreeDims) -> None:
    """Raise UsageError if a symbol would be read as a number or a formula."""
    for name, axes in symbols.items():
        for axis, symbol in axes.items():
            if symbol and not symbol.isidentifier():
                hint = "give a name, as in x:0=batch; --input_shape gives sizes"
                raise UsageError(
                    f"{name}[{axis}] cannot be called {symbol}",
                    where=_OPTION,
                    hint=hint,
                    code="E10001",
                )


def _require_one_size_each(given: FreeDims, sizes: Mapping[str, Mapping[int, int]]) -> None:
    """Raise UsageError if dimensions of different sizes are given the same symbol."""
    known: dict[str, int] = {}
    for name, axes in given.items():
        for axis, symbol in axes.items():
            size = sizes[name][axis]
            if symbol and known.setdefault(symbol, size) != size:
                what = (
                    f"{symbol} cannot stand for {known[symbol]} and for {size}, which is "
                    f"{name}[{axis}]"
                )
                hint = "equal symbols mean equal sizes; give another one"
                raise UsageError(what, where=_OPTION, hint=hint, code="E10001")


def _symbols(
    model: ModelProto, wanted: FreeDims, sizes: Mapping[str, Mapping[int, int]], others: OtherSizes
) -> dict[str, dict[int, str]]:
    """The symbols of all freed dimensions. Equal sizes at the same axis of several inputs share
    one, if they also get equal sizes.
    """

    def kind(name: str, axis: int) -> tuple[int, int, str]:
        return axis, sizes[name][axis], str(others.get(name, {}).get(axis, ""))

    taken = dict.fromkeys(
        (dim.dim_param for info in model.graph.input for dim in info.type.tensor_type.shape.dim), 1
    )
    taken |= dict.fromkeys((symbol for axes in wanted.values() for symbol in axes.values()), 1)
    kinds = sorted({kind(name, axis) for name, axes in wanted.items() for axis in axes})
    chosen = {one: fresh_name("batch" if one[0] == 0 else f"dim_{one[0]}", taken) for one in kinds}
    return {
        name: {axis: symbol or chosen[kind(name, axis)] for axis, symbol in axes.items()}
        for name, axes in wanted.items()
    }


def _open(
    info: ValueInfoProto,
    before: Shape | None,
    after: Shape | None,
    doubled: Shape | None,
    former: Mapping[str, int],
    kept: Collection[int],
) -> None:
    """Remove from a declaration what held for the former sizes only, and put a symbol there if one
    is known. `kept` are the axes whose names hold for any size.
    """
    dims = info.type.tensor_type.shape.dim  # empty for a sequence, whose sizes are unknown
    if before is None or after is None or not len(dims) == len(before) == len(after):
        info.type.CopyFrom(shapeless(info.type))
        return
    if doubled is None or len(doubled) != len(dims):
        doubled = (None,) * len(dims)
    sizes = zip(before, after, doubled, strict=True)
    symbols = [_symbol_of(*three, former) for three in sizes]
    for axis, (dim, symbol) in enumerate(zip(dims, symbols, strict=True)):
        holds = axis in kept or after[axis] == dim.dim_param
        if symbol:
            dim.dim_param = symbol
        elif not (holds or _is_same_size(before[axis], after[axis])):
            dim.Clear()


def _symbol_of(size: _Size, size_now: _Size, size_doubled: _Size, former: Mapping[str, int]) -> str:
    """The symbol of a dimension: the inferred one, or the only one that fits both its former size
    and its size at twice the sizes; else empty.
    """
    if size_now in former:
        return str(size_now)
    fitting = [name for name, was in former.items() if was == size and size_doubled == 2 * was]
    return fitting[0] if len(fitting) == 1 else ""


def _is_same_size(former: _Size, now: _Size) -> bool:
    return isinstance(former, int) and now == former
