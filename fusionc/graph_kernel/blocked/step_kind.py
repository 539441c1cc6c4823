"""The kinds of steps of blocked programs, with their traits; and the steps' windows and
activations.

A program is what the kernel of an area runs. Its steps compute images in a blocked layout.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

BLOCK = 16  # float32 channels in a block, if the processor has the widest vectors
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
    HALF_RANGE = 12  # numbers that float16 cannot represent become infinite


@dataclass(frozen=True)
class Activated:
    """An activation with its parameters."""

    function: Activation = Activation.NONE
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class KernelWindow:
    """How the window of a convolution or pool moves over rows and columns."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    # top, left, bottom, right. A pad is negative if a transposed convolution makes rows or columns
    # that its window does not reach.
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    group: int = 1


def block_of(element_bytes: int) -> int:
    """The number of channels in a block of elements with this many bytes, if vectors are the
    widest.
    """
    return BLOCK * _FLOAT_BYTES // element_bytes


def are_blocks(first: int, channels: int, whole: int, block: int = BLOCK) -> bool:
    """Whether some channels of an image are whole blocks: they begin at the beginning of a block,
    and end at the end of a block or of the image.
    """
    return first % block == 0 and (channels % block == 0 or first + channels == whole)


def are_vectors(channels_in: int, channels_out: int, floats: int) -> bool:
    """Whether the input and output channels of a group fill whole vectors of `floats` floats."""
    return channels_in % floats == 0 and channels_out % floats == 0


NO_ACTIVATION = Activated()
PLAIN_WINDOW = KernelWindow()


@dataclass(frozen=True)
class ImageEstimate:
    """Estimated sizes of images or rows."""

    channels: int
    batches: int
    height: int
    width: int
    pixels: int  # the pixels of one image, or the number of all rows
    is_rows: bool


@dataclass(frozen=True)
class StepSizes:
    """What determines how many products a step has. Each is a number, or a C expression."""

    made: Any  # elements of the result
    taps: Any  # rows times columns of the window
    phases: Any  # rows times columns of the stride
    channels_in: Any
    channels_out: Any
    group: Any
    keys: Any  # rows of `second`, for each batch


def products_of_sums(sizes: StepSizes) -> Any:
    """The number of products in sums over the elements of the window and the channels of a
    group.
    """
    return sizes.made * sizes.taps * sizes.channels_in / sizes.group


@dataclass(frozen=True)
class StepEstimate:
    """What the time of a step depends on."""

    out: ImageEstimate
    image: ImageEstimate
    second: ImageEstimate | None
    third: ImageEstimate | None
    window: KernelWindow
    activated: Activated

    @property
    def sizes(self) -> StepSizes:
        """The estimated sizes of the step. For images, they are the sizes of one image."""
        return StepSizes(
            self.out.pixels * self.out.channels,
            math.prod(self.window.kernel),
            math.prod(self.window.stride),
            self.image.channels,
            self.out.channels,
            self.window.group,
            0 if self.second is None else self.second.pixels / self.second.batches,
        )


@dataclass(frozen=True)
class StepFunctions:
    """The names of a kind's C functions. The header next to the kind's file defines them. For an
    empty name, the runtime has a default.
    """

    # Compiled for each width of vectors as GB(name): gb_width of c/blocked_program.h.
    task: str  # computes some units of the result
    pack: str = ""  # puts weights into the order in which the task reads them
    derive_weights: str = ""  # transforms packed weights into a form that is kept between runs
    scratch: str = ""  # returns how many floats of memory each thread needs for itself
    # Compiled once as gb_name: gb_kind of c/blocked_run.h.
    packed_floats: str = ""  # returns the number of floats of the packed weights
    size: str = ""  # computes the size of the result from the size of the image
    fault: str = ""  # says what is wrong with the sizes of the operands
    divide: str = ""  # divides a step into units
    # Estimates how long a step takes on one thread. The default is the number of products, divided
    # by the number of products in a nanosecond.
    nanoseconds: str = ""
    most_tasks: str = ""  # returns the largest number of tasks for the units
    derive: str = ""  # derives weights when a run first needs them


@dataclass(frozen=True)
class StepKind:
    """What a step does. Each kind is a subclass in a file of kinds/, next to the header with its C
    functions.

    The fields of a kind are the numbers that only steps of this kind have; the C structure gb_step
    has members of the same names. The traits of a kind are the properties that other code asks for.
    The C enumeration, structure, traits and table of functions are generated from these classes.
    """

    functions: ClassVar[StepFunctions]
    # The name of C text that takes long to compile. It is in a library only if a step needs it.
    family: ClassVar[str] = ""
    # Whether its functions are compiled only for vectors of 16 floats, between #if GB_V == 16 and
    # #endif.
    is_of_widest_vectors: ClassVar[bool] = False

    is_convolution: ClassVar[bool] = False  # reads weights and a border, adds `second` to its sums
    is_matrix: ClassVar[bool] = False  # may be a product of pixels and a matrix
    writes_rows: ClassVar[bool] = False  # may write rows directly to the tensors of later stores
    is_copy: ClassVar[bool] = False  # only moves channels
    writes_in_place: ClassVar[bool] = False  # may overwrite its image
    takes_either: ClassVar[bool] = False  # its two operands may be swapped
    reads_all_channels: ClassVar[bool] = False  # needs all channels for each channel of the result
    keeps_channels: ClassVar[bool] = False  # computes each channel from the same channel alone
    # traits that the C code also uses
    keeps_pixels: ClassVar[bool] = False  # unless it has a window: reads only the pixel it computes
    scatters: ClassVar[bool] = False  # may write consecutive pixels to rows with gaps between
    second_is_pixel: ClassVar[bool] = False  # `second` is one pixel for each image
    gives_range: ClassVar[bool] = False  # may also find the range of its result
    reads_tables: ClassVar[bool] = False  # `second` and `third` are rows that may be in tensors

    def halo(self, window: KernelWindow) -> int:
        """The number of rows and columns of zeros that a step reads on each side of its image."""
        return max(window.pads) if self.is_convolution else 0

    @staticmethod
    def products(sizes: StepSizes) -> Any:
        """The number of multiplications of a step. 0 if its time does not depend on them. The C
        function is generated from this one.
        """
        return 0

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        """Estimated seconds of a step on one thread: here, and in onnxruntime. Both are 0 if the
        two times are about equal.
        """
        return 0.0, 0.0

    @classmethod
    def macros(cls) -> dict[str, str]:
        """C macros for the header, name → value: numbers that Python and C share."""
        return {}

    @classmethod
    def enumerator(cls) -> str:
        """The name of the kind in C, without the prefix GB_."""
        words = re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Step"))
        return "_".join(words).upper()
