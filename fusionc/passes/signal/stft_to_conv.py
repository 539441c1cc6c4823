import numpy as np

from fusionc.passes._shared.target import require_onnxruntime
from fusionc.passes.signal._fourier_matrix import fourier_matrix, parts_of, require_continuous
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, const, maybe, op, refuse, var


class StftToConvPass(Pass):
    """The short-time Fourier transform becomes a convolution with its window and its waves.

    before   STFT(signal, frame_step, window?, frame_length?)
    after    Reshape(Transpose(Conv(Transpose(signal), waves · window, strides = frame_step)));
             Unsqueeze of a signal of rank 2, which onnxruntime takes and exporters write, for one
             without its last axis of length 1
    refuses  a complex signal; a window of another length; where the transform is faster: a length
             that is a power of two, beyond 256 or so, or a matrix of more than 4 MiB; where Atan,
             Sign, a comparison or a quantization follows, whose result the last bit of a number
             near 0 decides
    algebra  X[t, k] = Σₙ x[t·step + n]·w[n]·e^(−2πikn/N), which is a correlation for each real and
             imaginary part; of lengths that are no power of two onnxruntime's STFT is off by 3e-5
             of the largest, the sum by 4e-7
    source   measured: 0.1 of the time at length 400
    """

    numerics = "rounding"
    is_for_finite = True  # in a sum only the bins that it goes into become infinite
    patterns = (
        Pattern(
            "STFT",
            op.STFT(
                var("x"), const("step"), maybe(const("window")), maybe(const("length")), _as="stft"
            ),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        require_continuous(m.outputs[0])
        shape = m.x.shape
        if shape is None or len(shape) not in (2, 3):
            refuse("the signal has an unknown rank")
        if len(shape) == 3 and parts_of(shape[2]) == 2:
            refuse("the signal is not real")
        if any(value is not None and value.constant().size != 1 for value in (m.step, m.length)):
            refuse("a length is not one number")
        given = None if m.window is None else m.window.constant().astype(np.float64)
        length = (
            int(m.length.constant().item())
            if m.length is not None
            else 0
            if given is None
            else given.size
        )
        step = int(m.step.constant().item())
        if length < 1 or step < 1 or (given is not None and given.shape != (length,)):
            refuse("the window has another length than a frame")
        waves = fourier_matrix(length, 1, onesided=bool(m.stft.attr("onesided")))
        bins = waves.shape[2]
        windowed = waves.reshape(length, 2 * bins) * (1 if given is None else given[:, None])
        weights = new.const(windowed.T.reshape(2 * bins, 1, length), dtype=m.x.dtype)
        channel_first = (
            new.Transpose(m.x, perm=[0, 2, 1])
            if len(shape) == 3
            else new.Unsqueeze(m.x, new.const([1]))
        )
        frames = new.Conv(channel_first, weights, kernel_shape=[length], strides=[step])
        size = new.const(np.array([0, 0, bins, 2]))
        return new.Reshape(new.Transpose(frames, perm=[0, 2, 1]), size)
