"""Whether a Cast changes its input, and whether one element type can represent all numbers of
another one.
"""

from onnx import TensorProto

from fusionc.rewrite import Match

# for each type, the number of bits of the mantissa and of the exponent
_FLOATS: dict[int, tuple[int, int]] = {
    TensorProto.FLOAT16: (10, 5),
    TensorProto.BFLOAT16: (7, 8),
    TensorProto.FLOAT: (23, 8),
    TensorProto.DOUBLE: (52, 11),
}
# for each type, the number of bits, and whether it is signed
_INTEGERS: dict[int, tuple[int, bool]] = {
    TensorProto.INT8: (8, True),
    TensorProto.INT16: (16, True),
    TensorProto.INT32: (32, True),
    TensorProto.INT64: (64, True),
    TensorProto.UINT8: (8, False),
    TensorProto.UINT16: (16, False),
    TensorProto.UINT32: (32, False),
    TensorProto.UINT64: (64, False),
}


def casts_nothing(m: Match) -> bool:
    """Whether m.x already has the type to which m.cast casts it."""
    return bool(m.x.elem_type == m.cast.attr("to"))


def holds(wide: int, narrow: int) -> bool:
    """Whether the type `wide` can represent every number of the type `narrow`."""
    if wide == narrow:
        return True
    if narrow == TensorProto.BOOL:
        return wide in _FLOATS or wide in _INTEGERS
    if narrow in _INTEGERS:
        return _holds_integers(wide, *_INTEGERS[narrow])
    if wide not in _FLOATS or narrow not in _FLOATS:
        return False
    return all(a >= b for a, b in zip(_FLOATS[wide], _FLOATS[narrow], strict=True))


def _holds_integers(wide: int, bits: int, is_signed: bool) -> bool:
    if wide in _FLOATS:  # the leading 1 of the mantissa is not stored
        mantissa, exponent = _FLOATS[wide]
        return bits - is_signed <= mantissa + 1 and bits <= 2 ** (exponent - 1)
    wide_bits, is_wide_signed = _INTEGERS.get(wide, (0, False))
    if is_signed == is_wide_signed:
        return wide_bits >= bits
    return is_wide_signed and wide_bits > bits
