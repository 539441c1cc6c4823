"""A program: steps over buffers. A buffer is a view of a storage, and storages are in slots of
memory. The same terms are explained in c/blocked_program.h.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fusionc.graph_kernel.blocked.step_kind import (
    NO_ACTIVATION,
    PLAIN_WINDOW,
    Activated,
    KernelWindow,
    StepKind,
)
from fusionc.graph_kernel.blocked.weight_dequantization import DequantizedWeights

NOTHING = -1  # written as the number of an operand, weights or bias that a step does not have


@dataclass(frozen=True)
class Storage:
    """Memory of images. Several storages may share a slot at different times."""

    slot: int
    halo: int  # rows and columns of zeros around each image
    channels: int
    is_rows: bool  # whether the rows of all batches are stored as the pixels of one image
    element_bytes: int = 4


@dataclass(frozen=True)
class Buffer:
    """Some channels of a storage."""

    storage: int
    is_planar: bool  # whether channels are stored one after the other, as in a tensor
    first: int
    channels: int


@dataclass(frozen=True)
class ProgramStep:
    """One step. Its operands are numbers of buffers, unless a comment says otherwise, or NOTHING.

    The image, `second` and `third` are, for example, the queries, keys and values of attention, or
    the rows, cosines and sines of a rotary embedding. If a 1×1 convolution has a `third`, it
    multiplies its weights by that pixel.
    """

    kind: StepKind
    out: int  # of a StoreStep the number of a tensor
    image: int  # of a LoadStep the number of a tensor
    second: int = NOTHING
    third: int = NOTHING
    tensor: int = NOTHING  # a tensor that is read as it is
    weights: int = NOTHING  # a tensor
    bias: int = NOTHING  # a tensor
    activated: Activated = NO_ACTIVATION
    is_after: bool = False  # whether `second` is added after the activation, not before it
    window: KernelWindow = PLAIN_WINDOW
    chained: int = 0  # how many of the next steps may run with it, block by block of channels


@dataclass(frozen=True)
class Unpacking:
    """How weights are computed when a session is created. Operands are numbers of tensors."""

    packed: int  # the integers; steps have this number as their weights
    scale: int
    zero: int  # NOTHING if all zero points are 0
    weights: DequantizedWeights


@dataclass(frozen=True)
class Program:
    """What the kernel of a blocked area does."""

    storages: tuple[Storage, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[ProgramStep, ...]
    tables: tuple[np.ndarray, ...]  # constants, numbered after the area's inputs
    slots: int
    unpackings: tuple[Unpacking, ...] = ()
