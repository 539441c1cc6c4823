"""--input_shape "x:1,3,224,224;ids:-1,1~16": set the sizes of inputs, and the sizes of other values
that follow from them.

A number fixes a dimension. -1 or a range of sizes leaves it open (without a fixed size). If the
model already fixes the dimension to another size, the dimension first becomes symbolic. The size of
a symbol is written into all declarations with this symbol, including formulas, because equal
symbols mean equal sizes. Other open sizes are inferred, and declared if they are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import GraphProto, ModelProto, TensorShapeProto, TypeProto, ValueInfoProto

from fusionc.errors import UsageError
from fusionc.protos import NAMELESS, graphs_in, graphs_of, inputs_to_feed
from fusionc.requested.dimension_size import OPEN, DimensionSize, size_to_run
from fusionc.shapes.inference import typed_model
from fusionc.verify.inputs.formulas import evaluate, formula_of, symbols_of, with_sizes

_MAX_SIZE = 2**63 - 1
_OPTION = "--input_shape"


def fix_sizes(
    model: ModelProto, shapes: Mapping[str, Sequence[DimensionSize]], folder: str
) -> None:
    """Give the inputs of a model these shapes. The external data of the model is in `folder`.

    Raises UsageError if the model lacks an input in `shapes`, if the input has another rank or
    another fixed size, or if a symbol would have two sizes.
    """
    changes = _size_changes(_resizable(model), shapes)
    if not changes.is_change:
        return
    open_dims = list(_open_dimensions(model.graph))
    known = {symbol: size for symbol, (size, _) in changes.sizes.items()}
    for declared in _declared_values(model.graph):
        _substitute(declared.type, known)
    _require_defaults(model.graph)
    built = typed_model(model, folder)
    for number, info, axis in open_dims:
        value = built.graphs[number].values.get(info.name)
        shape = None if value is None else value.shape
        dims = info.type.tensor_type.shape.dim
        size = shape[axis] if shape is not None and len(shape) == len(dims) else None
        if isinstance(size, int):
            dims[axis].dim_value = size


def _size_changes(
    inputs: Mapping[str, TypeProto], shapes: Mapping[str, Sequence[DimensionSize]]
) -> _SizeChanges:
    """Fix dimensions that do not have a symbol. Return the sizes that symbols are to get."""
    changes = _SizeChanges()
    for name, shape in shapes.items():
        if name not in inputs:
            hint = "the model does not have an input whose shape could change"
            if inputs:
                hint = f"the inputs of the model are: {', '.join(inputs)}"
            raise UsageError(
                f"the model has no input {name}", where=_OPTION, hint=hint, code="E10016"
            )
        dims = _dims_of(inputs[name], name, shape)
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            changes.fix(dim, size, f"{name}[{axis}]")
    changes.require_consistency()
    return changes


def _open_dimensions(main: GraphProto) -> Iterator[tuple[int, ValueInfoProto, int]]:
    """All open dimensions in the declarations of graphs, each as (number of the graph, declaration,
    axis).
    """
    for number, graph in enumerate(graphs_in(main)):
        for info in (*graph.value_info, *graph.output):
            for axis, dim in enumerate(info.type.tensor_type.shape.dim):
                if not _is_fixed(dim):
                    yield number, info, axis


def changed_sizes(
    model: ModelProto, shapes: Mapping[str, Sequence[DimensionSize]]
) -> dict[str, dict[int, DimensionSize]]:
    """The requested sizes that differ from the fixed sizes in the model, by input name and axis."""
    others: dict[str, dict[int, DimensionSize]] = {}
    for name, type_ in _resizable(model).items():
        shape = shapes.get(name, ())
        for axis, (dim, size) in enumerate(zip(type_.tensor_type.shape.dim, shape, strict=False)):
            lower, upper = _limits(size)
            if (
                size != OPEN
                and _is_fixed(dim)
                and dim.dim_value
                and not lower <= dim.dim_value <= upper
            ):
                others.setdefault(name, {})[axis] = size
    return others


def _require_defaults(graph: GraphProto) -> None:
    """Raise UsageError if an input has a default value (an initializer) whose sizes differ from the
    new sizes of the input.
    """
    declared = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
    for tensor in graph.initializer:
        for axis, (dim, size) in enumerate(
            zip(declared.get(tensor.name, ()), tensor.dims, strict=False)
        ):
            if _is_fixed(dim) and dim.dim_value != size:
                what = (
                    f"{tensor.name}[{axis}] would be {dim.dim_value}, but in the default value of "
                    f"this input it is {size}"
                )
                hint = (
                    f"give the dimension the size {size}, or make {tensor.name} an input without "
                    "a default value"
                )
                raise UsageError(what, where=_OPTION, hint=hint, code="E10001")


def sizes_to_run(
    model: ModelProto,
    shapes: Mapping[str, Sequence[DimensionSize]],
    chosen: Mapping[str, Sequence[int]],
) -> dict[str, tuple[int, ...]]:
    """Shapes to run the changed model with, for all inputs that have a range. A range gets its
    largest size, and an open dimension the size 2. A size that the user gave (in `chosen`) applies
    to all dimensions with the same symbol. Formulas are computed from the sizes of their symbols.
    """
    inputs = _resizable(model)
    ranged = {
        name: shape
        for name, shape in shapes.items()
        if any(isinstance(size, tuple) for size in shape)
    }
    known = _largest_sizes(inputs, ranged)
    for name, sizes in chosen.items():
        dims = inputs[name].tensor_type.shape.dim if name in inputs else ()
        pairs = zip(dims, sizes, strict=False)
        known |= {dim.dim_param: size for dim, size in pairs if dim.dim_param not in NAMELESS}
    return {
        name: tuple(
            dim.dim_value if _is_fixed(dim) else _size_to_run(dim.dim_param, size, known)
            for dim, size in zip(inputs[name].tensor_type.shape.dim, shape, strict=True)
        )
        for name, shape in ranged.items()
    }


def _largest_sizes(
    inputs: Mapping[str, TypeProto], ranged: Mapping[str, Sequence[DimensionSize]]
) -> dict[str, int]:
    """For each symbol, the largest size that all its ranges allow."""
    largest: dict[str, int] = {}
    for name, shape in ranged.items():
        for dim, size in zip(inputs[name].tensor_type.shape.dim, shape, strict=True):
            symbol = dim.dim_param
            is_name = symbol not in NAMELESS and formula_of(symbol) is None
            if is_name and isinstance(size, tuple):
                largest[symbol] = min(size_to_run(size), largest.get(symbol, _MAX_SIZE))
    return largest


def _size_to_run(symbol: str, size: DimensionSize, known: Mapping[str, int]) -> int:
    """The size of an open dimension with this symbol in a run."""
    if symbol in known:
        return known[symbol]
    tree = None if symbol in NAMELESS else formula_of(symbol)
    value = (
        None
        if tree is None
        else evaluate(tree, dict.fromkeys(symbols_of(tree), size_to_run(OPEN)) | dict(known))
    )
    return value if value is not None and value > 0 else size_to_run(size)


def fixed_sizes(
    model: ModelProto,
    shapes: Mapping[str, Sequence[DimensionSize]],
    freed: Mapping[str, Mapping[int, object]],
) -> list[str]:
    """A sentence for each dimension that keeps its fixed size although -1 or a range was given for
    it. Dimensions in `freed` are left out, because --free_dim makes them symbolic.
    """
    inputs = _resizable(model)
    others = changed_sizes(model, shapes)
    fixed = []
    for name in (name for name in shapes if name in inputs):
        opened = {**freed.get(name, {}), **others.get(name, {})}
        pairs = zip(inputs[name].tensor_type.shape.dim, shapes[name], strict=False)
        for axis, (dim, size) in enumerate(pairs):
            may_vary = size == OPEN or isinstance(size, tuple)
            if _is_fixed(dim) and may_vary and axis not in opened:
                fixed.append(
                    f"{name}[{axis}] stays {dim.dim_value}, the size in the model; "
                    f'--free_dim "{name}:{axis}" makes it symbolic'
                )
    return fixed


def odd_sizes(
    run: Mapping[str, Sequence[int]], shapes: Mapping[str, Sequence[DimensionSize]]
) -> list[str]:
    """A phrase for each size of a run that is not among the requested sizes: "x[1] is 9, not
    1~8".
    """
    return [
        f"{name}[{axis}] is {size}, not {_text(requested)}"
        for name, shape in shapes.items()
        # not strict, because another function checks the ranks
        for axis, (size, requested) in enumerate(zip(run.get(name, ()), shape, strict=False))
        if requested != OPEN and not _limits(requested)[0] <= size <= _limits(requested)[1]
    ]


@dataclass
class _SizeChanges:
    """The new sizes of dimensions of inputs. A place is a text that names one such dimension:
    "x[0]".
    """

    sizes: dict[str, tuple[int, str]] = field(default_factory=dict)  # (size, place) by symbol
    # (symbol, range, place)
    ranges: list[tuple[str, tuple[int, int], str]] = field(default_factory=list)
    is_change: bool = False  # whether a dimension changes

    def fix(self, dim: TensorShapeProto.Dimension, size: DimensionSize, place: str) -> None:
        """If a dimension has a symbol, note the size of the symbol. Otherwise set the size of the
        dimension.
        """
        if size == OPEN:
            return
        lower, upper = _limits(size)
        if not 0 <= lower <= _MAX_SIZE or upper < lower:
            hint = "a size is from 0 to 2^63 - 1; -1 leaves a dimension open, 1~8 is a range"
            raise UsageError(
                f"{place} cannot be {_text(size)}", where=_OPTION, hint=hint, code="E10001"
            )
        if _is_fixed(dim):
            _require_in_range(dim.dim_value, size, place)
        elif isinstance(size, tuple):
            self.ranges.append((dim.dim_param, size, place))
        elif dim.dim_param in NAMELESS:
            dim.dim_value = size
            self.is_change = True
        else:
            first, other = self.sizes.setdefault(dim.dim_param, (size, place))
            self.is_change = True
            if first != size:
                raise _contradiction(
                    f"{other} and {place} are both {dim.dim_param}", f"{first} and {size}"
                )

    def require_consistency(self) -> None:
        """Raise UsageError if the sizes of symbols contradict a range or a formula."""
        known = {symbol: size for symbol, (size, _) in self.sizes.items()}
        for symbol, range_, place in self.ranges:
            lower, upper = _limits(range_)
            size = with_sizes(symbol, known) if symbol not in NAMELESS else lower
            if isinstance(size, int) and not lower <= size <= upper:
                raise _contradiction(
                    f"{place} is {symbol}, which is {size}", f"{size} and {_text(range_)}"
                )
        for symbol, (size, place) in self.sizes.items():
            tree = formula_of(symbol)
            value = None if tree is None else evaluate(tree, known)
            if value not in (None, size):
                raise _contradiction(
                    f"{place} is {symbol}, which is {value}", f"{value} and {size}"
                )


def _require_in_range(fixed: int, size: DimensionSize, place: str) -> None:
    """Raise UsageError if the fixed size of the model is not among the requested sizes."""
    lower, upper = _limits(size)
    if not lower <= fixed <= upper:
        what = f"{place} is {fixed} in the model, and cannot become {_text(size)}"
        hint = f"give {fixed} or -1, or export the model with this dimension dynamic"
        raise UsageError(what, where=_OPTION, hint=hint, code="E10001")


def _contradiction(reason: str, sizes: str) -> UsageError:
    what = f"the sizes contradict each other: in the model {reason}, and the sizes would be {sizes}"
    return UsageError(
        what, where=_OPTION, hint="equal symbols mean equal sizes; give equal sizes", code="E10001"
    )


def _limits(size: DimensionSize) -> tuple[int, float]:
    lower, upper = size if isinstance(size, tuple) else (size, size)
    return lower, math.inf if upper == OPEN else upper


def _text(size: DimensionSize) -> str:
    return "~".join(map(str, size)) if isinstance(size, tuple) else str(size)


def _is_fixed(dim: TensorShapeProto.Dimension) -> bool:
    # some exporters write a negative size for a dimension of any size
    return dim.HasField("dim_value") and dim.dim_value >= 0


def _resizable(model: ModelProto) -> dict[str, TypeProto]:
    """The types of the inputs that a caller must feed."""
    return {value.name: value.type for value in inputs_to_feed(model.graph)}


def _dims_of(
    type_: TypeProto, name: str, shape: Sequence[DimensionSize]
) -> list[TensorShapeProto.Dimension]:
    """The dimensions of an input. An input without a declared shape first gets as many open
    dimensions as the new shape has.
    """
    if not type_.HasField("tensor_type"):
        raise UsageError(
            f"the input {name} is not a tensor", where=_OPTION, hint="leave it out", code="E10001"
        )
    declared = type_.tensor_type.shape
    if not type_.tensor_type.HasField("shape"):
        declared.SetInParent()
        declared.dim.extend(TensorShapeProto.Dimension() for _ in shape)
    if len(declared.dim) != len(shape):
        dims = ",".join(
            str(dim.dim_value) if _is_fixed(dim) else dim.dim_param or "?" for dim in declared.dim
        )
        what = f"{name} has {len(declared.dim)} dimensions in the model, not {len(shape)}"
        raise UsageError(
            what, where=_OPTION, hint=f"the model declares {name}:{dims}", code="E10001"
        )
    return list(declared.dim)


def _declared_values(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """The declarations of a graph and of the branches of its If nodes. Bodies of loops are left
    out, because a symbol in them may have another size in each iteration.
    """
    yield from [*graph.input, *graph.value_info, *graph.output]
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "If" else ():
            for body in graphs_of(attribute):
                yield from _declared_values(body)


def _substitute(type_: TypeProto, known: Mapping[str, int]) -> None:
    for kind in ("sequence_type", "optional_type"):
        if type_.HasField(kind):
            _substitute(getattr(type_, kind).elem_type, known)
    for dim in type_.tensor_type.shape.dim if type_.HasField("tensor_type") else ():
        size = with_sizes(dim.dim_param, known) if dim.dim_param else ""
        if isinstance(size, int):
            dim.dim_value = size
        elif size != dim.dim_param:
            dim.dim_param = size
