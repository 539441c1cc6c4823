"""A program as c/blocked_program.h has it: steps over buffers, which are views of storages, which
lie in slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

BLOCK = 16  # channels that lie together in the widest layout
NOTHING = -1  # where a step has no second operand, weights or bias


class StepKind(IntEnum):
    """What a step does."""

    LOAD = 0
    STORE = 1
    CONV = 2
    WINOGRAD = 3
    DEPTHWISE = 4
    FIRST = 5
    TRANSPOSED = 6
    MAX_POOL = 7
    AVERAGE_POOL = 8
    GLOBAL_AVERAGE = 9
    ADD = 10
    MUL = 11
    SCALE = 12
    ACT = 13
    RESIZE = 14
    COPY = 15
    PRODUCT = 16
    GROUPED = 17
    LAYER_NORM = 18
    ATTENTION = 19
    CLEAR = 20
    PICK = 21
    RMS_NORM = 22
    ROTARY = 23
    FLATTEN = 24


CONVOLUTIONS = frozenset(
    (
        *(
            StepKind.CONV,
            StepKind.WINOGRAD,
            StepKind.DEPTHWISE,
            StepKind.FIRST,
            StepKind.TRANSPOSED,
        ),
        StepKind.GROUPED,  # of groups that are no whole blocks
        StepKind.PRODUCT,  # a convolution of 1×1, with weights [in, out]
    )
)


NORMS = (StepKind.LAYER_NORM, StepKind.RMS_NORM)
BY_MATRIX = (StepKind.CONV, StepKind.PRODUCT)  # which may be products of pixels with a matrix


class Activation(IntEnum):
    """What is done to each element of a result."""

    NONE = 0
    RELU = 1
    CLIP = 2
    LEAKY_RELU = 3
    SIGMOID = 4
    HARD_SIGMOID = 5
    HARD_SWISH = 6
    SWISH = 7
    GELU = 8
    TANH = 9
    TANH_GELU = 10
    CLIP_SWISH = 11


@dataclass(frozen=True)
class Activated:
    """An activation with its parameters."""

    function: Activation = Activation.NONE
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class KernelWindow:
    """How a convolution or a pool walks over rows and columns. Pads are top, left, bottom, right;
    less than 0 where a transposed convolution makes more rows or columns than its kernel
    reaches.
    """

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    group: int = 1


def are_blocks(first: int, channels: int, whole: int) -> bool:
    """Whether so many channels of an image begin a block, and end one or the image."""
    return first % BLOCK == 0 and (channels % BLOCK == 0 or first + channels == whole)


NO_ACTIVATION = Activated()
PLAIN_WINDOW = KernelWindow()


@dataclass(frozen=True)
class Storage:
    """Memory of images of so many channels, with a border of zeros; storages share a slot at
    different times. Rows of all batches are pixels of one image.
    """

    slot: int
    halo: int
    channels: int
    is_rows: bool


@dataclass(frozen=True)
class Buffer:
    """Some channels of a storage. Planar ones lie one channel after the other."""

    storage: int
    is_planar: bool
    first: int
    channels: int


@dataclass(frozen=True)
class ProgramStep:
    """One step. `out`, `image` and `second` are buffers; of a LOAD `image`, of a STORE `out` is the
    number of a tensor.

    `is_after` says that the second operand is added behind the activation; `chained` how many of
    the steps behind it may be done block by block of channels together with it; `flag` of
    AVERAGE_POOL that zeros around count, of LOAD and STORE that the tensor is rows: its last axis
    are the channels; of WINOGRAD the number of points that a tile has in each direction; of CONV
    and PRODUCT the number of pixels from which on Strassen's algorithm is taken, 0 for never. A
    CONV of single pixels multiplies its weights by the pixel in `third`. `epsilon` is what a norm
    adds to variances. ATTENTION has its queries, keys and values in `image`, `second` and `third`,
    and adds `tensor` to scores that it has multiplied by `scale`; keys and values may have fewer
    heads, each shared by several of the queries. ROTARY turns pairs of channels of each head, half
    of it apart, by the cosines and sines in `second` and `third`, which have a row for each row of
    a batch; of CLEAR `tensor` says which rows are. The channels of a PICK from `flag` on are those
    of the image, of each group in turn, and those in front stay what they are; where it is
    negative, they begin with channel -flag of the image. FLATTEN makes rows of images of one pixel,
    or such images of rows.
    """

    kind: StepKind
    out: int
    image: int
    second: int = NOTHING
    third: int = NOTHING
    tensor: int = NOTHING
    weights: int = NOTHING
    bias: int = NOTHING
    activated: Activated = NO_ACTIVATION
    is_after: bool = False
    window: KernelWindow = PLAIN_WINDOW
    chained: int = 0
    flag: int = 0
    epsilon: float = 0.0
    scale: float = 0.0


@dataclass(frozen=True)
class Program:
    """What the kernel of a blocked area does. `tables` are constants; as tensors they have the
    numbers behind those of the inputs of the area.
    """

    storages: tuple[Storage, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[ProgramStep, ...]
    tables: tuple[np.ndarray, ...]
    slots: int
