import numpy as np

from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.signal._fourier_matrix import fourier_matrix, parts_of, require_continuous
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, maybe, op, refuse, var


class DftToMatMulPass(Pass):
    """The Fourier transform of short signals becomes a product with the Fourier matrix.

    before   DFT(signal, dft_length?) along the last axis before the real and imaginary parts
    after    Reshape(MatMul(Reshape(signal), matrix))
    refuses  another axis; a transform whose length is not that of the signal; a one-sided transform
             that is inverse, or of a complex signal; lengths for which the transform is faster:
             powers of two above about 256; a matrix of more than 4 MiB; a later Atan, Sign, Sqrt,
             Log, comparison, quantization, or division by the result, because these may depend on
             the last bit of a number near 0
    algebra  X[k] = Σₙ x[n]·e^(−2πikn/N). If the length is not a power of two, the errors of
             onnxruntime's DFT are larger: 3e-5 of the largest element for length 400 and 1e-4 for
             length 1000. Those of the matrix product are 5e-7
    source   measured: 0.1 of the time for length 400, 0.4 for 64
    """

    numerics = "rounding"
    is_for_finite = True  # an infinite element affects other bins than in the DFT
    patterns = (
        Pattern("DFT", op.DFT(var("x"), maybe(const("length")), maybe(const("axis")), _as="dft")),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        require_continuous(m.outputs[0])
        rank = m.x.require_rank(least=3, of="the signal")
        parts = parts_of(m.x.shape[-1])
        length = _length(m)
        if _axis(m) % rank != rank - 2:
            refuse("the axis is not the last one before the real and imaginary parts")
        onesided = bool(m.dft.attr("onesided"))
        inverse = bool(m.dft.attr("inverse"))
        if onesided and inverse:
            refuse("the transform is one-sided and inverse")
        if onesided and parts == 2:
            refuse("the transform is one-sided and complex, which is not valid")
        matrix = fourier_matrix(length, parts, onesided=onesided, inverse=inverse)
        bins = matrix.shape[2]
        numbers = new.Reshape(m.x, new.const(np.array([*[0] * (rank - 2), length * parts])))
        product = new.MatMul(
            numbers, new.const(matrix.reshape(length * parts, 2 * bins), dtype=m.x.dtype)
        )
        return new.Reshape(product, new.const(np.array([*[0] * (rank - 2), bins, 2])))


def _length(m: Match) -> int:
    """The length of the signal. Refuses a transform of another length."""
    length: int = m.x.require_size(-2, "the length of the signal")
    if length < 1:
        refuse("the signal is empty")
    if m.length is not None and m.length.require_number("the length") != length:
        refuse("the signal is cut or padded")
    return length


def _axis(m: Match) -> int:
    """The axis of the transform: an attribute below opset 20, else an input."""
    if m.opset < 20:
        return int(m.dft.attr("axis"))
    return -2 if m.axis is None else int(m.axis.require_number("the axis"))
