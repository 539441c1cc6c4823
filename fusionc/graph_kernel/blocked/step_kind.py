"""The steps of blocked programs: their windows, their activations, and the traits of each kind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

BLOCK = 16  # float32 channels that lie together in the widest layout
_FLOAT_BYTES = 4


class Activation(IntEnum):
    """A function that a step applies to each element of its result."""

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
    """How a convolution or a pool walks over rows and columns."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    # top, left, bottom, right; negative if a transposed convolution makes more rows or columns
    # than its kernel reaches
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    group: int = 1


def block_of(element_bytes: int) -> int:
    """How many channels lie together in the widest layout, if each element has so many bytes."""
    return BLOCK * _FLOAT_BYTES // element_bytes


def are_blocks(first: int, channels: int, whole: int, block: int = BLOCK) -> bool:
    """Whether these channels of an image begin at a block, and end at a block or at the end."""
    return first % block == 0 and (channels % block == 0 or first + channels == whole)


def are_vectors(channels_in: int, channels_out: int, floats: int) -> bool:
    """Whether the channels of a group, in and out, are whole vectors of so many floats."""
    return channels_in % floats == 0 and channels_out % floats == 0


NO_ACTIVATION = Activated()
PLAIN_WINDOW = KernelWindow()


@dataclass(frozen=True)
class ImageEstimate:
    """About how large images, or rows, are."""

    channels: int
    batches: int
    height: int
    width: int
    pixels: int  # of one image; of all rows
    is_rows: bool


@dataclass(frozen=True)
class StepEstimate:
    """What the time of a step depends on."""

    out: ImageEstimate
    image: ImageEstimate
    second: ImageEstimate | None
    third: ImageEstimate | None
    window: KernelWindow
    activated: Activated


@dataclass(frozen=True)
class StepFunctions:
    """The C functions of a kind, which the header next to its file defines. The runtime has one of
    its own for each that is not named.
    """

    # compiled for each width of vectors as GB(name): gb_width of c/blocked_program.h
    task: str  # computes some units of the result
    pack: str = ""  # puts weights in the order in which the task reads them
    derive_weights: str = ""  # makes of packed weights what runs keep
    scratch: str = ""  # how many floats of memory a thread needs for itself
    # compiled once as gb_name: gb_kind of c/blocked_run.h
    packed_floats: str = ""  # how many floats packed weights are
    size: str = ""  # the size of the result, from that of the image
    fault: str = ""  # what is wrong with the sizes of the operands
    divide: str = ""  # cuts a step into units
    nanoseconds: str = ""  # about how long a step takes on one thread
    most_tasks: str = ""  # into how many tasks the units are put at most
    derive: str = ""  # derives weights, when a run needs them for the first time


@dataclass(frozen=True)
class StepKind:
    """What a step does. Each kind is a subclass in a file of kinds/, next to the header with its C
    functions.

    The fields of a kind are the numbers that only its steps have; gb_step of C has them by the
    same names. Its traits are what others ask about it: the C enumeration, structure, traits and
    table of functions are generated from these classes.
    """

    functions: ClassVar[StepFunctions]
    # C text that takes long to compile, so that only libraries with such a step have it
    family: ClassVar[str] = ""
    # its functions are compiled for vectors of 16 floats alone, between #if GB_V == 16 and #endif
    is_of_widest_vectors: ClassVar[bool] = False

    is_convolution: ClassVar[bool] = False  # reads weights and a border, adds `second` to its sums
    is_matrix: ClassVar[bool] = False  # may be a product of pixels with a matrix
    writes_rows: ClassVar[bool] = False  # may write rows where later stores would
    is_copy: ClassVar[bool] = False  # moves channels, and computes nothing
    writes_in_place: ClassVar[bool] = False  # may write where its image lies
    takes_either: ClassVar[bool] = False  # its operands may change places
    reads_all_channels: ClassVar[bool] = False  # for each channel that it makes
    keeps_channels: ClassVar[bool] = False  # makes each channel from the same one alone
    reads_model_weights: ClassVar[bool] = False  # as they are, in addition to packed ones
    # traits that C asks about, too
    keeps_pixels: ClassVar[bool] = False  # makes each pixel from the same one alone, if no window
    scatters: ClassVar[bool] = False  # may make pixels side by side that lie in rows with gaps
    second_is_pixel: ClassVar[bool] = False  # `second` is one pixel for each image
    reads_tables: ClassVar[bool] = False  # `second` and `third` are rows that may lie in tensors

    def halo(self, window: KernelWindow) -> int:
        """How many rows and columns of zeros a step reads around its image."""
        return max(window.pads) if self.is_convolution else 0

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        """About how long a step takes on one thread, here and in onnxruntime; 0 and 0 if both take
        as long.
        """
        return 0.0, 0.0

    @classmethod
    def macros(cls) -> dict[str, str]:
        """C macros for the header by their names: numbers that Python knows as well."""
        return {}

    @classmethod
    def enumerator(cls) -> str:
        """The name of the kind, as in GB_… of C."""
        words = re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Step"))
        return "_".join(words).upper()
