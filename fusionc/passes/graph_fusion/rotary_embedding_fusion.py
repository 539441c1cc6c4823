import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Node
from fusionc.passes.heads import expanded, joined, length_of, made_by
from fusionc.passes.slicing import Cut, axes_of, cuts_of, piece_of
from fusionc.passes.splitting import axis_of, sizes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula

x, cos, sin = var("x"), var("cos"), var("sin")
_split = op.Split(x, rest("sizes"), _as="split")
_low, _high = op.Slice(x, rest("low_cut"), _as="low"), op.Slice(x, rest("high_cut"), _as="high")


def _turned(low: Formula, high: Formula) -> Formula:
    return x * cos + op.Concat(-high, low, _as="concat") * sin


def _halves(low: Formula, high: Formula) -> tuple[Formula, Formula]:
    return low * cos - high * sin, either(high * cos + low * sin, low * sin + high * cos)


def _pairs(real: Formula, imaginary: Formula) -> Formula:
    both = op.Concat(op.Unsqueeze(real, rest("a"), _as="real"), op.Unsqueeze(imaginary, rest("b"), _as="imaginary"),
                     _as="concat")  # fmt: skip
    return op.Reshape(both, var("shape"))


def _is_last(node: Node, value: Edge) -> bool:
    return value.rank is not None and axis_of(node, value.rank) == value.rank - 1


def _require(m: Match) -> int:
    """Refuses what the operator cannot turn; returns how many elements it turns of each head."""
    if m.x.elem_type != TensorProto.FLOAT or m.cos.elem_type != TensorProto.FLOAT:
        refuse("the elements are not float32")
    shape = m.x.shape
    if shape is None or len(shape) != 4 or not isinstance(shape[3], int) or shape[3] % 2 or not shape[3]:
        refuse("x is not known to have four axes, the last one even")
    return int(shape[3])


