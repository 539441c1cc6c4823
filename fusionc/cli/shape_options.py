"""Shapes on the command line: "x:1,3,224,224;ids:-1,1~16". The names of inputs may contain colons,
commas and semicolons, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from fusionc.requested.dimension_size import DimensionSize, size_to_run

_SIZE = re.compile("([0-9]{1,18}~)?([0-9]{1,18}|-1)")
_INTEGER = re.compile("-?[0-9]{1,18}")
_AXIS = re.compile(r"([0-9]{1,3})\s*(?:=\s*(\S+))?")


def parse_sizes(
    ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> dict[str, tuple[DimensionSize, ...]]:
    """A click callback: the dimensions of each input. A dimension is a size, -1 or a range
    (smallest, largest).

    -1 is also the largest size of a range without an upper end. A name may contain colons. An
    input without dimensions is a scalar. Brackets around the dimensions, as in ATC's
    --input_shape_range, are ignored.
    """
    shapes: dict[str, tuple[DimensionSize, ...]] = {}
    for part in _parts(ctx, value or ""):
        name, shape = _shape(part)
        if name in shapes:
            raise click.BadParameter(f'"{name}" is given twice.')
        shapes[name] = shape
    if value is not None and not shapes:
        raise click.BadParameter(f'"{value}" names no input.')
    return shapes


def _shape(part: str) -> tuple[str, tuple[DimensionSize, ...]]:
    """The input name and the sizes in "x:1,3,224,224"."""
    name, _, dims = (piece.strip() for piece in part.rpartition(":"))
    if dims.startswith("[") and dims.endswith("]"):
        dims = dims[1:-1].strip()
    sizes = re.split(r"\s*,\s*", dims) if dims else []
    if not name or not all(map(_SIZE.fullmatch, sizes)):
        raise click.BadParameter(f'"{part}" is not of the form name:1,3,224,224.')
    return name, tuple(map(_size, sizes))


def parse_run_shape(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> dict[str, tuple[int, ...]] | None:
    """A click callback: shapes to run a model with, by input name. A range 1~8 means the size 8."""
    shapes = parse_sizes(ctx, parameter, value)
    return {name: tuple(map(size_to_run, shape)) for name, shape in shapes.items()} or None


def parse_axes(
    ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> dict[str, dict[int, str]] | None:
    """A click callback: "x:0,2;ids:1=length" as symbols by input name and axis. The symbol of an
    axis is empty if the text names none.
    """
    axes: dict[str, dict[int, str]] = {}
    for part in _parts(ctx, value or ""):
        name, _, text = (piece.strip() for piece in part.rpartition(":"))
        symbols = [*map(_AXIS.fullmatch, map(str.strip, text.split(",")))]
        if not name or None in symbols:
            raise click.BadParameter(f'"{part}" is not of the form name:0,2 or name:0=batch.')
        by_axis = {int(one[1]): one[2] or "" for one in filter(None, symbols)}
        axes.setdefault(name, {}).update(by_axis)
    if value is not None and not axes:
        raise click.BadParameter(f'"{value}" names no input.')
    return axes or None


def parse_integers(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    """A click callback: the sizes in "1,2,4"."""
    return None if value is None else _integers(value)


def parse_profiles(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[tuple[int, ...], ...] | None:
    """A click callback: the lists of sizes in "224,224;448,448"."""
    return None if value is None else tuple(map(_integers, value.strip("; ").split(";")))


def _integers(text: str) -> tuple[int, ...]:
    sizes = [size.strip() for size in text.split(",")]
    if not all(map(_INTEGER.fullmatch, sizes)):
        raise click.BadParameter(f'"{text}" is not a list of sizes: 1,2,4.')
    return tuple(map(int, sizes))


def _parts(ctx: click.Context, text: str) -> Iterator[str]:
    """The parts between semicolons. A semicolon inside an input name does not separate parts."""
    if ";" not in text.strip("; "):
        yield from filter(None, (text.strip("; "),))
        return
    # imported here because it imports onnx, which is slow
    from fusionc.requested.exact_names import leading_name, split_values

    yield from split_values(
        text, {name for path in _models(ctx) for name in _inputs_of(path)}, leading_name
    )


def _models(ctx: click.Context) -> Iterator[Path]:
    """The models of the command. The options that name models are eager, so click has already
    parsed them.
    """
    from fusionc.batch.find_models import models_in

    for name in ("models", "model", "reference", "candidate", "before", "after"):
        paths = ctx.params.get(name) or ()
        for path in (paths,) if isinstance(paths, Path) else paths:
            yield from models_in(path)


def _inputs_of(path: Path) -> Iterator[str]:
    """The input names of a model. Empty if the model cannot be read: loading it explains why."""
    from fusionc.runtime.run_errors import RunError
    from fusionc.verify.model_file import light_model

    with suppress(RunError):
        model, _ = light_model(path)
        yield from (value.name for value in model.graph.input)


def _size(text: str) -> DimensionSize:
    lower, _, upper = text.rpartition("~")
    return (int(lower), int(upper)) if lower else int(upper)
