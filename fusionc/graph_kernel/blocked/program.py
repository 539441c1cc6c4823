"""A program: steps over buffers. A buffer is a range of channels in a storage (the memory of an
image), and several storages may be in the same slot of memory at different times.
c/blocked_program.h explains the same terms.
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

NOTHING = -1  # the number of an operand, weights or bias that a step does not have


@dataclass(frozen=True)
class Storage:
    """Memory of images. Several storages may share a slot if they are used at different times."""

    slot: int  # the number of its slot
    halo: int  # the rows and columns of zeros on each side of an image
    channels: int
    is_rows: bool  # whether the rows of all batches are stored as the pixels of one image
    element_bytes: int = 4


@dataclass(frozen=True)
class Buffer:
    """A range of channels of a storage."""

    storage: int
    is_planar: bool  # whether channels are stored one after the other, as in a tensor
    first: int  # the first channel
    channels: int


@dataclass(frozen=True)
class ProgramStep:
    """One step. Its operands are the numbers of buffers or, if a comment says so, of tensors.
    NOTHING means that the step does not have the operand.

    `image`, `second` and `third` are, for example, the queries, keys and values of attention, or
    the rows, cosines and sines of a rotary embedding. If a 1×1 convolution has a `third`, this is a
    pixel by which the convolution multiplies its weights.
    """

    kind: StepKind
    out: int  # of a StoreStep: a tensor
    image: int  # of a LoadStep: a tensor
    second: int = NOTHING
    third: int = NOTHING
    tensor: int = NOTHING  # a tensor that is read in its own layout
    weights: int = NOTHING  # a tensor
    bias: int = NOTHING  # a tensor
    activated: Activated = NO_ACTIVATION
    is_after: bool = False  # whether `second` is added after the activation, not before it
    window: KernelWindow = PLAIN_WINDOW
    chained: int = 0  # how many of the next steps may run with it, block by block


@dataclass(frozen=True)
class Unpacking:
    """How weights are computed when a session is created. The operands are the numbers of
    tensors.
    """

    packed: int  # the integers; steps have this number as their weights
    scale: int
    zero: int  # NOTHING if all zero points are 0
    weights: DequantizedWeights


@dataclass(frozen=True)
class Program:
    """The program of an area: what its kernel does."""

    storages: tuple[Storage, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[ProgramStep, ...]
    tables: tuple[np.ndarray, ...]  # constants; as tensors, their numbers follow the area's inputs
    slots: int  # the number of slots
    unpackings: tuple[Unpacking, ...] = ()
