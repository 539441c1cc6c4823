from onnx import TensorProto

from fusionc.model.types import same_after_reshape
from fusionc.passes.heads import heads_of, joined
from fusionc.passes.rotary import cache_of, is_last
from fusionc.passes.slicing import Cut, axes_of, cuts_of, piece_of
from fusionc.passes.splitting import sizes_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula

x, cos, sin = var("x"), var("cos"), var("sin")
_split = op.Split(x, rest("sizes"), _as="split")
_low, _high = op.Slice(x, rest("low_cut"), _as="low"), op.Slice(x, rest("high_cut"), _as="high")


def _turned(low: Formula, high: Formula) -> Formula:
    return x * cos + op.Concat(-high, low, _as="concat") * sin


def _halves(low: Formula, high: Formula) -> Formula:
    return op.Concat(low * cos - high * sin, high * cos + low * sin, _as="concat")


_PAIRS = op.Concat(
    op.Unsqueeze(_low * cos - _high * sin, rest("real_axes"), _as="real"),
    op.Unsqueeze(_high * cos + _low * sin, rest("imaginary_axes"), _as="imaginary"),
    _as="concat",
)


def _size(m: Match) -> int:
    """How many elements of each head are turned. Refuses what the operator cannot turn."""
    if any(value.elem_type != TensorProto.FLOAT for value in (m.x, m.cos, m.sin)):
        refuse("the elements are not float32")
    shape = m.x.shape
    if shape is None or len(shape) != 4 or not isinstance(shape[3], int) or shape[3] % 2 or not shape[3]:
        refuse("x is not known to have four axes, the last one even")
    return int(shape[3])


def _rotary(m: Match, new: Tape, *, is_half: bool, interleaved: int | None = None) -> Result:
    caches = [cache_of(value, m.x, new, is_half=is_half) for value in (m.cos, m.sin)]
    return new.RotaryEmbedding(m.x, *caches, interleaved=interleaved)


def _require_halves(m: Match) -> None:
    size = _size(m)
    if m.captures.get("split") is not None:
        are_halves = is_last(m.split, m.x) and sizes_of(m.split) == [size // 2] * 2
    else:
        pieces = piece_of(m.low), piece_of(m.high)
        are_halves = pieces == ((m.x, 3, 0, size // 2), (m.x, 3, size // 2, size))
    if not are_halves or not is_last(m.concat, m.x):
        refuse("not the two halves of the last axis are turned")


def _rewrite_halves(m: Match, new: Tape) -> Result:
    _require_halves(m)
    return _rotary(m, new, is_half=True)


def _rewrite_pairs(m: Match, new: Tape) -> Result:
    size = _size(m)
    for node, start in ((m.low, 0), (m.high, 1)):
        cuts = cuts_of(node) or [Cut(0, 0, 0)]
        cut = cuts[0]
        if len(cuts) != 1 or cut.axis not in (3, -1) or (cut.start, cut.step) != (start, 2) or cut.end < size:
            refuse("not every second element is taken")
    stacked = (axes_of(m.real), axes_of(m.imaginary), [m.concat.attr("axis")])
    if any(axes not in ([4], [-1]) for axes in stacked) or not same_after_reshape(m.merge.outputs[0].shape, m.x.shape):
        refuse("real and imaginary part are not known to alternate")
    return _rotary(m, new, is_half=True, interleaved=1)


def _rewrite_partial(m: Match, new: Tape) -> Result:
    sizes = sizes_of(m.split)
    if m.x.rank != 4 or not (is_last(m.split, m.x) and is_last(m.concat, m.x)) or sizes is None or len(sizes) != 2:
        refuse("not two known pieces of the last of four axes")
    turned = m.rotary.attr("rotary_embedding_dim") or sizes[0]
    return new.RotaryEmbedding(m.x, m.cos, m.sin, like=m.rotary, rotary_embedding_dim=turned)


def _with_heads_inside(m: Match, new: Tape) -> Result:
    """Turn before the heads are split."""
    transpose = m.x.producer
    reshape = transpose.inputs[0].producer
    made = new.RotaryEmbedding(joined(m.x), m.cos, m.sin, like=m.rotary, num_heads=heads_of(m.x))
    return new.Transpose(new.Reshape(made, reshape.inputs[1], like=reshape), like=transpose)


class RotaryEmbeddingFusionPass(Pass):
    """Rotary position embedding that is written out becomes RotaryEmbedding.

    before   x·cos + Concat(−x₂, x₁)·sin; Concat(x₁·cos − x₂·sin, x₂·cos + x₁·sin), x₁ and x₂ being halves (Split or
             Slice), or stacked, every second element; Concat(RotaryEmbedding(Split(x)₀), Split(x)₁)
    after    RotaryEmbedding(x, cos, sin), before the heads are split where they are
    refuses  opset below 23; x with other ranks than 4 or elements other than float32; cosine or sine of which the two
             halves are not known to be the same, or that does not fit x
    algebra  the definition of RotaryEmbedding; onnxruntime 1.31.1, 2 threads, ratio to the parts, the Expand of a
             cosine for all of a batch included: 0.58 to 0.76 for one position, 0.25 to 0.65 for 16 to 512
    source   onnxruntime's and onnxscript's rotary embedding fusions
    """

    numerics = "rounding"
    patterns = (
        Pattern("RotaryEmbedding", either(_turned(_split[0], _split[1]), _turned(_low, _high))),
        Pattern("RotaryHalves", either(_halves(_split[0], _split[1]), _halves(_low, _high)), _rewrite_halves),
        Pattern("RotaryPairs", op.Reshape(_PAIRS, var("shape"), _as="merge"), _rewrite_pairs),
        Pattern(
            "RotaryPartial",
            op.Concat(op.RotaryEmbedding(_split[0], cos, sin, _as="rotary"), _split[1], _as="concat"),
            _rewrite_partial,
        ),
        Pattern(
            "RotaryHeads",
            op.RotaryEmbedding(x, cos, sin, _as="rotary"),
            _with_heads_inside,
            where=lambda m: joined(m.x) is not None and m.x.use_count == 1,
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        _require_halves(m)
        return _rotary(m, new, is_half=False)
