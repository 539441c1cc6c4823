"""An area: operators that graph kernel fusion turns into one, with one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag

import numpy as np
import onnx

# The doc_string of functions whose kernels compute in bfloat16. Later conversions recognize such
# functions by it.
NARROW_DOC = "Its kernel multiplies numbers of bfloat16 on processors that have it."


@dataclass(frozen=True)
class AreaValue:
    """A value of an area. `dtype` is an onnx.TensorProto data type.

    A dimension is a number or a symbol; dimensions with the same symbol have the same size. An
    unknown size has a symbol of its own. When the model runs, this size may be any number, even 0
    or 1, so it may broadcast against another size.
    """

    name: str
    dtype: int
    shape: tuple[int | str, ...]


class KernelKind(Flag):
    """The kind of an area's kernel: loops, or steps over images or rows in a blocked layout.

    Steps may use algorithms with fewer multiplications: Winograd's for 3×3 convolutions, and
    Strassen's for products of matrices. With NARROW, convolutions and matrix products multiply
    bfloat16 numbers on processors that have instructions for it.
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
    """Operators in topological order, and the values that they read and write by name.

    An omitted optional input of a node is "".
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
    # the weights of those convolutions and products that use no algorithm with fewer
    # multiplications
    direct: frozenset[str] = frozenset()
    # the names that values had in the model; equal areas may have different ones
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
