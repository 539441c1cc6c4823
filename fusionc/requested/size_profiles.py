"""--dynamic_batch_size, --dynamic_image_size and --dynamic_dims: several sizes for the dimensions
that are -1 in --input_shape. These dimensions stay open in the result, and the result is verified
at each of the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto, TensorShapeProto

from fusionc.disk.load import load
from fusionc.errors import UsageError
from fusionc.protos import NAMELESS, fresh_name, inputs_to_feed
from fusionc.requested.dimension_size import OPEN, DimensionSize

BATCH = "--dynamic_batch_size"
IMAGE = "--dynamic_image_size"
DIMS = "--dynamic_dims"
_FEWEST = 2
_MOST = 100
_IMAGE_AXES = ((2, 3), (1, 2))  # height and width in (N, C, H, W) and in (N, H, W, C)


@dataclass(frozen=True)
class SizeProfiles:
    """The profiles of one of the three options. A profile has a size for each open dimension."""

    option: str
    axes: Mapping[str, Sequence[int]]  # the open axes, by input name
    shapes: Sequence[Mapping[str, tuple[int, ...]]]  # for each profile, shapes by input name

    def fixed_axes(self, model: ModelProto) -> dict[str, dict[int, str]]:
        """The open axes that have a fixed size in the model, with new symbols, as in --free_dim.
        Axes share a symbol if they have the same size in the model and in each profile.
        """
        inputs = inputs_to_feed(model.graph)
        taken = {dim.dim_param: 1 for v in inputs for dim in v.type.tensor_type.shape.dim}
        symbols = dict[tuple[int, ...], str]()
        fixed = dict[str, dict[int, str]]()
        for name, axis, dim in self._open_dims(model):
            sizes = (dim.dim_value, *(shapes[name][axis] for shapes in self.shapes))
            if dim.dim_value > 0:
                if sizes not in symbols:
                    symbols[sizes] = fresh_name("batch" if axis == 0 else f"dim_{axis}", taken)
                fixed.setdefault(name, {})[axis] = symbols[sizes]
        return fixed

    def require_consistency(self, model: ModelProto) -> None:
        """Raise UsageError if dimensions with the same symbol have different sizes in a profile."""
        for shapes in self.shapes:
            known = dict[str, tuple[int, str]]()
            for name, axis, dim in self._open_dims(model):
                size = shapes[name][axis]
                place = f"{name}[{axis}]"
                first, other = known.setdefault(dim.dim_param, (size, place))
                if dim.dim_param not in NAMELESS and first != size:
                    symbol = dim.dim_param
                    what = f"{other} is {first} and {place} is {size}, but both are {symbol}"
                    hint = "equal symbols mean equal sizes; give equal sizes"
                    raise _error(self.option, what, hint)

    def _open_dims(
        self, model: ModelProto
    ) -> Iterator[tuple[str, int, TensorShapeProto.Dimension]]:
        """The open axes that exist in the model: input name, axis and dimension."""
        for value in inputs_to_feed(model.graph):
            dims = value.type.tensor_type.shape.dim
            for axis in self.axes.get(value.name, ()):
                if axis < len(dims):
                    yield value.name, axis, dims[axis]


def size_profiles(
    batch: Sequence[int] | None,
    image: Sequence[Sequence[int]] | None,
    dims: Sequence[Sequence[int]] | None,
    input_shape: Mapping[str, Sequence[DimensionSize]] | None,
    source: Path | None = None,
) -> SizeProfiles | None:
    """The profiles of the option that is given; None if none is. Raises UsageError if several are
    given, and if the profiles do not fit --input_shape. Its advice names the inputs of the model in
    the file `source`.
    """
    given = {
        BATCH: None if batch is None else [(size,) for size in batch],
        IMAGE: image,
        DIMS: dims,
    }
    options = [option for option, sizes in given.items() if sizes is not None]
    if len(options) > 1:
        raise _error(" and ".join(options), "the options exclude each other", "give one of them")
    for option in options:
        return _profiles(option, given[option] or (), input_shape or {}, source)
    return None


def _opened(option: str, source: Path | None) -> str:
    """The first input of a model as --input_shape may give it with this option; "" without a model.
    Other dimensions without a size are 1.
    """
    inputs = [] if source is None else inputs_to_feed(load(source).graph)
    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        axes: tuple[int, ...] = (0,)
        if option == IMAGE and len(dims) == 4:
            axes = _IMAGE_AXES[dims[3].dim_value in (1, 3)]
        sizes = [-1 if axis in axes else max(dim.dim_value, 1) for axis, dim in enumerate(dims)]
        if sizes:
            return f"{value.name}:{','.join(map(str, sizes))}"
    return ""


def _profiles(
    option: str,
    profiles: Sequence[Sequence[int]],
    shapes: Mapping[str, Sequence[DimensionSize]],
    source: Path | None,
) -> SizeProfiles:
    axes = {
        name: [axis for axis, size in enumerate(shape) if size == OPEN]
        for name, shape in shapes.items()
        if OPEN in shape
    }
    _require_sizes(option, profiles)
    if not axes:
        what = f"{option} is for dimensions that are -1 in --input_shape, and no dimension is -1"
        text = _opened(option, source) or "x:-1,3,224,224"
        raise _error(option, what, f'give them: --input_shape "{text}"')
    _require_open(option, axes, shapes)
    filled = [_filled(option, axes, shapes, sizes) for sizes in profiles]
    return SizeProfiles(option, axes, filled)


def _require_sizes(option: str, profiles: Sequence[Sequence[int]]) -> None:
    if not _FEWEST <= len(profiles) <= _MOST:
        what = f"the number of profiles is {len(profiles)}, not {_FEWEST} to {_MOST}"
        hint = "give 2 to 100 profiles; a single size belongs in --input_shape"
        raise _error(option, what, hint)
    seen = set[tuple[int, ...]]()
    for sizes in map(tuple, profiles):
        if min(sizes, default=0) < 1:
            raise _error(option, f"a size cannot be {min(sizes, default=0)}", "give sizes above 0")
        if sizes in seen:
            text = ",".join(map(str, sizes))
            raise _error(option, f"{text} is given twice", "give each profile once")
        seen.add(sizes)


def _require_open(
    option: str,
    axes: Mapping[str, Sequence[int]],
    shapes: Mapping[str, Sequence[DimensionSize]],
) -> None:
    """Raise UsageError if the dimensions that are -1 are not those that the option is for."""
    if any(isinstance(size, tuple) for shape in shapes.values() for size in shape):
        what = f"--input_shape has a range, and {option} gives the sizes"
        raise _error(option, what, "give -1 instead of the range")
    for name, places in axes.items():
        if option == BATCH and list(places) != [0]:
            what = f"{name}[{places[-1]}] is -1, and {option} is for the first dimension"
            raise _error(option, what, f"fix it in --input_shape, or give {DIMS}")
        if option == IMAGE and (len(shapes[name]) != 4 or tuple(places) not in _IMAGE_AXES):
            what = f"{option} needs -1 for height and width alone, which does not hold for {name}"
            raise _error(option, what, f'give "{name}:1,3,-1,-1", or give {DIMS}')


def _filled(
    option: str,
    axes: Mapping[str, Sequence[int]],
    shapes: Mapping[str, Sequence[DimensionSize]],
    sizes: Sequence[int],
) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs in one profile. Except with --dynamic_dims, the sizes are the same
    for all inputs.
    """
    wanted = sum(map(len, axes.values())) if option == DIMS else len(next(iter(axes.values())))
    if len(sizes) != wanted:
        text = ",".join(map(str, sizes))
        what = f"the number of sizes in the profile {text} is {len(sizes)}, not {wanted}"
        raise _error(option, what, "give a size for each -1 in --input_shape, in the same order")
    rest = list(sizes)
    filled = {}
    for name, places in axes.items():
        shape = [size for size in shapes[name] if isinstance(size, int)]
        own = rest[: len(places)]
        if option == DIMS:
            del rest[: len(places)]
        for axis, size in zip(places, own, strict=True):
            shape[axis] = size
        filled[name] = tuple(shape)
    return filled


def _error(option: str, what: str, hint: str) -> UsageError:
    return UsageError(what, where=option, hint=hint, code="E10001")