def _require_halves(m: Match, size: int) -> None:
    if m.captures.get("split") is not None:
        is_half = _is_last(m.split, m.x) and sizes_of(m.split) == [size // 2] * 2
    else:
        pieces = piece_of(m.low), piece_of(m.high)
        is_half = pieces == ((m.x, 3, 0, size // 2), (m.x, 3, size // 2, size))
    if not is_half or not _is_last(m.concat, m.x):
        refuse("not the two halves of the last axis are exchanged")


def _half(value: Edge, new: Tape) -> Edge:
    """The first half of the last axis. Refuses where the second one is not known to be the same."""
    if value.is_constant:
        array = value.constant()
        if array is not None and array.ndim and array.shape[-1] % 2 == 0:
            first, second = np.split(array, 2, axis=-1)
            if np.array_equal(first, second):
                return new.const(np.ascontiguousarray(first), like=value)
    node, rank = made_by(value, "Concat", "Cos", "Sin", "Identity", "Unsqueeze", "Gather", "Mul", "Slice"), value.rank
    above = None if node is None else node.inputs[0]
    if node is None or above is None or rank is None:
        refuse("the two halves of the cosine or sine are not known to be the same")
    if node.op == "Concat" and _is_last(node, value) and len(node.inputs) == 2 and node.inputs[1] is above:
        return above
    others = list(node.inputs[1:])
    is_apart = node.op in ("Cos", "Sin", "Identity")
    if node.op == "Unsqueeze":
        axes = axes_of(node)
        is_apart = axes is not None and not {rank - 1, -1} & set(axes)
    elif node.op == "Gather":
        is_apart = node.attr("axis") == 0 and above.rank is not None and above.rank > 1
    elif node.op == "Slice":
        cuts = cuts_of(node)
        is_apart = cuts is not None and not {rank - 1, -1} & {cut.axis for cut in cuts}
    elif node.op == "Mul":
        is_apart = others[0] is not None and others[0].is_constant and others[0].shape == ()
    if not is_apart:
        refuse("the two halves of the cosine or sine are not known to be the same")
    made: Edge = new.node(node.op, [_half(above, new), *others], like=node)
    return made


def _cache(m: Match, value: Edge, size: int, new: Tape, *, is_half: bool) -> Edge:
    """Cosine or sine as the operator wants it: [batch, length, size / 2]."""
    given, wanted = value.shape, m.x.shape
    if given is None or len(given) > 4:
        refuse("the shape of cosine or sine is unknown")
    given = (1,) * (4 - len(given)) + given
    fits = given[0] in (1, wanted[0]) and given[1] == 1 and given[2] is not None and given[2] == wanted[2]
    if not fits or given[3] != (size // 2 if is_half else size) or wanted[0] is None:
        refuse("cosine or sine does not fit x")
    value = value if is_half else _half(value, new)
    node = made_by(value, "Unsqueeze")
    above = node.inputs[0] if node is not None else None
    if node is not None and above is not None and above.rank == 3 and axes_of(node) in ([1], [-3]):
        value = above
    elif len(given) != value.rank or value.is_constant:
        value = new.const(value.constant().reshape(given[0], given[2], -1), like=value) if value.is_constant else value
    if value.rank != 3:
        value = new.Squeeze(value, new.const(np.array([1], np.int64))) if value.rank == 4 else refuse("no three axes")
    if given[0] == wanted[0]:
        return value
    ones = new.const(np.array([1, 1], np.int64))
    return expanded(value, [length_of(m.x, 0, new), ones], new)


def _rotary(m: Match, size: int, new: Tape, *, is_half: bool, interleaved: int | None = None) -> Result:
    caches = [_cache(m, value, size, new, is_half=is_half) for value in (m.cos, m.sin)]
    inner, heads = joined(m.x), m.x.shape[1]
    if inner is None:
        return new.RotaryEmbedding(m.x, *caches, interleaved=interleaved)
    made = new.RotaryEmbedding(inner, *caches, num_heads=heads, interleaved=interleaved)
    transpose = m.x.producer
    reshape = transpose.inputs[0].producer
    return new.Transpose(new.Reshape(made, reshape.inputs[1], like=reshape), like=transpose)


def _rewrite_halves(m: Match, new: Tape) -> Result:
    size = _require(m)
    _require_halves(m, size)
    return _rotary(m, size, new, is_half=True)


def _rewrite_pairs(m: Match, new: Tape) -> Result:
    size = _require(m)
    cuts = [cuts_of(m.low), cuts_of(m.high)]
    ends = [cut[0].end for cut in cuts if cut]
    wanted = [[Cut(axis, start, end, 2)] for axis in (3, -1) for start, end in enumerate(ends)]
    if len(ends) != 2 or any(cut not in wanted for cut in cuts) or min(ends) < size:
        refuse("not every second element is taken")
    stacks = [axes_of(m.real), axes_of(m.imaginary)]
    if any(axes not in ([4], [-1]) for axes in stacks) or int(m.concat.attr("axis")) not in (4, -1):
        refuse("real and imaginary part do not alternate")
    return _rotary(m, size, new, is_half=True, interleaved=1)


def _rewrite_partial(m: Match, new: Tape) -> Result:
    whole, sizes = m.x.shape, sizes_of(m.split)
    if whole is None or len(whole) != 4 or not (_is_last(m.split, m.x) and _is_last(m.concat, m.x)):
        refuse("not the last of four axes is cut and joined")
    if sizes is None or m.rotary.attr("rotary_embedding_dim"):
        refuse("the sizes are not known before the model runs")
    return new.RotaryEmbedding(m.x, m.cos, m.sin, like=m.rotary, rotary_embedding_dim=sizes[0])


class RotaryEmbeddingFusionPass(Pass):
    """Rotary position embedding that is written out becomes RotaryEmbedding.

    before   x·cos + Concat(−x₂, x₁)·sin; Concat(x₁·cos − x₂·sin, x₂·cos + x₁·sin), x₁ and x₂ being halves (Split or
             Slice) or every second element; Concat(RotaryEmbedding(Split(x)₀), Split(x)₁)
    after    RotaryEmbedding(x, cos, sin), on [batch, length, heads · size] where the heads are split
    refuses  opset below 23; x with other ranks than 4 or elements other than float32; cosine or sine of which the two
             halves are not known to be the same, or that does not fit x
    algebra  the definition of RotaryEmbedding
    source   onnxruntime's and onnxscript's rotary embedding fusions
    """

    numerics = "rounding"
    patterns = (
        Pattern("RotaryEmbedding", either(_turned(_split[0], _split[1]), _turned(_low, _high))),
        Pattern("RotaryHalves", either(
            op.Concat(*_halves(_split[0], _split[1]), _as="concat"), op.Concat(*_halves(_low, _high), _as="concat"),
        ), _rewrite_halves),
        Pattern("RotaryPairs", _pairs(*_halves(_low, _high)), _rewrite_pairs),
        Pattern("RotaryPartial", op.Concat(
            op.RotaryEmbedding(_split[0], cos, sin, _as="rotary"), _split[1], _as="concat"), _rewrite_partial),
    )  # fmt: skip

    def rewrite(self, m: Match, new: Tape) -> Result:
        size = _require(m)
        _require_halves(m, size)
        return _rotary(m, size, new, is_half=False)
