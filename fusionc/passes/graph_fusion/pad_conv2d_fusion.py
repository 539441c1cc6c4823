from fusionc.model.graph import Node
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, maybe, op, refuse, rest, var


def _constant_pads(pad: Node, rank: int, opset: int) -> tuple[list[int], list[int]]:
    """What a zero Pad adds before and after each axis. Refuses other pads."""
    if pad.attr("mode", "constant") not in ("constant", b"constant"):
        refuse("the padding is not constant")
    if opset < 11:
        amounts, value, axes = list(pad.attr("pads") or pad.attr("paddings")), pad.attr("value", 0.0), None
    else:
        given = [None if v is None else v.constant() for v in pad.inputs[1:]]
        if any(v is not None and g is None for v, g in zip(pad.inputs[1:], given, strict=True)):
            refuse("the padding is not known before the model runs")
        found, fill, axes = [*given, None, None][:3]
        assert found is not None  # the pads are no optional input
        amounts, value = [int(p) for p in found.reshape(-1)], 0 if fill is None or not fill.size else fill.item()
    if value != 0:
        refuse("the padding is not zero")
    chosen = list(range(rank)) if axes is None else [int(a) % rank for a in axes.reshape(-1)]
    begin, end = [0] * rank, [0] * rank
    for i, axis in enumerate(chosen):
        begin[axis], end[axis] = amounts[i], amounts[i + len(chosen)]
    return begin, end


class PadConv2dFusionPass(Pass):
    """Zero padding before a Conv becomes the padding of the Conv.

    before   Conv(Pad(x, pads, 0), W, B?), 1-D to 3-D, depthwise and grouped
    after    Conv(x, W, B?) with the pads added to its own
    refuses  padding by another value or mode; negative padding; padding of batch or channels; a Conv that computes
             its own padding (auto_pad SAME)
    algebra  a Conv pads with zeros, hence both paddings are one
    source   CANN's PadConv2dFusionPass
    """

    patterns = (
        Pattern(
            "PadConv", op.Conv(op.Pad(var("x"), rest("options"), _as="pad"), var("W"), maybe(var("B")), _as="conv")
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        if m.conv.attr("auto_pad") not in ("NOTSET", "VALID"):
            refuse("the Conv computes its own padding")
        rank = m.W.rank
        if rank is None:
            refuse("the rank is unknown")
        begin, end = _constant_pads(m.pad, rank, m.opset)
        if any((*begin[:2], *end[:2])):
            refuse("batch or channels are padded")
        if min(begin + end) < 0:
            refuse("the padding is negative")
        written = m.conv.attr("pads") if m.conv.attr("auto_pad") == "NOTSET" else None
        own = written or [0] * (2 * rank - 4)
        pads = [a + b for a, b in zip(own, begin[2:] + end[2:], strict=True)]
        return new.Conv(m.x, m.W, m.B, like=m.conv, pads=pads, auto_pad=None)
