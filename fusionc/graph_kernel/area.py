"""An area: operators that graph kernel fusion turns into one operator, which one kernel
computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag

import numpy as np
import onnx

# The doc_string of the functions whose kernels compute in bfloat16. A later conversion of the model
# recognizes such functions by it.
NARROW_DOC = "Its kernel multiplies numbers of bfloat16 on processors that have it."


@dataclass(frozen=True)
class AreaValue:
    """A value of an area. `dtype` is an onnx.TensorProto data type.

    A dimension is a number or a symbol. Dimensions with the same symbol have the same size. Each
    unknown size has a symbol that no other size has. When the model runs, an unknown size may be
    any number, even 0 or 1, so its dimension may be broadcast.
    """

    name: str
    dtype: int
    shape: tuple[int | str, ...]


class KernelKind(Flag):
    """The kind of an area's kernel: loops, or steps over images or rows in a blocked layout.

    The steps may use algorithms with fewer multiplications: Winograd's algorithm for 3×3
    convolutions, and Strassen's for matrix products. With NARROW, convolutions and matrix products
    multiply bfloat16 numbers on processors that have instructions for it.
    """

    LOOPS = 1
    BLOCKED = 2
    # Each bit needs a name: Python 3.11.2 loses bits without a name when it combines flags.
    FEWER_OF_CONVOLUTIONS = 4
    FEWER_OF_MATRICES = 8
    OF_BFLOAT16 = 16
    WINOGRAD = BLOCKED | FEWER_OF_CONVOLUTIONS
    STRASSEN = BLOCKED | FEWER_OF_MATRICES
    NARROW = BLOCKED | OF_BFLOAT16


@dataclass(frozen=True)
class Area:
    """Operators in topological order, and the names of the values that they read and write.

    The name of an omitted optional input of a node is "".
    """

    name: str  # of the operator in the domain fusionc.gk; a C identifier
    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]  # large constants are inputs, too
    outputs: tuple[str, ...]
    values: Mapping[str, AreaValue]  # inputs, inner values and outputs
    opset: int
    # constants that become part of the kernel: scalars, axes and small tables
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    kind: KernelKind = KernelKind.LOOPS
    # in a NARROW area: the weights of convolutions and products that still compute in float32
    wide: frozenset[str] = frozenset()
    # the weights of the convolutions and products that must not use an algorithm with fewer
    # multiplications
    direct: frozenset[str] = frozenset()
    # each value → its name in the model; two equal areas may have different names here
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
