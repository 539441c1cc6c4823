"""--free_dim "x:0;mask:0": make fixed input sizes symbolic.

Sizes that follow from these sizes also become symbolic, in the outputs and in the declarations of
other values. If the constant shape of a Reshape can be interpreted in only one way, the Reshape is
changed to follow the size of its input. If any other node holds a size, that is, needs exactly this
size, the model is not changed, and the error names the node.
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
_OPEN = 2  # in a run, the size of the open dimensions that are not in --free_dim

# new symbols by input name and axis; "" lets fusionc choose the symbol
FreeDims = Mapping[str, Mapping[int, str]]
_Size = int | str | None  # the size of a dimension: a number, a symbol, or unknown
OtherSizes = Mapping[str, Mapping[int, DimensionSize]]  # by input name and axis


class Freed:
    """What `free_sizes` changed in a model: the former `sizes` by input name and axis, the new
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
        """Apply the same change to another copy of the model, without searching for nodes that hold
        sizes.
        """
        for graph, declared in zip(graphs_in(model.graph), self._declared, strict=True):
            for name in ("input", "output", "value_info"):
                graph.ClearField(name)
                getattr(graph, name).extend(getattr(declared, name))
        give_shapes(model, self._shapes)
        _clear_function_types(model)


def free_sizes(
    model: ModelProto,
    free_dim: FreeDims,
    others: OtherSizes = MappingProxyType({}),
    option: str = _OPTION,
) -> Freed:
    """Make the dimensions in `free_dim` symbolic. Do the same for the dimensions in `others`, which
    the caller will then fix to other sizes. Return the change. Errors about held sizes name the
    `option`.

    Raises UsageError if an input or axis does not exist, if an axis does not have a fixed size, if
    a symbol is not a name or would mean several sizes, and if a node holds a size; the error names
    the node.
    """
    requested = {
        name: {**dict.fromkeys(others.get(name, ()), ""), **free_dim.get(name, {})}
        for name in {**free_dim, **others}
    }
    dims = {name: _dims_of(model, name, axes) for name, axes in requested.items()}
    sizes = {
        name: {axis: dim.dim_value for axis, dim in by_axis.items()}
        for name, by_axis in dims.items()
    }
    _require_names(requested)
    _require_one_size_each(requested, sizes)
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
    _require_nothing_held(held, sizes, option)
    symbols = _symbols(model, requested, sizes, others)
    symbolic = TwoSizes(light, weights, symbols)
    former = {
        symbol: sizes[name][axis] for name, axes in symbols.items() for axis, symbol in axes.items()
    }
    names = DimensionNames(model, light, weights, sizes, symbolic)
    _open_declarations(model, symbolic, twice, former, names)
    _clear_function_types(model)
    for name, axes in symbols.items():
        for axis, symbol in axes.items():
            dims[name][axis].dim_param = symbol
    give_shapes(model, holders.shapes)
    return Freed(model, sizes, holders.shapes)


def _require_nothing_held(
    held: Sequence[str], sizes: Mapping[str, Mapping[int, int]], option: str
) -> None:
    """Raise UsageError if nodes hold a size. `held` are the descriptions of these nodes."""
    if held:
        count = "one place" if len(held) == 1 else f"{len(held)} places"
        places = ", ".join(
            f"{name}[{axis}] = {size}"
            for name, axes in sizes.items()
            for axis, size in axes.items()
        )
        what = f"{places} cannot change: the model needs exactly this size in {count}"
        hint = (
            "export the model with this dimension dynamic, or correct these nodes; more nodes "
            "after them may need the size, too"
        )
        raise UsageError(what, where=option, hint=hint, code="E10001", details=held)


