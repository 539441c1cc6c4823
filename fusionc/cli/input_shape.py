"""--input_shape "x:1,3,224,224;ids:-1,16": the sizes that verification runs the models with."""

from __future__ import annotations

import re

import click

Shapes = dict[str, tuple[int, ...]]

# ATC's open dimension, and what is run for it. Not 1: broadcasting would hide differences.
_OPEN, _SIZE_OF_OPEN = "-1", 2


def parse_input_shape(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> Shapes | None:
    """A click callback: shapes by input name.

    A name may contain colons; no dimensions mean a scalar. Of ATC's range 1~8 the upper end is taken.
    """
    if value is None:
        return None
    shapes: Shapes = {}
    for part in filter(None, (part.strip() for part in value.split(";"))):
        name, _, dims = (piece.strip() for piece in part.rpartition(":"))
        sizes = re.split(r"\s*,\s*", dims) if dims else []
        if not name or not all(re.fullmatch(r"(\d+~)?(\d+|-1)", size) for size in sizes):
            raise click.BadParameter(f'"{part}" is not of the form name:1,3,224,224.')
        if name in shapes:
            raise click.BadParameter(f'"{name}" is given twice.')
        shapes[name] = tuple(map(_size, sizes))
    if not shapes:
        raise click.BadParameter(f'"{value}" names no input.')
    return shapes


def _size(text: str) -> int:
    lower, _, upper = text.rpartition("~")
    return int(upper) if upper != _OPEN else max(_SIZE_OF_OPEN, int(lower or 0))
