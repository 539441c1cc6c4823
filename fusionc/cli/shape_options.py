"""Shapes on the command line: "x:1,3,224,224;ids:-1,1~16"."""

from __future__ import annotations

import re

import click

from fusionc.requested.dimension_size import DimensionSize, size_to_run


def parse_sizes(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> dict[str, tuple[DimensionSize, ...]]:
    """A click callback: by input name a size, -1 or a range (smallest, largest) for each dimension.

    The largest of a range is -1 where there is none. A name may contain colons; no dimensions mean a scalar. Brackets
    around the dimensions, as in ATC's --input_shape_range, mean nothing.
    """
    shapes: dict[str, tuple[DimensionSize, ...]] = {}
    for part in filter(None, (part.strip() for part in (value or "").split(";"))):
        name, _, dims = (piece.strip() for piece in part.rpartition(":"))
        if dims.startswith("[") and dims.endswith("]"):
            dims = dims[1:-1].strip()
        sizes = re.split(r"\s*,\s*", dims) if dims else []
        if not name or not all(re.fullmatch(r"([0-9]{1,18}~)?([0-9]{1,18}|-1)", size) for size in sizes):
            raise click.BadParameter(f'"{part}" is not of the form name:1,3,224,224.')
        if name in shapes:
            raise click.BadParameter(f'"{name}" is given twice.')
        shapes[name] = tuple(map(_size, sizes))
    if value is not None and not shapes:
        raise click.BadParameter(f'"{value}" names no input.')
    return shapes


def parse_run_shape(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> dict[str, tuple[int, ...]] | None:
    """A click callback: shapes to run a model with, by input name. Of a range 1~8 the upper end is taken."""
    shapes = parse_sizes(ctx, parameter, value)
    return {name: tuple(map(size_to_run, shape)) for name, shape in shapes.items()} or None


def parse_axes(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> dict[str, dict[int, str]] | None:
    """A click callback: "x:0,2;ids:1=length" as symbols by input name and axis, empty where none is given."""
    axes: dict[str, dict[int, str]] = {}
    for part in filter(None, (part.strip() for part in (value or "").split(";"))):
        name, _, given = (piece.strip() for piece in part.rpartition(":"))
        found = [re.fullmatch(r"([0-9]{1,3})\s*(=\s*\S+)?", axis.strip()) for axis in given.split(",")]
        if not name or None in found:
            raise click.BadParameter(f'"{part}" is not of the form name:0,2 or name:0=batch.')
        symbols = {int(axis[1]): (axis[2] or "").lstrip("= ") for axis in found if axis is not None}
        axes.setdefault(name, {}).update(symbols)
    if value is not None and not axes:
        raise click.BadParameter(f'"{value}" names no input.')
    return axes or None


def _size(text: str) -> DimensionSize:
    lower, _, upper = text.rpartition("~")
    return (int(lower), int(upper)) if lower else int(upper)