def _open_declarations(
    model: ModelProto,
    symbolic: TwoSizes,
    twice: TwoSizes,
    former: Mapping[str, int],
    names: DimensionNames,
) -> None:
    """Remove all declared sizes that are correct only for the former input sizes. `symbolic` has
    the shapes of values if the input sizes are symbols, and `twice` if they are doubled.
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


def _clear_function_types(model: ModelProto) -> None:
    for function in model.functions:
        del function.value_info[:]  # types in functions are inferred at each call


def require_runs(file: Path, sizes: Mapping[str, Mapping[int, int]]) -> None:
    """Raise UsageError if the changed model runs with its former sizes `sizes`, but does not run
    with doubled sizes.
    """
    reason = failure(file, _doubled(sizes))
    if reason and not failure(file, sizes):
        what = f"the model does not run with another size: {reason}"
        hint = "export the model with this dimension dynamic; the message names the node"
        raise UsageError(what, where=_OPTION, hint=hint, code="E10001")


def failure(file: Path, sizes: Mapping[str, Mapping[int, int]]) -> str:
    """Why a model does not run with these `sizes` of open dimensions (by input name and axis).
    Empty if it runs, or if no input values are found on which it would run.
    """
    # imported here because few conversions need these modules
    from fusionc.verify.inputs.search import InputSearch
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
    symbols.pop("", None)  # "" belongs to dimensions without a symbol
    shapes = {
        name: tuple(
            dim.dim_value if dim.HasField("dim_value") else symbols.get(dim.dim_param, _OPEN)
            for dim in shape
        )
        for name, shape in dims.items()
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
        hint = advice(name, inputs, f"the inputs of the model are: {', '.join(inputs)}")
        raise UsageError(f"the model has no input {name}", where=_OPTION, hint=hint, code="E10016")
    dims = {}
    for axis in axes:
        if not 0 <= axis < len(inputs[name]):
            hint = f"{name} has {len(inputs[name])} dimensions, counted from 0"
            raise UsageError(
                f"{name} has no dimension {axis}", where=_OPTION, hint=hint, code="E10001"
            )
        dims[axis] = inputs[name][axis]
        if dims[axis].dim_value < 1:
            hint = "leave this dimension out; --input_shape gives a dimension a fixed size"
            raise UsageError(
                f"{name}[{axis}] is not fixed in the model", where=_OPTION, hint=hint, code="E10001"
            )
    return dims


def _require_names(symbols: FreeDims) -> None:
    """Raise UsageError if a symbol is not an identifier, because it would be read as a number or a
    formula.
    """
    for name, axes in symbols.items():
        for axis, symbol in axes.items():
            if symbol and not symbol.isidentifier():
                hint = "give a name, as in x:0=batch; for sizes use --input_shape"
                raise UsageError(
                    f"{name}[{axis}] cannot be called {symbol}",
                    where=_OPTION,
                    hint=hint,
                    code="E10001",
                )


def _require_one_size_each(symbols: FreeDims, sizes: Mapping[str, Mapping[int, int]]) -> None:
    """Raise UsageError if dimensions of different sizes get the same symbol."""
    known: dict[str, int] = {}
    for name, axes in symbols.items():
        for axis, symbol in axes.items():
            size = sizes[name][axis]
            if symbol and known.setdefault(symbol, size) != size:
                what = (
                    f"the symbol {symbol} cannot mean both {known[symbol]} and {size}, the size "
                    f"of {name}[{axis}]"
                )
                hint = "equal symbols mean equal sizes; give another symbol"
                raise UsageError(what, where=_OPTION, hint=hint, code="E10001")


def _symbols(
    model: ModelProto,
    requested: FreeDims,
    sizes: Mapping[str, Mapping[int, int]],
    others: OtherSizes,
) -> dict[str, dict[int, str]]:
    """The symbols of all dimensions that become symbolic. If fusionc chooses the symbol, the
    dimensions of several inputs share it if they have the same axis, the same size, and the same
    entry in `others`.
    """

    def kind(name: str, axis: int) -> tuple[int, int, str]:
        return axis, sizes[name][axis], str(others.get(name, {}).get(axis, ""))

    taken = dict.fromkeys(
        (dim.dim_param for info in model.graph.input for dim in info.type.tensor_type.shape.dim), 1
    )
    taken |= dict.fromkeys((symbol for axes in requested.values() for symbol in axes.values()), 1)
    kinds = sorted({kind(name, axis) for name, axes in requested.items() for axis in axes})
    chosen = {one: fresh_name("batch" if one[0] == 0 else f"dim_{one[0]}", taken) for one in kinds}
    return {
        name: {axis: symbol or chosen[kind(name, axis)] for axis, symbol in axes.items()}
        for name, axes in requested.items()
    }


def _open(
    info: ValueInfoProto,
    before: Shape | None,
    after: Shape | None,
    doubled: Shape | None,
    former: Mapping[str, int],
    kept: Collection[int],
) -> None:
    """Replace the declared sizes of a value that are correct only for the former input sizes. A
    size is replaced by a symbol if one is known, or else by an unknown dimension. `kept` are the
    axes whose declared symbols are correct for all input sizes.
    """
    dims = info.type.tensor_type.shape.dim  # empty for a sequence
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
    """The symbol of a dimension: the inferred symbol, or else the only symbol that fits both the
    former size and the size after doubling. Otherwise empty.
    """
    if size_now in former:
        return str(size_now)
    fitting = [name for name, old in former.items() if old == size and size_doubled == 2 * old]
    return fitting[0] if len(fitting) == 1 else ""


def _is_same_size(former: _Size, now: _Size) -> bool:
    return isinstance(former, int) and now == former
