from fusionc.model.graph import Edge
from fusionc.passes._shared.slice_split_concat import slices_nothing_off
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, rest, var
from fusionc.shapes.equality import same_shape

x = var("x")


def _same_shape(m: Match) -> bool:
    """Whether the shape is known to stay the same. The operator then also keeps the order of the
    elements."""
    (result,) = m.outputs
    return same_shape(m.x.shape, result.shape)


def _is_all(value: Edge | None, number: int) -> bool:
    array = None if value is None else value.constant()
    return array is not None and bool((array == number).all())


def _tiles_once(m: Match) -> bool:
    """Whether the Tile repeats each axis once."""
    return len(m.options) == 1 and _is_all(m.options[0], 1)


def _pads_nothing(m: Match) -> bool:
    """Whether all pads are known to be 0."""
    if m.opset < 11:
        return not any(m.node.attr("pads") or m.node.attr("paddings") or [1])
    return _is_all(m.options[0], 0)


def _resizes_nothing(m: Match) -> bool:
    """Whether a Resize has the mode nearest, and either all its scales are 1, or its sizes are the
    known shape of x.
    """
    scales = m.options[1 if m.opset >= 11 else 0] if len(m.options) > 1 or m.opset < 11 else None
    has_scales = scales is not None and scales.shape != (0,)
    is_moved = m.node.attr("coordinate_transformation_mode") in (
        "tf_crop_and_resize",
        "tf_half_pixel_for_nn",
    )
    return (
        m.node.attr("mode") == "nearest"
        and not is_moved
        and (_is_all(scales, 1) if has_scales else _same_shape(m))
    )


class NoUseReshapeRemovePass(Pass):
    """Reshape, Slice, Tile, Pad or Resize that changes nothing becomes its input.

    before   Reshape, Flatten, Squeeze, Unsqueeze or Expand to the shape of x; Slice of all
             elements; Tile with repeats of 1; Pad by 0; Resize (nearest) with scales of 1, or to
             the size of x
    after    x
    refuses  a graph output that would lose its name, because x is a graph input or another output
    never    a result whose dimensions are not known to equal those of x, as numbers or as symbols;
             Slice with steps other than 1, which may reverse x
    algebra  the result has the elements of x in the same order
    source   CANN's NoUseReshapeRemovePass and ReshapeRemovePass
    """

    aliases = ("ReshapeRemovePass",)
    patterns = (
        Pattern(
            "Reshape",
            op["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"](x, rest("options")),
            where=_same_shape,
        ),
        Pattern("Slice", op.Slice(x, rest("options")), where=slices_nothing_off),
        Pattern("Tile", op.Tile(x, rest("options")), where=_tiles_once),
        Pattern("Pad", op.Pad(x, rest("options"), _as="node"), where=_pads_nothing),
        Pattern("Resize", op.Resize(x, rest("options"), _as="node"), where=_resizes_nothing),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        return m.x
