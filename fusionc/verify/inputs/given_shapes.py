"""The shapes that the caller gives to inputs: --verify_shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusionc.errors import UsageError
from fusionc.verify.interface import Port

_SIZES = "--verify_shape"


def fixed_ports(
    ports: Sequence[Port], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[list[Port], dict[str, int]]:
    """The inputs, with the given shapes for those named in `shapes`, and the sizes of the dynamic
    dimensions that these shapes fix, by name.

    Raises UsageError if an input does not exist, or declares another shape.
    """
    fixed: dict[str, int] = {}
    names = [port.name for port in ports]
    for name, shape in shapes.items():
        if name not in names:
            raise UsageError(
                f"the model has no input {name}",
                where=_SIZES,
                hint=f"its inputs are: {', '.join(names)}",
                code="E10001",
            )
        dims = ports[names.index(name)].dims
        if dims is None:
            continue
        fits = len(dims) == len(shape)
        for dim, size in zip(dims, shape, strict=False):
            is_equal = (
                size == dim
                if isinstance(dim, int)
                else size > 0 and fixed.setdefault(dim, size) == size
            )
            fits = fits and is_equal
        if not fits:
            declared = ",".join(map(str, dims))
            raise UsageError(
                f"the shape {','.join(map(str, shape))} does not fit the input {name}",
                where=_SIZES,
                hint=f"the model declares {name}:{declared}; equal names mean equal sizes",
                code="E10001",
            )
    return [
        replace(port, dims=shapes[port.name]) if port.name in shapes else port for port in ports
    ], fixed
