"""Casts: which element types hold all numbers of which others."""

from onnx import TensorProto

from fusionc.rewrite import Match

# of the mantissa and of the exponent; integers: of the number, and none
_BITS: dict[int, tuple[int, int]] = {
    TensorProto.FLOAT16: (10, 5),
    TensorProto.BFLOAT16: (7, 8),
    TensorProto.FLOAT: (23, 8),
    TensorProto.DOUBLE: (52, 11),
}
_SIGNED: dict[int, int] = {
    TensorProto.INT8: 8,
    TensorProto.INT16: 16,
    TensorProto.INT32: 32,
    TensorProto.INT64: 64,
}
_UNSIGNED: dict[int, int] = {
    TensorProto.UINT8: 8,
    TensorProto.UINT16: 16,
    TensorProto.UINT32: 32,
    TensorProto.UINT64: 64,
}


def casts_nothing(m: Match) -> bool:
    """Whether x has the type already."""
    return bool(m.x.elem_type == m.cast.attr("to"))


def holds(wide: int, narrow: int) -> bool:
    """Whether every number of the type `narrow` is one of the type `wide`."""
    if wide == narrow or narrow == TensorProto.BOOL:
        return wide == narrow or wide in (*_BITS, *_SIGNED, *_UNSIGNED)
    if narrow in _BITS:
        return wide in _BITS and all(
            a >= b for a, b in zip(_BITS[wide], _BITS[narrow], strict=True)
        )
    size = _SIGNED.get(narrow) or _UNSIGNED.get(narrow)
    if size is None:
        return False
    if wide in _BITS:  # the largest number needs size − 1 bits after the leading one
        return size - (narrow in _SIGNED) <= _BITS[wide][0] + 1 and size <= 2 ** (
            _BITS[wide][1] - 1
        )
    if narrow in _UNSIGNED and wide in _SIGNED:
        return _SIGNED[wide] > size
    return (_SIGNED if narrow in _SIGNED else _UNSIGNED).get(wide, 0) >= size
